// SPDX-License-Identifier: MIT
#pragma once
#include <tuple>

#include "ebb/ops/linear.h"

// The gradient rule of linear, for chaining by hand.
namespace ebb {

// y = x·Wᵀ + b: cotangents of x (grad·W), weight (gradᵀ·x) and bias (the sum over the rows), for grad [..., out].
std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& grad, const Tensor& x, const Tensor& weight);

}  // namespace ebb
