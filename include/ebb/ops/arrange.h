// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ebb/ops/elementwise.h"
#include "ebb/ops/index.h"
#include "ebb/ops/shape.h"

// Joining, repeating, searching, and assigning by position. Operations marked "computed at once" are evaluated
// immediately because their shape depends on the values; indices carry no gradient, values do.
namespace ebb {

Tensor hstack(const std::vector<Tensor>& tensors);  // side by side: vectors along axis 0, others along axis 1
Tensor vstack(const std::vector<Tensor>& tensors);  // on top of each other: vectors are rows

// Each element, or slice along an axis, several times in a row; without an axis, of the flattened tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis = {});
// With a separate count per element: computed at once.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis = {});

// The numbers 0 to n − 1 in random order, i64.
Tensor randperm(std::int64_t n);

// Where values would be inserted into sorted rows (the last axis) to keep them sorted: before equal elements, or
// (right) after them. i64, in the shape of values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

// The largest or smallest element so far and its position, the last one of equals; NaN propagates. The gradient goes
// there.
std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis);
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis);

// log Σ e^x of the elements so far.
Tensor logcumsumexp(const Tensor& x, std::int64_t axis);

// x with whole slices along an axis set to a number.
Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, TensorOrScalar value);

// x with values at [indices[0], indices[1], ...], which broadcast; where a position repeats, the last value wins, or
// with accumulate all are added to what is there.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate = false);

// x combined with src at index, as scatter addresses it: reduce is "sum", "prod", "mean", "amax" or "amin".
// Without include_self the values of x at these positions do not count. Of equal largest or smallest elements, one gets
// the gradient.
Tensor scatter_reduce(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self = true);

// The positions of nonzero elements, one row each, i64 [count, rank]. Computed at once.
Tensor nonzero(const Tensor& x);

// The distinct elements in ascending order, the index of each element of x among them, and their counts. Computed at
// once; the elements carry no gradient.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x);

}  // namespace ebb
