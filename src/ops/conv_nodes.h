// SPDX-License-Identifier: MIT
#pragma once
#include "calls/convolution.h"
#include "ebb/ops/conv.h"

// The nodes of convolutions, and helpers of the public functions and their rules.
namespace ebb {

// Shapes as in calls/convolution.h; operands of one floating dtype, which is that of the result.
Tensor convolution_node(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvCall& call,
                        const Shape& output);
Tensor conv_transpose_node(const Tensor& y, const Tensor& weight, const ConvCall& call, const Shape& output);
Tensor conv_weight_gradient_node(const Tensor& x, const Tensor& y, const ConvCall& call, const Shape& window);

// A convolution's operands as images: [N, C, H, W] and [K, C/groups, R, S], checked and of one dtype.
struct ConvOperands {
  Tensor x, weight, bias;
  ConvCall call;
  Shape output;  // of the node
  Shape result;  // returned to the caller
};
ConvOperands conv_operands(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const ConvOptions& options);
ConvOperands conv_transpose_operands(const char* op, int axes, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, const ConvTransposeOptions& options);

}  // namespace ebb
