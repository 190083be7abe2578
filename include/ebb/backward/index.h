// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "ebb/ops/index.h"

// Gradient rules of the index operations. `shape` is the shape of x.
namespace ebb {

Tensor gather_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, const Tensor& index);
Tensor take_along_backward(const Tensor& grad, const Shape& shape, const Tensor& index, std::int64_t axis);

// Cotangents of x and src. A src element that a later one overwrote gets 0.
std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad, std::int64_t axis, const Tensor& index);

// Cotangents of x and src.
std::pair<Tensor, Tensor> scatter_add_backward(const Tensor& grad, std::int64_t axis, const Tensor& index);

Tensor index_select_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, const Tensor& index);
std::pair<Tensor, Tensor> index_add_backward(const Tensor& grad, std::int64_t axis,
                                             const Tensor& index);  // of x and src

// The weight's cotangent; `rows` is how many rows the table has.
Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t rows,
                          std::optional<std::int64_t> padding_index = {});

// `indices` are those returned by sort or topk.
Tensor sort_backward(const Tensor& grad, const Tensor& indices, std::int64_t axis = -1);
Tensor topk_backward(const Tensor& grad, const Shape& shape, const Tensor& indices, std::int64_t axis = -1);

}  // namespace ebb
