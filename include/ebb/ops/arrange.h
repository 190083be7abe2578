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

// Joining, repeating, searching, and writing to places. What is said to be computed at once has a shape that depends on
// the numbers; indices carry no gradient, values do.
namespace ebb {

Tensor hstack(const std::vector<Tensor>& tensors);  // side by side: vectors along axis 0, others along axis 1
Tensor vstack(const std::vector<Tensor>& tensors);  // one above the other: vectors are rows

// Each element, or slice along an axis, several times in a row; without an axis of the flattened tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis = {});
// As often as a number of its own says: computed at once.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis = {});

// The numbers 0 to n − 1 in random order, i64.
Tensor randperm(std::int64_t n);

// Where values would be inserted into sorted rows (the last axis) to keep them sorted: before equal elements, or
// (right) behind them. i64, of the shape of values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

// The largest, smallest element so far and its position, the last one of equals; NaN stays. The gradient goes there.
std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis);
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis);

// log Σ e^x of the elements so far.
Tensor logcumsumexp(const Tensor& x, std::int64_t axis);

// x with a number at whole slices along an axis.
Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, TensorOrScalar value);

// x with values at [indices[0], indices[1], ...], which broadcast; where a place repeats, the last one stays, or with
// accumulate all are added to what is there.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate = false);

// x combined with src at index, as scatter addresses it: reduce is "sum", "mean", "amax" or "amin". Without
// include_self what x had at these places does not count. Of equal largest or smallest elements, one gets the gradient.
Tensor scatter_reduce(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self = true);

// The positions of elements that are not 0, one row for each, i64 [count, rank]. Computed at once.
Tensor nonzero(const Tensor& x);

// The different elements in ascending order, which of them each element of x is, and how often each occurs. Computed at
// once; the elements carry no gradient.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x);

}  // namespace ebb
