// SPDX-License-Identifier: MIT
#include <bit>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/norm.h"
#include "ebb/backward/reduce.h"
#include "ebb/ops.h"
#include "ops/axes.h"
#include "ops/build.h"
#include "ops/norm_parts.h"

// Gradient rules of the norms. x̂ is the normalized row, r its scale; mean is along the row. Each is one sweep: row
// statistics first, then the row.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// x̂ = (x − m)·r,  r = 1/sqrt(var + eps)         dx = r·(g − mean g − x̂·mean(g·x̂))
Tensor layer_norm_dx(const Tensor& g, const Tensor& x, const Tensor& normalized, std::uint32_t axes, double eps) {
  const Tensor r = rsqrt(row_mean(square(x - row_mean(x, axes)), axes) + eps);
  return r * (g - row_mean(g, axes) - normalized * row_mean(g * normalized, axes));
}

// x̂ = x·r,  r = 1/sqrt(mean x² + eps)           dx = r·(g − x̂·mean(g·x̂))
Tensor rms_norm_dx(const Tensor& g, const Tensor& x, const Tensor& normalized, std::uint32_t axes, double eps) {
  const Tensor r = rsqrt(row_mean(square(x), axes) + eps);
  return r * (g - normalized * row_mean(g * normalized, axes));
}

}  // namespace

// y = x̂·w + b        dw = Σ g·x̂,   db = Σ g  over the rows,   dx̂ = g·w
LayerNormGradients layer_norm_backward(const Tensor& grad, const Tensor& x, const Shape& normalized_shape,
                                       const Tensor& weight, double eps) {
  const std::uint32_t axes = normalized_axes("layer_norm_backward", x, normalized_shape);
  const auto [g, wide] = widened(grad, x);
  const Tensor normalized = layer_norm(wide, normalized_shape, {}, {}, eps);
  const Tensor& like = weight.defined() ? weight : x;
  const Tensor inner = weight.defined() ? g * widen(weight) : g;
  return {cotangent(layer_norm_dx(inner, wide, normalized, axes, eps), x),
          cast(sum_to(g * normalized, normalized_shape), like.dtype()),
          cast(sum_to(g, normalized_shape), like.dtype())};
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const Shape& normalized_shape,
                                            const Tensor& weight, std::optional<double> eps) {
  const std::uint32_t axes = normalized_axes("rms_norm_backward", x, normalized_shape);
  const double e = eps.value_or(rms_norm_eps(x.dtype()));
  const auto [g, wide] = widened(grad, x);
  const Tensor normalized = rms_norm(wide, normalized_shape, {}, e);
  const Tensor inner = weight.defined() ? g * widen(weight) : g;
  return {cotangent(rms_norm_dx(inner, wide, normalized, axes, e), x),
          cast(sum_to(g * normalized, normalized_shape), weight.defined() ? weight.dtype() : x.dtype())};
}

// y = x/d,  d = max(‖x‖, eps)                   dx = g/d − (Σ g·x)/d² · d‖x‖, the second part only where ‖x‖ ≥ eps
Tensor normalize_backward(const Tensor& grad, const Tensor& x, double p, std::int64_t axis, double eps) {
  const int a = normalize_axis("normalize_backward", axis, x.rank());
  const auto [g, wide] = widened(grad, x);
  const Tensor length = norm(wide, p, a, true), d = clamp(length, eps);
  const Tensor through_length = where(length >= eps, -sum(g * wide, a, true) / square(d), 0);
  return cotangent(g / d + norm_backward(through_length, wide, p, a, true), x);
}

// The channel norms: rows run over the other axes, weight and bias have one element per channel.
namespace {

LayerNormGradients channel_gradients(const Tensor& g, const Tensor& normalized, const Tensor& dx, const Tensor& x,
                                     const Tensor& weight) {
  const Axes rows = axes_of(all_but_channels(x.rank()), x.rank());
  const DType dtype = (weight.defined() ? weight : x).dtype();
  return {cotangent(dx, x), cast(sum(g * normalized, rows), dtype), cast(sum(g, rows), dtype)};
}

}  // namespace

LayerNormGradients batch_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& running_mean,
                                       const Tensor& running_var, const Tensor& weight, const BatchNormOptions& o) {
  const char* op = "batch_norm_backward";
  require_channels(op, x, {{"running_mean", running_mean}, {"running_var", running_var}, {"weight", weight}});
  require(grad.shape() == x.shape(), "{}: gradient of shape {}, the result has shape {}", op, grad.shape(), x.shape());
  require(o.training || running_mean.defined(), "{}: without training, running statistics are needed", op);
  const auto [g, wide] = widened(grad, x);
  const Tensor w = along_channels(weight, x.rank());
  const auto weighted = [&](const Tensor& t) { return w.defined() ? t * w : t; };
  if (!o.training) {  // y = (x − m)·r·w + b with constant m and r
    const Tensor r = rsqrt(along_channels(running_var, x.rank()) + o.eps);
    return channel_gradients(g, (wide - along_channels(running_mean, x.rank())) * r, weighted(g) * r, x, weight);
  }
  const std::uint32_t axes = all_but_channels(x.rank());
  const Tensor normalized = standardized(wide, axes, o.eps);
  return channel_gradients(g, normalized, weighted(layer_norm_dx(g, wide, normalized, axes, o.eps)), x, weight);
}

namespace {

// y = x̂·w + b, x̂ = (x − m)·r over groups of channels [N, G, D, L], with w and b [G, D, 1]. Each number of a group is a
// sum of a few numbers of its channels, so only those are sums over elements, and no g·w·x̂ is kept:
//   A = Σ_L g,   B = r·Σ_L g·(x − m)         db = Σ_N A,   dw = Σ_N B
//   dx = r·(g·w − P − (x − m)·r·Q),          P = Σ_D w·A / DL,   Q = Σ_D w·B / DL
LayerNormGradients group_gradients(const Tensor& g, const Tensor& x, const Tensor& w, double eps) {
  const std::uint32_t axes = trailing_axes(4, 2);
  const Tensor centred = x - row_mean(x, axes), r = rsqrt(row_mean(square(centred), axes) + eps);
  const Tensor a = sum(g, {3}, true), b = r * sum(g * centred, {3}, true);
  const auto weighted = [&](const Tensor& t) { return w.defined() ? t * w : t; };
  const auto elements = static_cast<double>(x.shape()[2] * x.shape()[3]);
  const Tensor p = sum(weighted(a), {2}, true) / elements, q = sum(weighted(b), {2}, true) / elements;
  return {r * (weighted(g) - (centred * (r * q) + p)), sum(b, {0}), sum(a, {0})};
}

}  // namespace

LayerNormGradients group_norm_backward(const Tensor& grad, const Tensor& x, std::int64_t groups, const Tensor& weight,
                                       double eps) {
  const char* op = "group_norm_backward";
  require_channels(op, x, {{"weight", weight}});
  require(grad.shape() == x.shape(), "{}: gradient of shape {}, the result has shape {}", op, grad.shape(), x.shape());
  const Shape grouped = grouped_shape(op, x, groups);
  const auto [g, wide] = widened(reshape(grad, grouped), reshape(x, grouped));
  const LayerNormGradients of_groups = group_gradients(g, wide, along_groups(weight, grouped), eps);
  const DType dtype = (weight.defined() ? weight : x).dtype();
  const auto of_channels = [&](const Tensor& t) { return cast(reshape(t, {x.shape()[1]}), dtype); };
  return {reshape(cast(of_groups.input, x.dtype()), x.shape()), of_channels(of_groups.weight),
          of_channels(of_groups.bias)};
}

LayerNormGradients instance_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps) {
  require_channels("instance_norm_backward", x, {{"weight", weight}});
  return group_norm_backward(grad, x, x.shape()[1], weight, eps);
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

double eps_of(const RuleContext& c) { return std::bit_cast<double>(c.attrs.i[0]); }

// With a weight: of groups, or, where the batch is among the axes, of channels,
//   y = x̂·w, w the same along the axes            dx = w·dx̂,   dw = Σ g·x̂
// With w outside, the means in dx̂ are those of Σ g·x̂ and Σ g, the gradients of the weight and of a bias after it.
Cotangents layer_norm_rule(const RuleContext& c) {
  const Tensor& x = c.inputs[0];
  if (c.inputs.size() == 1) return {layer_norm_dx(c.grad, x, c.output, c.attrs.axes, eps_of(c))};
  const Tensor& w = c.inputs[1];
  if (c.attrs.axes & 1) {
    const Tensor normalized = standardized(x, c.attrs.axes, eps_of(c));
    const Tensor dx = layer_norm_dx(c.grad, x, normalized, c.attrs.axes, eps_of(c)) * w;
    return {cotangent(dx, x), cotangent(c.grad * normalized, w)};
  }
  const auto [dx, dw, db] = group_gradients(c.grad, x, w, eps_of(c));
  Cotangents all{cotangent(dx, x), cotangent(dw, w)};
  if (c.inputs.size() > 2) all.push_back(cotangent(db, c.inputs[2]));
  return all;
}
Cotangents rms_norm_rule(const RuleContext& c) {
  return {rms_norm_dx(c.grad, c.inputs[0], c.output, c.attrs.axes, eps_of(c))};
}

constexpr RuleRow kNormRules[] = {
    {Op::layer_norm, layer_norm_rule},
    {Op::rms_norm, rms_norm_rule},
};

}  // namespace

std::span<const RuleRow> norm_rules() { return kNormRules; }

}  // namespace ebb
