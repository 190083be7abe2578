// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/distributed/world.h"
#include "ebb/tensor.h"

// Operations in which all ranks of a world take part. They are nodes like any other, computed when needed, with two
// differences. Collectives are never merged, dropped or reordered: computing one computes those that were created
// before it, in order. And ranks compare what they are about to do: where their programs differ (another operation,
// shape, dtype or order), every rank throws an Error that names the first difference.
//
// Sums are ordered: ranks are added as a binary tree, (0 + 1) + (2 + 3), elements of f16 and bf16 in f32, rounded once.
//
// Gradients are those of the sum of the losses of all ranks. Where every rank computes the same loss from replicated
// values, use copy_to_ranks and sum_over_ranks instead.
namespace ebb::distributed {

// The sum over the ranks of x, which has one shape on all of them.
Tensor all_reduce(const Tensor& x, const World& among = world());
// Part `rank` of the sum over the ranks: of x [n, ...] the rows [rank·n/size, (rank + 1)·n/size). n is a multiple of
// size.
Tensor reduce_scatter(const Tensor& x, const World& among = world());
// The x of all ranks, one after the other along the first axis.
Tensor all_gather(const Tensor& x, const World& among = world());
// The x of one rank, on all of them. The others give a tensor of the same shape and dtype.
Tensor broadcast(const Tensor& x, int root = 0, const World& among = world());
// Part r of x, along the first axis, goes to rank r; part r of the result came from rank r.
Tensor all_to_all(const Tensor& x, const World& among = world());

// For replicated values, with one loss for all ranks: x itself, whose gradient is summed over the ranks; and the sum
// over the ranks, whose gradient goes to each of them as it is. Between the two each rank computes its part.
Tensor copy_to_ranks(const Tensor& x, const World& among = world());
Tensor sum_over_ranks(const Tensor& x, const World& among = world());

}  // namespace ebb::distributed
