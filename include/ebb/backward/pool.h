// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops/pool.h"

// Gradient rules of the pools. `shape` is that of the input.
namespace ebb {

Tensor max_pool2d_backward(const Tensor& grad, const Shape& shape, const Tensor& indices);
Tensor max_pool1d_backward(const Tensor& grad, const Shape& shape, const Tensor& indices);
Tensor avg_pool2d_backward(const Tensor& grad, const Shape& shape, SizePair window, const AvgPoolOptions& options = {});
Tensor avg_pool1d_backward(const Tensor& grad, const Shape& shape, std::int64_t window,
                           const AvgPoolOptions& options = {});
Tensor adaptive_avg_pool2d_backward(const Tensor& grad, const Shape& shape);
Tensor adaptive_avg_pool1d_backward(const Tensor& grad, const Shape& shape);
Tensor global_avg_pool_backward(const Tensor& grad, const Shape& shape);
Tensor global_max_pool_backward(const Tensor& grad, const Tensor& x);

}  // namespace ebb
