// SPDX-License-Identifier: MIT
#pragma once
#include "calls/index_lines.h"
#include "ebb/tensor.h"

// The nodes behind the public index operations and their gradient rules. Indices are i64; the axis exists and shapes
// fit.
namespace ebb {

// Checks that the index has an integer dtype it may have and widens it to i64.
Tensor index_operand(const char* op, const Tensor& index);

// x at index along an axis: a pick where the index has one element there and x's size elsewhere, else a gather.
Tensor gather_node(const Tensor& x, int axis, const Tensor& index, IndexLines lines = IndexLines::any);
// Zeros of `shape` with src added at index: the transpose of gather_node.
Tensor scatter_zero_add(const Tensor& src, int axis, const Tensor& index, const Shape& shape,
                        IndexLines lines = IndexLines::any);
Tensor scatter_node(const Tensor& x, int axis, const Tensor& index, const Tensor& src);
// Slices of x, and zeros of `shape` with slices added.
Tensor index_select_node(const Tensor& x, int axis, const Tensor& index, IndexLines lines = IndexLines::any);
Tensor index_zero_add(const Tensor& src, int axis, const Tensor& index, const Shape& shape,
                      IndexLines lines = IndexLines::any);

// Rows of x [N, C, S] and y [N, C, P], of one floating dtype; index (i64) and weights [N, P, K], those in the compute
// dtype of x. The sum Σ y[n, c, p]·weight[n, p, k]·x[n, c, index[n, p, k]], where an index of −1 stands for x = 0, is
// linear in each, and its derivatives to the three are
//   weighted_gather (x, index, weight) -> y,  weighted_scatter (y, index, weight) -> x,  gather_dot (x, y, index) ->
//   weight.
Tensor weighted_gather_node(const Tensor& x, const Tensor& index, const Tensor& weight);
Tensor weighted_scatter_node(const Tensor& y, const Tensor& index, const Tensor& weight, std::int64_t size);
Tensor gather_dot_node(const Tensor& x, const Tensor& y, const Tensor& index);

// s_i = g_i + x_{i+1}·s_{i+1} along the axis, for g and x of one shape and floating dtype. Summed in f64.
Tensor linear_recurrence(const Tensor& g, const Tensor& x, int axis);

// Places [first, first + count) of argsort along an axis, without sorting the others.
Tensor argsort_range(const Tensor& x, int axis, bool descending, std::int64_t first, std::int64_t count);

}  // namespace ebb
