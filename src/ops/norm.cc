// SPDX-License-Identifier: MIT
#include "ebb/ops/norm.h"

#include <algorithm>
#include <bit>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/formula.h"
#include "ops/axes.h"
#include "ops/build.h"
#include "ops/norm_parts.h"

namespace ebb {
namespace {

void require_parameter(const char* op, const char* what, const Tensor& parameter, const Shape& shape) {
  require(!parameter.defined() || parameter.shape() == shape, "{}: {} has shape {}, the normalized shape is {}", op,
          what, parameter.defined() ? parameter.shape() : Shape{}, shape);
}

// weight and bias are ordinary operations after the formula, so they need no rule of their own.
Tensor scaled(const Tensor& normalized, const Tensor& weight, const Tensor& bias) {
  Tensor y = normalized;
  if (weight.defined()) y = y * widen(weight);
  if (bias.defined()) y = y + widen(bias);
  return y;
}

}  // namespace

std::uint32_t normalized_axes(const char* op, const Tensor& x, const Shape& shape) {
  require(is_floating(x.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(x.dtype()));
  require(shape.rank() >= 1 && shape.rank() <= x.rank() &&
              std::equal(shape.begin(), shape.end(), x.shape().end() - shape.rank()),
          "{}: the normalized shape {} must be the last sizes of the input's shape {}", op, shape, x.shape());
  return trailing_axes(x.rank(), shape.rank());
}

Tensor row_mean(const Tensor& x, std::uint32_t mask) { return mean(x, axes_of(mask, x.rank()), true); }

Tensor standardized(const Tensor& wide, std::uint32_t axes, double eps, const Tensor& weight) {
  Attrs attrs;
  attrs.axes = axes;
  attrs.i[0] = std::bit_cast<std::int64_t>(eps);
  Tensor value;
  {
    NoHistory scope;
    const Tensor centred = wide - row_mean(wide, axes);
    value = centred * rsqrt(row_mean(square(centred), axes) + eps);
    if (weight.defined()) value = value * weight;
  }
  return weight.defined() ? make_formula(Op::layer_norm, value, {wide, weight}, attrs)
                          : make_formula(Op::layer_norm, value, {wide}, attrs);
}

Tensor standardized_groups(const Tensor& wide, const Tensor& weight, const Tensor& bias, double eps) {
  const std::uint32_t axes = trailing_axes(4, 2);
  if (!weight.defined()) return scaled(standardized(wide, axes, eps), weight, bias);
  Attrs attrs;
  attrs.axes = axes;
  attrs.i[0] = std::bit_cast<std::int64_t>(eps);
  Tensor value;
  {
    NoHistory scope;
    value = scaled(standardized(wide, axes, eps), weight, bias);
  }
  if (!bias.defined()) return make_formula(Op::layer_norm, value, {wide, weight}, attrs);
  return make_formula(Op::layer_norm, value, {wide, weight, bias}, attrs);
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const std::uint32_t axes = normalized_axes("layer_norm", x, normalized_shape);
  require_parameter("layer_norm", "weight", weight, normalized_shape);
  require_parameter("layer_norm", "bias", bias, normalized_shape);
  return deferred({&x, &weight, &bias}, {axes, option_of(eps)}, [](Formula::Operands in, Formula::Options o) {
    const Tensor y = standardized(widen(in[0]), static_cast<std::uint32_t>(o[0]), real_of(o[1]));
    return cast(scaled(y, in[1], in[2]), in[0].dtype());
  });
}

double rms_norm_eps(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, std::optional<double> eps) {
  const double e = eps.value_or(rms_norm_eps(x.dtype()));
  const std::uint32_t axes = normalized_axes("rms_norm", x, normalized_shape);
  require_parameter("rms_norm", "weight", weight, normalized_shape);
  return deferred({&x, &weight}, {axes, option_of(e)}, [](Formula::Operands in, Formula::Options o) {
    Attrs attrs;
    attrs.axes = static_cast<std::uint32_t>(o[0]);
    attrs.i[0] = o[1];
    const Tensor wide = widen(in[0]);
    Tensor value;
    {
      NoHistory scope;
      value = wide * rsqrt(row_mean(square(wide), attrs.axes) + real_of(o[1]));
    }
    return cast(scaled(make_formula(Op::rms_norm, value, {wide}, attrs), in[1], {}), in[0].dtype());
  });
}

Tensor normalize(const Tensor& x, double p, std::int64_t axis, double eps) {
  require(is_floating(x.dtype()), Error::Kind::type, "normalize: needs floating elements, got {}", name(x.dtype()));
  const int a = normalize_axis("normalize", axis, x.rank());
  return deferred({&x}, {a, option_of(p), option_of(eps)}, [](Formula::Operands in, Formula::Options o) {
    const Tensor wide = widen(in[0]);
    return cast(wide / clamp(norm(wide, real_of(o[1]), o[0], true), real_of(o[2])), in[0].dtype());
  });
}

// ---- norms of channels ----------------------------------------------------------------------------------------------

void require_channels(const char* op, const Tensor& x, std::initializer_list<std::pair<const char*, Tensor>> vectors) {
  require(is_floating(x.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(x.dtype()));
  require(x.rank() >= 2, "{}: needs [N, C, ...], got shape {}", op, x.shape());
  for (const auto& [what, vector] : vectors)
    require(!vector.defined() || (vector.rank() == 1 && vector.shape()[0] == x.shape()[1]),
            "{}: {} has shape {}, an input of shape {} needs [{}]", op, what,
            vector.defined() ? vector.shape() : Shape{}, x.shape(), x.shape()[1]);
}

Tensor along_channels(const Tensor& vector, int rank) {
  if (!vector.defined()) return {};
  Shape shape = vector.shape();
  while (shape.rank() < rank - 1) shape = shape.inserted(shape.rank(), 1);
  return reshape(widen(vector), shape);
}

std::uint32_t all_but_channels(int rank) { return ((1u << rank) - 1) & ~2u; }

Shape grouped_shape(const char* op, const Tensor& x, std::int64_t groups) {
  require(groups >= 1 && x.shape()[1] % groups == 0, "{}: {} channels of shape {} cannot be divided into {} groups", op,
          x.shape()[1], x.shape(), groups);
  std::int64_t rest = 1;
  for (int d = 2; d < x.rank(); ++d) rest *= x.shape()[d];
  return {x.shape()[0], groups, x.shape()[1] / groups, rest};
}

Tensor along_groups(const Tensor& vector, const Shape& grouped) {
  return vector.defined() ? reshape(widen(vector), {grouped[1], grouped[2], 1}) : Tensor();
}

BatchNormResult batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                           const Tensor& bias, const BatchNormOptions& o) {
  const char* op = "batch_norm";
  require_channels(op, x,
                   {{"running_mean", running_mean}, {"running_var", running_var}, {"weight", weight}, {"bias", bias}});
  require(running_mean.defined() == running_var.defined(), "{}: give both running statistics or none", op);
  require(o.eps >= 0, "{}: eps must not be negative, got {}", op, o.eps);
  const Tensor w = along_channels(weight, x.rank()), b = along_channels(bias, x.rank()), wide = widen(x);
  if (!o.training) {
    require(running_mean.defined(), "{}: without training, running statistics are needed", op);
    const Tensor mean = along_channels(running_mean, x.rank()), var = along_channels(running_var, x.rank());
    return {cast(scaled((wide - mean) * rsqrt(var + o.eps), w, b), x.dtype()), running_mean, running_var};
  }
  const std::uint32_t axes = all_but_channels(x.rank());
  const std::int64_t n = x.shape()[1] == 0 ? 0 : x.numel() / x.shape()[1];
  require(n != 1, "{}: one value per channel has no variance, for an input of shape {}", op, x.shape());
  BatchNormResult out{cast(scaled(standardized(wide, axes, o.eps, w), {}, b), x.dtype()), running_mean, running_var};
  if (!running_mean.defined() || n == 0) return out;
  // Statistics describe the batch and are not differentiated.
  NoHistory scope;
  const Tensor mean = row_mean(wide, axes), var = row_mean(square(wide - mean), axes);
  const double unbiased = static_cast<double>(n) / static_cast<double>(n - 1);
  const auto moved = [&](const Tensor& running, const Tensor& batch) {
    return cast((1 - o.momentum) * widen(running) + o.momentum * reshape(batch, running.shape()), running.dtype());
  };
  out.running_mean = moved(running_mean, mean);
  out.running_var = moved(running_var, var * unbiased);
  return out;
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  require_channels("group_norm", x, {{"weight", weight}, {"bias", bias}});
  return deferred({&x, &weight, &bias}, {groups, option_of(eps)}, [](Formula::Operands in, Formula::Options o) {
    const Shape grouped = grouped_shape("group_norm", in[0], o[0]);
    const Tensor weight = along_groups(in[1], grouped), bias = along_groups(in[2], grouped);
    const Tensor y = standardized_groups(widen(reshape(in[0], grouped)), weight, bias, real_of(o[1]));
    return reshape(cast(y, in[0].dtype()), in[0].shape());
  });
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_channels("instance_norm", x, {{"weight", weight}, {"bias", bias}});
  require(x.rank() >= 3, "instance_norm: needs [N, C, ...] with something after the channels, got shape {}", x.shape());
  return group_norm(x, x.shape()[1], weight, bias, eps);
}

}  // namespace ebb
