// SPDX-License-Identifier: MIT
#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/pool.h"
#include "ebb/backward/reduce.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/pool_parts.h"

// Gradient rules of the pools, for chaining by hand. The pools themselves are composed of operations with rules.
namespace ebb {
namespace {

// y = x[where]                  dx[where] += g
Tensor max_pool_backward(const char* op, int axes, const Tensor& grad, const Shape& shape, const Tensor& indices) {
  require(grad.shape() == indices.shape() && grad.rank() == shape.rank() && shape.rank() > axes,
          "{}: gradient of shape {}, indices of shape {} and input of shape {} do not fit", op, grad.shape(),
          indices.shape(), shape);
  std::int64_t plane = 1, outputs = 1, planes = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < shape.rank() - axes ? planes : plane) *= shape[d];
    if (d >= shape.rank() - axes) outputs *= grad.shape()[d];
  }
  return reshape(
      scatter_zero_add(reshape(grad, {planes, outputs}), 1, reshape(indices, {planes, outputs}), {planes, plane}),
      shape);
}

// y = Σ x/n over a window       dx = Σ g/n over the windows that cover it
Tensor means_backward(const char* op, const Tensor& grad, const Shape& shape, const PoolWindows& p,
                      bool count_include_pad) {
  require_cotangent(op, grad, p.result);
  const Tensor g = reshape(widen(grad), p.output);
  const Tensor shares = g / avg_pool_divisors(p, count_include_pad, g.dtype());
  return reshape(window_spread_node(shares, p.call, p.image, grad.dtype()), shape);
}

Tensor avg_pool_backward(const char* op, int axes, const Tensor& grad, const Shape& shape, const SizePair& window,
                         const AvgPoolOptions& o) {
  return means_backward(op, grad, shape, avg_pool_windows(op, axes, shape, window, o), o.count_include_pad);
}

}  // namespace

Tensor max_pool2d_backward(const Tensor& grad, const Shape& shape, const Tensor& indices) {
  return max_pool_backward("max_pool2d_backward", 2, grad, shape, indices);
}
Tensor max_pool1d_backward(const Tensor& grad, const Shape& shape, const Tensor& indices) {
  return max_pool_backward("max_pool1d_backward", 1, grad, shape, indices);
}
Tensor avg_pool2d_backward(const Tensor& grad, const Shape& shape, SizePair window, const AvgPoolOptions& options) {
  return avg_pool_backward("avg_pool2d_backward", 2, grad, shape, window, options);
}
Tensor avg_pool1d_backward(const Tensor& grad, const Shape& shape, std::int64_t window, const AvgPoolOptions& options) {
  return avg_pool_backward("avg_pool1d_backward", 1, grad, shape, window, options);
}

Tensor adaptive_avg_pool2d_backward(const Tensor& grad, const Shape& shape) {
  const char* op = "adaptive_avg_pool2d_backward";
  require(shape.rank() >= 3 && grad.rank() == shape.rank(), "{}: gradient of shape {} and input of shape {} do not fit",
          op, grad.shape(), shape);
  return means_backward(op, grad, shape, adaptive_windows(op, 2, shape, {grad.size(-2), grad.size(-1)}), false);
}
Tensor adaptive_avg_pool1d_backward(const Tensor& grad, const Shape& shape) {
  const char* op = "adaptive_avg_pool1d_backward";
  require(shape.rank() >= 2 && grad.rank() == shape.rank(), "{}: gradient of shape {} and input of shape {} do not fit",
          op, grad.shape(), shape);
  return means_backward(op, grad, shape, adaptive_windows(op, 1, shape, grad.size(-1)), false);
}

// y = mean x                    dx = g/n
Tensor global_avg_pool_backward(const Tensor& grad, const Shape& shape) {
  std::int64_t n = 1;
  for (int d = 2; d < shape.rank(); ++d) n *= shape[d];
  return expand(grad / static_cast<double>(n), shape);
}
Tensor global_max_pool_backward(const Tensor& grad, const Tensor& x) {
  std::vector<std::int64_t> axes;
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return max_backward(grad, x, axes, true);
}

}  // namespace ebb
