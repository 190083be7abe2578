// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "ebb/tensor.h"

namespace ebb {

// Indices are i64 or i32, start at 0, and are checked: an Error names the position and the value of the first that is
// out of range.

// out[i][j][k] = x[i][index[i][j][k]][k] for axis 1, and so on. The result has the shape of index.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);
Tensor take_along(const Tensor& x, const Tensor& index, std::int64_t axis);  // gather; the other axes broadcast

// Weighted sums of elements of a row, as interpolation needs them: out[n][c][p] = Σ_k
// weight[n][p][k]·x[n][c][index[n][p][k]] for x [N, C, S], index and weight [N, P, K]; an index of −1 stands for a
// zero. Halves are added in f32 and rounded once; weights of halves may be f32 where x is not.
Tensor weighted_gather(const Tensor& x, const Tensor& index, const Tensor& weight);

// A copy of x in which x[i][index[i][j][k]][k] = src[i][j][k]; where an index repeats, the last value wins.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value);
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);

// Whole slices along an axis; index has rank 1.
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);

// Rows of a table, for an index of any shape: out[..., :] = weight[index[...], :]. The row padding_index gets no
// gradient.
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_index = {});

// A new last axis with 1 at the index; classes = −1 takes the largest index plus one (which is computed immediately).
Tensor one_hot(const Tensor& index, std::int64_t classes = -1, DType dtype = DType::i64);

// Stable; NaN counts as the largest. sort and topk return values and their positions (i64).
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true);

}  // namespace ebb
