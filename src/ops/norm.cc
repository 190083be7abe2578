#include "ebb/ops/norm.h"

#include <algorithm>
#include <bit>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
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

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  Attrs attrs;
  attrs.axes = normalized_axes("layer_norm", x, normalized_shape);
  attrs.i[0] = std::bit_cast<std::int64_t>(eps);
  require_parameter("layer_norm", "weight", weight, normalized_shape);
  require_parameter("layer_norm", "bias", bias, normalized_shape);
  const Tensor wide = widen(x);
  Tensor value;
  {
    NoHistory scope;
    const Tensor centred = wide - row_mean(wide, attrs.axes);
    value = centred * rsqrt(row_mean(square(centred), attrs.axes) + eps);
  }
  return cast(scaled(make_formula(Op::layer_norm, value, {wide}, attrs), weight, bias), x.dtype());
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
  Attrs attrs;
  attrs.axes = normalized_axes("rms_norm", x, normalized_shape);
  attrs.i[0] = std::bit_cast<std::int64_t>(e);
  require_parameter("rms_norm", "weight", weight, normalized_shape);
  const Tensor wide = widen(x);
  Tensor value;
  {
    NoHistory scope;
    value = wide * rsqrt(row_mean(square(wide), attrs.axes) + e);
  }
  return cast(scaled(make_formula(Op::rms_norm, value, {wide}, attrs), weight, {}), x.dtype());
}

Tensor normalize(const Tensor& x, double p, std::int64_t axis, double eps) {
  require(is_floating(x.dtype()), Error::Kind::type, "normalize: needs floating elements, got {}", name(x.dtype()));
  const Tensor wide = widen(x);
  return cast(wide / clamp(norm(wide, p, normalize_axis("normalize", axis, x.rank()), true), eps), x.dtype());
}

}  // namespace ebb
