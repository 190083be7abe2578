// SPDX-License-Identifier: MIT
#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/conv.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/conv_nodes.h"
#include "ops/pool_parts.h"

// Gradient rules of convolutions. With (x ∗ w) the convolution, Σ y·(x ∗ w) is linear in x, w and y, and its
// derivatives with respect to the three are the three operations: convolution for y, conv_transpose for x,
// conv_weight_gradient for w.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

Tensor channel_sums(const Tensor& grad) { return sum(grad, {0, 2, 3}); }

ConvGradients conv_backward(const char* op, int axes, const Tensor& grad, const Tensor& x, const Tensor& weight,
                            const ConvOptions& options) {
  const ConvOperands o = conv_operands(op, axes, x, weight, {}, options);
  require_cotangent(op, grad, o.result);
  const Tensor g = cast(reshape(grad, o.output), o.x.dtype());
  return {cast(reshape(conv_transpose_node(g, o.weight, o.call, o.x.shape()), x.shape()), x.dtype()),
          cast(reshape(conv_weight_gradient_node(o.x, g, o.call, o.weight.shape()), weight.shape()), weight.dtype()),
          cast(channel_sums(g), weight.dtype())};
}

ConvGradients conv_transpose_backward(const char* op, int axes, const Tensor& grad, const Tensor& x,
                                      const Tensor& weight, const ConvTransposeOptions& options) {
  const ConvOperands o = conv_transpose_operands(op, axes, x, weight, {}, options);
  require_cotangent(op, grad, o.result);
  const Tensor g = cast(reshape(grad, o.output), o.x.dtype());
  return {cast(reshape(convolution_node(g, o.weight, {}, o.call, o.x.shape()), x.shape()), x.dtype()),
          cast(reshape(conv_weight_gradient_node(g, o.x, o.call, o.weight.shape()), weight.shape()), weight.dtype()),
          cast(channel_sums(g), weight.dtype())};
}

}  // namespace

ConvGradients conv2d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const ConvOptions& options) {
  return conv_backward("conv2d_backward", 2, grad, x, weight, options);
}
ConvGradients conv1d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const ConvOptions& options) {
  return conv_backward("conv1d_backward", 1, grad, x, weight, options);
}
ConvGradients conv_transpose2d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                        const ConvTransposeOptions& options) {
  return conv_transpose_backward("conv_transpose2d_backward", 2, grad, x, weight, options);
}
ConvGradients conv_transpose1d_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                        const ConvTransposeOptions& options) {
  return conv_transpose_backward("conv_transpose1d_backward", 1, grad, x, weight, options);
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

// y = x ∗ w + b
Cotangents convolution_rule(const RuleContext& c) {
  const ConvCall call = options_as<ConvCall>(c.attrs);
  Cotangents out(c.inputs.size());
  if (c.needs[0]) out[0] = conv_transpose_node(c.grad, c.inputs[1], call, c.inputs[0].shape());
  if (c.needs[1]) out[1] = conv_weight_gradient_node(c.inputs[0], c.grad, call, c.inputs[1].shape());
  if (out.size() > 2) out[2] = channel_sums(c.grad);
  return out;
}
// x = y ∗ᵀ w
Cotangents conv_transpose_rule(const RuleContext& c) {
  const ConvCall call = options_as<ConvCall>(c.attrs);
  Cotangents out(2);
  if (c.needs[0]) out[0] = convolution_node(c.grad, c.inputs[1], {}, call, c.inputs[0].shape());
  if (c.needs[1]) out[1] = conv_weight_gradient_node(c.grad, c.inputs[0], call, c.inputs[1].shape());
  return out;
}
// w from x and y
Cotangents conv_weight_gradient_rule(const RuleContext& c) {
  const ConvCall call = options_as<ConvCall>(c.attrs);
  Cotangents out(2);
  if (c.needs[0]) out[0] = conv_transpose_node(c.inputs[1], c.grad, call, c.inputs[0].shape());
  if (c.needs[1]) out[1] = convolution_node(c.inputs[0], c.grad, {}, call, c.inputs[1].shape());
  return out;
}

// Sums of windows, and their transpose.
Cotangents window_sum_rule(const RuleContext& c) {
  return {window_spread_node(c.grad, options_as<PoolCall>(c.attrs), c.inputs[0].shape(), c.inputs[0].dtype())};
}
Cotangents window_spread_rule(const RuleContext& c) {
  return {window_sum_node(c.grad, options_as<PoolCall>(c.attrs), c.inputs[0].shape())};
}

constexpr RuleRow kConvRules[] = {
    {Op::convolution, convolution_rule},
    {Op::conv_transpose, conv_transpose_rule},
    {Op::conv_weight_gradient, conv_weight_gradient_rule},
    {Op::window_sum, window_sum_rule},
    {Op::window_spread, window_spread_rule},
};

}  // namespace

std::span<const RuleRow> conv_rules() { return kConvRules; }

}  // namespace ebb
