// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "ebb/ops/norm.h"

// Gradient rules of the norms.
namespace ebb {

struct LayerNormGradients {
  Tensor input, weight, bias;  // weight and bias as normalized_shape, defined whether or not they were given
};
LayerNormGradients layer_norm_backward(const Tensor& grad, const Tensor& x, const Shape& normalized_shape,
                                       const Tensor& weight = {}, double eps = 1e-5);

// Cotangents of x and weight.
std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const Shape& normalized_shape,
                                            const Tensor& weight = {}, std::optional<double> eps = {});

// weight and bias [C], defined whether or not they were given. Running statistics are used unless training.
LayerNormGradients batch_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& running_mean,
                                       const Tensor& running_var, const Tensor& weight = {},
                                       const BatchNormOptions& options = {});
LayerNormGradients group_norm_backward(const Tensor& grad, const Tensor& x, std::int64_t groups,
                                       const Tensor& weight = {}, double eps = 1e-5);
LayerNormGradients instance_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight = {},
                                          double eps = 1e-5);

Tensor normalize_backward(const Tensor& grad, const Tensor& x, double p = 2, std::int64_t axis = 1, double eps = 1e-12);

}  // namespace ebb
