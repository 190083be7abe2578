// SPDX-License-Identifier: MIT
#include "ebb/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/formula.h"
#include "ops/axes.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/reduce_parts.h"

namespace ebb {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The reduction itself: the axes of the mask stay with size 1. Over axes of size 1 it is the identity.
Tensor reduce(Op op, const Tensor& x, std::uint32_t mask) {
  const Shape kept = kept_shape(x.shape(), mask);
  if (kept == x.shape()) return x;
  Attrs attrs;
  attrs.axes = mask;
  return make_node(op, x.dtype(), kept, {x}, attrs);
}

Tensor drop_axes(const Tensor& y, const Shape& shape, std::uint32_t mask, bool keepdim) {
  return keepdim ? y : reshape(y, reduced_shape(shape, mask));
}

// Sums are computed in f32 or f64 for floats and in i64 for integers and bool.
Tensor summand(const Tensor& x) { return cast(x, compute_dtype(x.dtype())); }
DType result_dtype(DType x) { return is_floating(x) ? x : DType::i64; }

// Statistics of reals, in f32 or f64.
Tensor wide_real(const Tensor& x) { return widen(as_real(x)); }

// sqrt v with derivative 0 at v = 0, where the true one is infinite and would meet a zero: 0·inf is not a number.
Tensor sqrt_or_zero(const Tensor& v) {
  const Tensor zero = v == 0;
  return where(zero, 0, sqrt(where(zero, 1, v)));
}

Tensor extremum(Op op, const Tensor& x, const Axes& axes, bool keepdim) {
  const char* name = op == Op::max ? "max" : "min";
  const std::uint32_t mask = axes_mask(name, axes, x.rank());
  require(reduced_count(x.shape(), mask) > 0, "{}: nothing to choose from in a tensor of shape {}", name, x.shape());
  const bool boolean = x.dtype() == DType::bool_;
  const Tensor y = reduce(op, boolean ? cast(x, DType::i32) : x, mask);
  return drop_axes(cast(y, x.dtype()), x.shape(), mask, keepdim);
}

Tensor arg_extremum(Op op, const Tensor& x, std::optional<std::int64_t> axis, bool keepdim) {
  const char* name = op == Op::argmax ? "argmax" : "argmin";
  if (!axis || x.rank() == 0) {
    if (axis) normalize_axis(name, *axis, 1);
    const Tensor y = arg_extremum(op, reshape(x, {-1}), 0, false);
    return keepdim ? reshape(y, std::vector<std::int64_t>(static_cast<std::size_t>(x.rank()), 1)) : y;
  }
  const int a = normalize_axis(name, *axis, x.rank());
  require(x.shape()[a] > 0, "{}: axis {} of shape {} is empty", name, a, x.shape());
  Attrs attrs;
  attrs.i[0] = a;
  const Tensor numbers = x.dtype() == DType::bool_ ? cast(x, DType::u8) : x;
  const Tensor y = make_node(op, DType::i64, x.shape().with(a, 1), {numbers}, attrs);
  return keepdim ? y : reshape(y, x.shape().without(a));
}

Tensor cumulate(Op op, const char* name, const Tensor& x, std::int64_t axis) {
  if (x.rank() == 0) {
    normalize_axis(name, axis, 1);
    return cast(x, result_dtype(x.dtype()));
  }
  Attrs attrs;
  attrs.i[0] = normalize_axis(name, axis, x.rank());
  // Halves are not converted: the call accumulates in f64 and rounds once.
  const Tensor numbers = cast(x, result_dtype(x.dtype()));
  return make_node(op, numbers.dtype(), x.shape(), {numbers}, attrs);
}

// The formula of a statistic over axes, with a number passed to it.
using Statistic = Tensor (*)(const Tensor& x, std::uint32_t mask, bool keepdim, double number);
template <Statistic statistic>
Tensor deferred_statistic(const char* name, const Tensor& x, const Axes& axes, bool keepdim, double number = 0) {
  const std::uint32_t mask = axes_mask(name, axes, x.rank());
  return deferred({&x}, {mask, keepdim, option_of(number)}, [](Formula::Operands in, Formula::Options o) {
    return statistic(in[0], static_cast<std::uint32_t>(o[0]), o[1] != 0, real_of(o[2]));
  });
}

Tensor mean_formula(const Tensor& x, std::uint32_t mask, bool keepdim, double) {
  // Dividing the sum rounds once; multiplying by a rounded 1/n would round twice.
  const double n = static_cast<double>(reduced_count(x.shape(), mask));
  const Tensor y = reduce(Op::sum, wide_real(x), mask) / n;
  return drop_axes(cast(y, promote_real(x.dtype())), x.shape(), mask, keepdim);
}

// Two passes, because Σx² − n·mean² loses every digit when the mean is large:
//   m = mean x,   var = Σ (x − m)² / max(n − correction, 0)
Tensor var_formula(const Tensor& x, std::uint32_t mask, bool keepdim, double correction) {
  const double n = static_cast<double>(reduced_count(x.shape(), mask));
  const Tensor real = wide_real(x);
  const Tensor m = reduce(Op::sum, real, mask) / n;
  const Tensor v = reduce(Op::sum, square(real - m), mask) / std::max(n - correction, 0.0);
  return drop_axes(cast(v, promote_real(x.dtype())), x.shape(), mask, keepdim);
}

Tensor stddev_formula(const Tensor& x, std::uint32_t mask, bool keepdim, double correction) {
  return cast(sqrt_or_zero(var_formula(wide_real(x), mask, keepdim, correction)), promote_real(x.dtype()));
}

Tensor norm_formula(const Tensor& x, std::uint32_t mask, bool keepdim, double p) {
  const Tensor real = wide_real(x);
  const bool nothing = reduced_count(x.shape(), mask) == 0;
  Tensor y;
  if (p == 2) {
    y = sqrt_or_zero(reduce(Op::sum, square(real), mask));
  } else if (p == 1) {
    y = reduce(Op::sum, abs(real), mask);
  } else if (p == 0) {
    y = reduce(Op::sum, cast(real != 0, real.dtype()), mask);
  } else if (std::isinf(p)) {
    require(!nothing || p > 0, "norm: the {}-norm of nothing, in a tensor of shape {}, is not defined", p, x.shape());
    y = nothing ? zeros(kept_shape(x.shape(), mask), real.dtype()) : reduce(p > 0 ? Op::max : Op::min, abs(real), mask);
  } else {
    // |x|^p has an infinite derivative of some order at 0 (of the first where p < 1); by convention it is 0 there.
    // Where p < 0, one zero makes the norm 0, whatever the other elements are.
    const Tensor zero = real == 0;
    const Tensor total = reduce(Op::sum, where(zero, 0, pow(where(zero, 1, abs(real)), p)), mask);
    const Tensor none = total == 0;
    y = where(none, p > 0 ? 0.0 : kInfinity, pow(where(none, 1, total), 1 / p));
    if (p < 0) y = where(reduce(Op::sum, cast(zero, real.dtype()), mask) > 0, 0, y);
  }
  return drop_axes(cast(y, promote_real(x.dtype())), x.shape(), mask, keepdim);
}

// log Σ exp x = m + log Σ exp(x − m) with m = max x: no term is larger than 1.
Tensor logsumexp_formula(const Tensor& x, std::uint32_t mask, bool keepdim, double) {
  const Tensor real = wide_real(x);
  Tensor y;
  if (reduced_count(x.shape(), mask) == 0) {
    y = full(kept_shape(x.shape(), mask), -kInfinity, real.dtype());
  } else {
    Tensor value;
    {
      NoHistory scope;
      const ShiftedExp s = shifted_exp(real, mask);
      value = s.shift + log(s.total);
    }
    Attrs attrs;
    attrs.axes = mask;
    y = make_formula(Op::logsumexp, value, {real}, attrs);
  }
  return drop_axes(cast(y, promote_real(x.dtype())), x.shape(), mask, keepdim);
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("sum", axes, x.rank());
  return drop_axes(cast(reduce(Op::sum, summand(x), mask), result_dtype(x.dtype())), x.shape(), mask, keepdim);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  return deferred_statistic<mean_formula>("mean", x, axes, keepdim);
}

Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("prod", axes, x.rank());
  return drop_axes(cast(reduce(Op::prod, summand(x), mask), result_dtype(x.dtype())), x.shape(), mask, keepdim);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdim) { return extremum(Op::max, x, axes, keepdim); }
Tensor min(const Tensor& x, const Axes& axes, bool keepdim) { return extremum(Op::min, x, axes, keepdim); }

Tensor var(const Tensor& x, const Axes& axes, bool keepdim, double correction) {
  return deferred_statistic<var_formula>("var", x, axes, keepdim, correction);
}

Tensor stddev(const Tensor& x, const Axes& axes, bool keepdim, double correction) {
  return deferred_statistic<stddev_formula>("var", x, axes, keepdim, correction);
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdim) {
  require(!std::isnan(p), "norm: p is not a number");
  return deferred_statistic<norm_formula>("norm", x, axes, keepdim, p);
}

ShiftedExp shifted_exp(const Tensor& x, std::uint32_t mask) {
  ShiftedExp s;
  {
    NoHistory scope;
    const Tensor top = reduce(Op::max, x, mask);
    s.shift = where(isfinite(top), top, 0);
  }
  s.terms = exp(x - s.shift);
  s.total = reduce(Op::sum, s.terms, mask);
  return s;
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  return deferred_statistic<logsumexp_formula>("logsumexp", x, axes, keepdim);
}

// Counting works for empty tensors too: any of nothing is false, all of nothing is true.
Tensor any(const Tensor& x, const Axes& axes, bool keepdim) { return sum(cast(x, DType::bool_), axes, keepdim) > 0; }
Tensor all(const Tensor& x, const Axes& axes, bool keepdim) {
  return sum(logical_not(cast(x, DType::bool_)), axes, keepdim) == 0;
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim) {
  return arg_extremum(Op::argmax, x, axis, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim) {
  return arg_extremum(Op::argmin, x, axis, keepdim);
}

Tensor cumsum(const Tensor& x, std::int64_t axis) { return cumulate(Op::cumsum, "cumsum", x, axis); }
Tensor cumprod(const Tensor& x, std::int64_t axis) { return cumulate(Op::cumprod, "cumprod", x, axis); }

// ---- order statistics -----------------------------------------------------------------------------------------------

namespace {

// x as [..., n] and the shape of its result: along an axis or flattened.
struct Sorted {
  Tensor x;  // the axis of interest, or the flattened tensor
  int axis;
  Tensor missing;  // where a NaN is among the elements, keepdim; undefined for integers
  std::int64_t n() const { return x.shape()[axis]; }
  // Elements at places [first, first + count) of the sorted order.
  Tensor at(std::int64_t first, std::int64_t count) const {
    return gather_node(x, axis, argsort_range(x, axis, false, first, count), IndexLines::different);
  }
};

Sorted sorted(const char* op, const Tensor& x, std::optional<std::int64_t> axis) {
  Sorted s;
  s.x = axis && x.rank() > 0 ? x : reshape(x, {-1});
  s.axis = axis ? normalize_axis(op, *axis, s.x.rank()) : 0;
  require(s.n() > 0, "{}: nothing to choose from in a tensor of shape {}", op, x.shape());
  if (is_floating(x.dtype())) s.missing = any(isnan(s.x), s.axis, true);
  return s;
}

Tensor finish(const Sorted& s, const Tensor& y, const Tensor& x, std::optional<std::int64_t> axis, bool keepdim) {
  const Tensor value = s.missing.defined() ? where(s.missing, std::numeric_limits<double>::quiet_NaN(), y) : y;
  const std::uint32_t mask = axis && x.rank() > 0 ? 1u << s.axis : trailing_axes(x.rank(), x.rank());
  return reshape(value, keepdim ? kept_shape(x.shape(), mask) : reduced_shape(x.shape(), mask));
}

}  // namespace

Tensor median(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim) {
  const Sorted s = sorted("median", x, axis);
  return finish(s, s.at((s.n() - 1) / 2, 1), x, axis, keepdim);
}

Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> axis, bool keepdim) {
  require(q >= 0 && q <= 1, "quantile: q must lie in [0, 1], got {}", q);
  require(is_floating(x.dtype()), Error::Kind::type, "quantile: needs floating elements, got {}", name(x.dtype()));
  const Sorted s = sorted("quantile", x, axis);
  const double position = q * static_cast<double>(s.n() - 1);
  const double below = std::floor(position), weight = position - below;
  const auto first = static_cast<std::int64_t>(below);
  if (weight == 0) return finish(s, s.at(first, 1), x, axis, keepdim);
  const Tensor both = s.at(first, 2), low = narrow(both, s.axis, 0, 1), high = narrow(both, s.axis, 1, 1);
  // From the nearer end, so that both ends are reached exactly.
  const Tensor y = weight < 0.5 ? low + weight * (high - low) : high - (1 - weight) * (high - low);
  return finish(s, y, x, axis, keepdim);
}

Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<std::int64_t> axis, bool keepdim) {
  require(!q.empty(), "quantile: no q was given");
  std::vector<Tensor> all;
  for (double each : q) all.push_back(quantile(x, each, axis, keepdim));
  return stack(all, 0);
}

}  // namespace ebb
