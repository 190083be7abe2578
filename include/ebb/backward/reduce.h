// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "ebb/ops/reduce.h"

// Gradient rules of the reductions: the cotangent of the result first, then what the rule needs, then the arguments the
// operation was called with. The result has the shape and dtype of x.
namespace ebb {

Tensor sum_backward(const Tensor& grad, const Shape& shape, const Axes& axes = {}, bool keepdim = false);
Tensor mean_backward(const Tensor& grad, const Shape& shape, const Axes& axes = {}, bool keepdim = false);
Tensor prod_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor max_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor min_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor var_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                    double correction = 1);
Tensor stddev_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                       double correction = 1);
Tensor norm_backward(const Tensor& grad, const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false);
Tensor logsumexp_backward(const Tensor& grad, const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor cumsum_backward(const Tensor& grad, std::int64_t axis);
Tensor cumprod_backward(const Tensor& grad, const Tensor& x, std::int64_t axis);
Tensor median_backward(const Tensor& grad, const Tensor& x, std::optional<std::int64_t> axis = {},
                       bool keepdim = false);
Tensor quantile_backward(const Tensor& grad, const Tensor& x, double q, std::optional<std::int64_t> axis = {},
                         bool keepdim = false);

}  // namespace ebb
