// SPDX-License-Identifier: MIT
#include "ebb/ops/elementwise.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/ops/create.h"
#include "ebb/ops/reduce.h"
#include "ops/build.h"

namespace ebb {
namespace {

// Operands and result of one dtype. Bools are rejected where they have no arithmetic, as in PyTorch.
Tensor arithmetic(Op op, TensorOrScalar a, TensorOrScalar b) {
  const DType dtype = common_dtype(info(op).name, {a, b});
  require(dtype != DType::bool_, Error::Kind::type, "{}: not defined for two bool operands; cast one to a number",
          info(op).name);
  return elementwise_node(op, dtype, dtype, {a, b});
}

// The same, except that for two bools it is a logical operation.
Tensor arithmetic_or_logic(Op op, Op logic, TensorOrScalar a, TensorOrScalar b) {
  const DType dtype = common_dtype(info(op).name, {a, b});
  return elementwise_node(dtype == DType::bool_ ? logic : op, dtype, dtype, {a, b});
}

// A function of real numbers.
Tensor real_arithmetic(Op op, TensorOrScalar a, TensorOrScalar b) {
  const DType dtype = promote_real(common_dtype(info(op).name, {a, b}));
  return elementwise_node(op, dtype, dtype, {a, b});
}

Tensor real_function(Op op, const Tensor& x) {
  const Tensor r = as_real(x);
  return make_node(op, r.dtype(), r.shape(), {r});
}

// Defined for integers as well, and exact there.
Tensor number_function(Op op, const Tensor& x) {
  require(x.dtype() != DType::bool_, Error::Kind::type, "{}: not defined for bool; cast it to a number first",
          info(op).name);
  return make_node(op, x.dtype(), x.shape(), {x});
}

// Integers are rounded already.
Tensor rounding_function(Op op, const Tensor& x) {
  return is_floating(x.dtype()) ? make_node(op, x.dtype(), x.shape(), {x}) : x;
}

Tensor comparison(Op op, TensorOrScalar a, TensorOrScalar b) {
  const DType dtype = common_dtype(info(op).name, {a, b});
  return elementwise_node(op, DType::bool_, dtype == DType::bool_ ? DType::u8 : dtype, {a, b});
}

Tensor logic(Op op, const Tensor& a, const Tensor& b) {
  return elementwise_node(op, DType::bool_, DType::bool_, {a, b});
}

// isnan and similar functions: for integers the answer is known.
Tensor float_test(Op op, const Tensor& x, bool of_integers) {
  if (!is_floating(x.dtype())) return number(info(op).name, of_integers, DType::bool_, x.shape());
  return make_node(op, DType::bool_, x.shape(), {x});
}

}  // namespace

// ---- arithmetic -----------------------------------------------------------------------------------------------------

Tensor add(TensorOrScalar a, TensorOrScalar b) { return arithmetic_or_logic(Op::add, Op::logical_or, a, b); }
Tensor sub(TensorOrScalar a, TensorOrScalar b) { return arithmetic(Op::sub, a, b); }
Tensor mul(TensorOrScalar a, TensorOrScalar b) { return arithmetic_or_logic(Op::mul, Op::logical_and, a, b); }
Tensor div(TensorOrScalar a, TensorOrScalar b) { return real_arithmetic(Op::div, a, b); }
Tensor floor_divide(TensorOrScalar a, TensorOrScalar b) { return arithmetic(Op::floor_divide, a, b); }
Tensor remainder(TensorOrScalar a, TensorOrScalar b) { return arithmetic(Op::remainder, a, b); }
Tensor maximum(TensorOrScalar a, TensorOrScalar b) { return arithmetic_or_logic(Op::maximum, Op::logical_or, a, b); }
Tensor minimum(TensorOrScalar a, TensorOrScalar b) { return arithmetic_or_logic(Op::minimum, Op::logical_and, a, b); }
Tensor atan2(TensorOrScalar y, TensorOrScalar x) { return real_arithmetic(Op::atan2, y, x); }
Tensor hypot(TensorOrScalar a, TensorOrScalar b) { return real_arithmetic(Op::hypot, a, b); }

Tensor pow(TensorOrScalar base, TensorOrScalar exponent) {
  if (base.is_tensor() && !exponent.is_tensor()) {
    const Tensor& x = base.tensor();
    const double p = exponent.scalar().real();
    require(is_floating(common_dtype("pow", {base, exponent})) || p >= 0,
            "pow: an integer to the power {} is not an integer; cast the base to a float", p);
    // The two powers that are simpler operations to the last bit (sqrt is not: it differs at −0 and −inf).
    const bool keeps_dtype = common_dtype("pow", {base, exponent}) == x.dtype() && x.dtype() != DType::bool_;
    if (p == 1 && keeps_dtype) return x;
    if (p == 2 && keeps_dtype) return square(x);
  }
  return arithmetic(Op::pow, base, exponent);
}

Tensor fma(TensorOrScalar x, TensorOrScalar m, TensorOrScalar a) {
  const DType dtype = common_dtype("fma", {x, m, a});
  if (is_floating(dtype)) return elementwise_node(Op::fma, dtype, dtype, {x, m, a});
  return add(mul(x, m), a);  // integers have no second rounding to save
}
Tensor affine(const Tensor& x, TensorOrScalar m, TensorOrScalar a) { return fma(x, m, a); }

// Exact at both ends: computed from the nearer end.
Tensor lerp(const Tensor& start, const Tensor& end, TensorOrScalar weight) {
  const DType dtype = common_dtype("lerp", {start, end, weight});
  if (is_half(dtype)) {  // rounded once
    const auto [s, e] = widened(start, end);
    if (!weight.is_tensor()) return cast(lerp(s, e, weight), dtype);
    return cast(lerp(s, e, widen(weight.tensor())), dtype);
  }
  const Tensor first = cast(start, dtype), last = cast(end, dtype), span = last - first;  // bytes would wrap around
  if (!weight.is_tensor()) {
    const double w = weight.scalar().real();
    return w < 0.5 ? first + w * span : last - (1 - w) * span;
  }
  return where(weight < 0.5, first + weight * span, last - (1 - weight) * span);
}

// Where x = 0 the logarithm is taken of 1: 0·log 1 = 0. NaN stays NaN.
Tensor xlogy(TensorOrScalar x, TensorOrScalar y) {
  const DType dtype = promote_real(common_dtype("xlogy", {x, y}));
  const Tensor a = operand("xlogy", x, dtype, x.is_tensor() ? x.tensor().shape() : Shape{});
  const Tensor b = operand("xlogy", y, dtype, y.is_tensor() ? y.tensor().shape() : Shape{});
  Tensor value;
  {
    NoHistory scope;
    const auto [u, v] = widened(a, b);
    value = cast(u * log(where(logical_and(u == 0, logical_not(isnan(v))), 1, v)), dtype);
  }
  return make_formula(Op::xlogy, value, {a, b});
}

Tensor operator+(TensorOrScalar a, TensorOrScalar b) { return add(a, b); }
Tensor operator-(TensorOrScalar a, TensorOrScalar b) { return sub(a, b); }
Tensor operator*(TensorOrScalar a, TensorOrScalar b) { return mul(a, b); }
Tensor operator/(TensorOrScalar a, TensorOrScalar b) { return div(a, b); }
Tensor operator-(const Tensor& x) { return neg(x); }

// ---- functions of one number ----------------------------------------------------------------------------------------

Tensor neg(const Tensor& x) { return number_function(Op::neg, x); }
Tensor square(const Tensor& x) { return number_function(Op::square, x); }
Tensor abs(const Tensor& x) { return number_function(Op::abs, x); }
Tensor sign(const Tensor& x) { return number_function(Op::sign, x); }

Tensor reciprocal(const Tensor& x) { return real_function(Op::reciprocal, x); }
Tensor exp(const Tensor& x) { return real_function(Op::exp, x); }
Tensor exp2(const Tensor& x) { return real_function(Op::exp2, x); }
Tensor expm1(const Tensor& x) { return real_function(Op::expm1, x); }
Tensor log(const Tensor& x) { return real_function(Op::log, x); }
Tensor log2(const Tensor& x) { return real_function(Op::log2, x); }
Tensor log10(const Tensor& x) { return real_function(Op::log10, x); }
Tensor log1p(const Tensor& x) { return real_function(Op::log1p, x); }
Tensor log1p_unit(const Tensor& x) { return real_function(Op::log1p_unit, x); }
Tensor sqrt(const Tensor& x) { return real_function(Op::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return real_function(Op::rsqrt, x); }
Tensor cbrt(const Tensor& x) { return real_function(Op::cbrt, x); }
Tensor sin(const Tensor& x) { return real_function(Op::sin, x); }
Tensor cos(const Tensor& x) { return real_function(Op::cos, x); }
Tensor tan(const Tensor& x) { return real_function(Op::tan, x); }
Tensor asin(const Tensor& x) { return real_function(Op::asin, x); }
Tensor acos(const Tensor& x) { return real_function(Op::acos, x); }
Tensor atan(const Tensor& x) { return real_function(Op::atan, x); }
Tensor sinh(const Tensor& x) { return real_function(Op::sinh, x); }
Tensor cosh(const Tensor& x) { return real_function(Op::cosh, x); }
Tensor tanh(const Tensor& x) { return real_function(Op::tanh, x); }
Tensor asinh(const Tensor& x) { return real_function(Op::asinh, x); }
Tensor acosh(const Tensor& x) { return real_function(Op::acosh, x); }
Tensor atanh(const Tensor& x) { return real_function(Op::atanh, x); }
Tensor erf(const Tensor& x) { return real_function(Op::erf, x); }
Tensor erfc(const Tensor& x) { return real_function(Op::erfc, x); }
Tensor erfcx(const Tensor& x) { return real_function(Op::erfcx, x); }
Tensor lgamma(const Tensor& x) { return real_function(Op::lgamma, x); }
Tensor digamma(const Tensor& x) { return real_function(Op::digamma, x); }
Tensor polygamma(int n, const Tensor& x) {
  require(n >= 0, "polygamma: the order must be 0 or more, got {}", n);
  if (n == 0) return digamma(x);
  const Tensor r = as_real(x);
  return polygamma_of(number("polygamma", n, r.dtype(), r.shape()), r);
}

Tensor floor(const Tensor& x) { return rounding_function(Op::floor, x); }
Tensor ceil(const Tensor& x) { return rounding_function(Op::ceil, x); }
Tensor round(const Tensor& x) { return rounding_function(Op::round, x); }
Tensor trunc(const Tensor& x) { return rounding_function(Op::trunc, x); }
Tensor frac(const Tensor& x) { return x - trunc(x); }

// u8 takes the last eight bits of an integer, and of a real converted to i64: 300 and 300.0 are both 44.
Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (dtype == DType::u8 && is_floating(x.dtype())) return cast(cast(x, DType::i64), dtype);
  return make_node(Op::cast, dtype, x.shape(), {x});
}

// ---- comparison, logic ----------------------------------------------------------------------------------------------

Tensor eq(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::eq, a, b); }
Tensor ne(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::ne, a, b); }
Tensor lt(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::lt, a, b); }
Tensor le(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::le, a, b); }
Tensor gt(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::gt, a, b); }
Tensor ge(TensorOrScalar a, TensorOrScalar b) { return comparison(Op::ge, a, b); }

Tensor operator==(TensorOrScalar a, TensorOrScalar b) { return eq(a, b); }
Tensor operator!=(TensorOrScalar a, TensorOrScalar b) { return ne(a, b); }
Tensor operator<(TensorOrScalar a, TensorOrScalar b) { return lt(a, b); }
Tensor operator<=(TensorOrScalar a, TensorOrScalar b) { return le(a, b); }
Tensor operator>(TensorOrScalar a, TensorOrScalar b) { return gt(a, b); }
Tensor operator>=(TensorOrScalar a, TensorOrScalar b) { return ge(a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return logic(Op::logical_and, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return logic(Op::logical_or, a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return logic(Op::logical_xor, a, b); }
Tensor logical_not(const Tensor& x) {
  return make_node(Op::logical_not, DType::bool_, x.shape(), {cast(x, DType::bool_)});
}

Tensor isnan(const Tensor& x) { return float_test(Op::isnan, x, false); }
Tensor isinf(const Tensor& x) { return float_test(Op::isinf, x, false); }
Tensor isfinite(const Tensor& x) { return float_test(Op::isfinite, x, true); }

// Equal infinities are close, though their difference is NaN; an infinity is close to nothing else, though
// rtol·|b| would be infinite.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& o) {
  require(o.rtol >= 0 && o.atol >= 0, "isclose: tolerances must not be negative, got rtol = {} and atol = {}", o.rtol,
          o.atol);
  const DType dtype = promote_real(common_dtype("isclose", {a, b}));
  const Tensor u = widen(cast(a, dtype)), v = widen(cast(b, dtype));
  Tensor near = logical_and(isfinite(v), abs(u - v) <= o.atol + o.rtol * abs(v));
  near = logical_or(near, u == v);
  return o.equal_nan ? logical_or(near, logical_and(isnan(u), isnan(v))) : near;
}
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& o) { return all(isclose(a, b, o)).item<bool>(); }

// ---- selection ------------------------------------------------------------------------------------------------------

Tensor where(const Tensor& mask, TensorOrScalar a, TensorOrScalar b) {
  const DType dtype = common_dtype("where", {a, b});
  const Shape shape = common_shape("where", {mask, a, b});
  const Tensor m = operand("where", mask, DType::bool_, shape);
  const Tensor x = operand("where", a, dtype, shape), y = operand("where", b, dtype, shape);
  if (dtype == DType::bool_) return logical_or(logical_and(m, x), logical_and(logical_not(m), y));
  return make_node(Op::where, dtype, shape, {m, x, y});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, TensorOrScalar value) {
  const Tensor filling = operand("masked_fill", value, x.dtype(), value.is_tensor() ? value.tensor().shape() : Shape{});
  require(filling.rank() == 0, "masked_fill: the value must be one number, got a tensor of shape {}", filling.shape());
  return where(mask, filling, x);
}

// attrs.i[0]: 1 where there is a lower bound, 2 an upper one, 3 both.
Tensor clamp(const Tensor& x, TensorOrScalar lo, TensorOrScalar hi) {
  require(lo.given() || hi.given(), "clamp: give a lower bound, an upper bound or both");
  DType dtype = x.dtype();
  if (lo.given()) dtype = promote(dtype, common_dtype("clamp", {x, lo}));
  if (hi.given()) dtype = promote(dtype, common_dtype("clamp", {x, hi}));
  require(dtype != DType::bool_, Error::Kind::type, "clamp: not defined for bool; cast it to a number first");

  std::vector<Tensor> operands{cast(x, dtype)};
  Attrs attrs;
  auto add_bound = [&](const TensorOrScalar& bound, std::int64_t bit) {
    if (!bound.given()) return;
    operands.push_back(operand("clamp", bound, dtype, bound.is_tensor() ? bound.tensor().shape() : Shape{}));
    attrs.i[0] |= bit;
  };
  add_bound(lo, 1);
  add_bound(hi, 2);
  Tensor value = operands[0];
  {
    NoHistory scope;
    std::size_t next = 1;
    if (lo.given()) value = maximum(value, operands[next++]);
    if (hi.given()) value = minimum(value, operands[next]);
  }
  return make_formula(Op::clamp, value, operands, attrs);
}

}  // namespace ebb
