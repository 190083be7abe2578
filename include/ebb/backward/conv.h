// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops/conv.h"

// Gradient rules of convolutions.
namespace ebb {

struct ConvGradients {
  Tensor input, weight, bias;  // bias [K] is always defined
};
ConvGradients conv2d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                              const ConvOptions& options = {});
ConvGradients conv1d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                              const ConvOptions& options = {});
ConvGradients conv_transpose2d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                        const ConvTransposeOptions& options = {});
ConvGradients conv_transpose1d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                        const ConvTransposeOptions& options = {});

}  // namespace ebb
