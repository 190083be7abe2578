// SPDX-License-Identifier: MIT
#include "ebb/ops/conv.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/conv_nodes.h"
#include "ops/shape_nodes.h"

namespace ebb {

Tensor convolution_node(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvCall& call,
                        const Shape& output) {
  std::vector<Tensor> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  return make_node(Op::convolution, x.dtype(), output, inputs, with_options(call));
}
Tensor conv_transpose_node(const Tensor& y, const Tensor& weight, const ConvCall& call, const Shape& output) {
  return make_node(Op::conv_transpose, y.dtype(), output, {y, weight}, with_options(call));
}
Tensor conv_weight_gradient_node(const Tensor& x, const Tensor& y, const ConvCall& call, const Shape& window) {
  return make_node(Op::conv_weight_gradient, x.dtype(), window, {x, y}, with_options(call));
}

namespace {

// Checks shared by both kinds; returns the operands as images: one axis becomes the second of two.
ConvOperands as_images(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       std::int64_t channel_axis_of_weight, std::int64_t groups) {
  const char* image = axes == 1 ? "[N, C, L]" : "[N, C, H, W]";
  require(x.rank() == axes + 1 || x.rank() == axes + 2, "{}: needs an input {} or one without N, got shape {}", op,
          image, x.shape());
  require(weight.rank() == axes + 2, "{}: needs a weight of {} axes, got shape {}", op, axes + 2, weight.shape());
  require(is_floating(x.dtype()) && is_floating(weight.dtype()), Error::Kind::type,
          "{}: needs floating elements, got {} and {}", op, x.dtype(), weight.dtype());
  require(!bias.defined() || is_floating(bias.dtype()), Error::Kind::type, "{}: bias must be floating, got {}", op,
          bias.defined() ? bias.dtype() : DType::f32);
  for (int d = 2; d < weight.rank(); ++d)
    require(weight.shape()[d] > 0, "{}: windows of shape {} are empty", op, weight.shape());
  const std::int64_t channels = x.shape()[x.rank() - axes - 1];
  require(groups >= 1, "{}: groups must be positive, got {}", op, groups);
  require(channels % groups == 0 && weight.shape()[0] % groups == 0,
          "{}: an input of shape {} and a weight of shape {} cannot be divided into {} groups of channels", op,
          x.shape(), weight.shape(), groups);
  const std::int64_t expected = channel_axis_of_weight == 0 ? channels : channels / groups;
  require(weight.shape()[static_cast<int>(channel_axis_of_weight)] == expected,
          "{}: an input of shape {} with {} groups needs {} channels along axis {} of the weight, whose shape is {}",
          op, x.shape(), groups, expected, channel_axis_of_weight, weight.shape());
  ConvOperands o;
  const DType dtype = promote(x.dtype(), weight.dtype());
  o.x = cast(x.rank() == axes + 1 ? unsqueeze(x, 0) : x, dtype);
  o.weight = cast(weight, dtype);
  if (bias.defined()) o.bias = cast(bias, dtype);
  if (axes == 1) o.x = unsqueeze(o.x, 2), o.weight = unsqueeze(o.weight, 2);
  return o;
}

void require_bias(const char* op, const Tensor& bias, std::int64_t channels) {
  require(!bias.defined() || (bias.rank() == 1 && bias.shape()[0] == channels),
          "{}: bias of shape {} does not fit {} output channels", op, bias.defined() ? bias.shape() : Shape{},
          channels);
}

void require_range(const char* op, const char* what, const SizePair& pair, int axes, std::int64_t least) {
  for (int d = 2 - axes; d < 2; ++d)
    require(pair[d] >= least && pair[d] <= ConvCall::kMost, "{}: {} must be at least {}, got {}", op, what, least,
            pair[d]);
}

ConvCall::Pair of_axes(const SizePair& pair, int axes, std::int64_t other) {
  return {axes == 1 ? other : pair[0], pair[1]};
}

// The caller's shape, without the added axes.
Shape result_shape(const Shape& output, int axes, const Tensor& x) {
  Shape shape = axes == 1 ? output.without(2) : output;
  return x.rank() == axes + 1 ? shape.without(0) : shape;
}

}  // namespace

ConvOperands conv_operands(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const ConvOptions& options) {
  ConvOperands o = as_images(op, axes, x, weight, bias, 1, options.groups);
  require_range(op, "stride", options.stride, axes, 1);
  require_range(op, "dilation", options.dilation, axes, 1);
  require_range(op, "padding", options.padding.sizes, axes, 0);
  require_bias(op, bias, weight.shape()[0]);
  o.call.stride = of_axes(options.stride, axes, 1);
  o.call.dilation = of_axes(options.dilation, axes, 1);
  o.call.groups = options.groups;
  const bool same = options.padding.mode == Padding::Mode::same;
  require(!same || (o.call.stride[0] == 1 && o.call.stride[1] == 1),
          "{}: padding \"same\" has no meaning with a stride of [{}, {}]; give the padding in numbers", op,
          o.call.stride[0], o.call.stride[1]);
  if (options.padding.mode == Padding::Mode::sizes) o.call.padding = of_axes(options.padding.sizes, axes, 0);
  std::int64_t out[2];
  for (int d : {0, 1}) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t size = o.x.shape()[d + 2];
    const std::int64_t reach = checked_product(op, o.call.dilation[k], o.weight.shape()[d + 2] - 1);
    if (same) {
      o.call.padding[k] = reach / 2;
      out[d] = size;
      continue;
    }
    const std::int64_t padded = size + 2 * o.call.padding[k];
    require(padded > reach, "{}: a window of {} elements is larger than the padded input ({}), for shapes {} and {}",
            op, reach + 1, padded, weight.shape(), x.shape());
    out[d] = (padded - reach - 1) / o.call.stride[k] + 1;
  }
  o.output = {o.x.shape()[0], o.weight.shape()[0], out[0], out[1]};
  o.result = result_shape(o.output, axes, x);
  return o;
}

ConvOperands conv_transpose_operands(const char* op, int axes, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, const ConvTransposeOptions& options) {
  ConvOperands o = as_images(op, axes, x, weight, bias, 0, options.groups);
  require_range(op, "stride", options.stride, axes, 1);
  require_range(op, "dilation", options.dilation, axes, 1);
  require_range(op, "padding", options.padding, axes, 0);
  require_range(op, "output_padding", options.output_padding, axes, 0);
  o.call.stride = of_axes(options.stride, axes, 1);
  o.call.dilation = of_axes(options.dilation, axes, 1);
  o.call.padding = of_axes(options.padding, axes, 0);
  o.call.groups = options.groups;
  const ConvCall::Pair more = of_axes(options.output_padding, axes, 0);
  const std::int64_t channels = checked_product(op, weight.shape()[1], options.groups);
  require_bias(op, bias, channels);
  std::int64_t out[2];
  for (int d : {0, 1}) {
    const auto k = static_cast<std::size_t>(d);
    require(more[k] < o.call.stride[k] || more[k] < o.call.dilation[k] || more[k] == 0,
            "{}: output_padding must be less than stride or dilation, got {} with {} and {}", op, more[k],
            o.call.stride[k], o.call.dilation[k]);
    const std::int64_t starts = checked_product(op, o.x.shape()[d + 2] - 1, o.call.stride[k]);
    const std::int64_t reach = checked_product(op, o.call.dilation[k], o.weight.shape()[d + 2] - 1);
    out[d] = checked_sum(op, checked_sum(op, starts, reach), more[k] + 1 - 2 * o.call.padding[k]);
    require(out[d] > 0, "{}: nothing is left of the result, size {}, for shapes {} and {} and padding {}", op, out[d],
            x.shape(), weight.shape(), o.call.padding[k]);
  }
  o.output = {o.x.shape()[0], channels, out[0], out[1]};
  o.result = result_shape(o.output, axes, x);
  return o;
}

namespace {

Tensor conv(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvOptions& options) {
  const ConvOperands o = conv_operands(op, axes, x, weight, bias, options);
  return reshape(convolution_node(o.x, o.weight, o.bias, o.call, o.output), o.result);
}
Tensor transposed(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const ConvTransposeOptions& options) {
  const ConvOperands o = conv_transpose_operands(op, axes, x, weight, bias, options);
  if (!bias.defined()) return reshape(conv_transpose_node(o.x, o.weight, o.call, o.output), o.result);
  // The bias is added before halves are rounded, as in a convolution.
  const Tensor y =
      conv_transpose_node(widen(o.x), widen(o.weight), o.call, o.output) + reshape(widen(bias), {-1, 1, 1});
  return reshape(cast(y, o.x.dtype()), o.result);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv2d", 2, x, weight, bias, options);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv1d", 1, x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return transposed("conv_transpose2d", 2, x, weight, bias, options);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return transposed("conv_transpose1d", 1, x, weight, bias, options);
}

}  // namespace ebb
