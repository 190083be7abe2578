// SPDX-License-Identifier: MIT
#include <cmath>
#include <mutex>
#include <numbers>
#include <optional>

#include "autograd/one_input.h"
#include "autograd/rules.h"
#include "ebb/backward/elementwise.h"
#include "ebb/ops/create.h"
#include "graph/lock.h"
#include "ops/build.h"

// Gradient rules of arithmetic and of unary functions. In the formulas g is the cotangent of the result y. Rules are
// differentiated again, so a pole that a `where` does not select is avoided before the computation, not after: 0·inf
// would be NaN in the next derivative.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// copysign(max(|d|, eps), d); eps = 0 leaves d unchanged. 1/d distinguishes −0 from 0.
Tensor away_from_zero(const Tensor& d, double eps) {
  if (!(eps > 0)) return d;
  const Tensor negative = logical_or(d < 0, reciprocal(d) < 0);
  return where(negative, minimum(d, -eps), maximum(d, eps));
}

// The requested partial derivatives of a binary operation, each a function of (g, a, b).
using Partial = Tensor (*)(const Tensor& g, const Tensor& a, const Tensor& b);
Tensor pass(const Tensor& g, const Tensor&, const Tensor&) { return g; }
Tensor pass_negated(const Tensor& g, const Tensor&, const Tensor&) { return -g; }

template <Partial da, Partial db>
TensorPair both(const Tensor& grad, const Tensor& a, const Tensor& b, bool need_a = true, bool need_b = true) {
  constexpr bool exact = da == pass && (db == pass || db == pass_negated);  // nothing to compute in higher precision
  const auto [g, x, y] = exact ? std::array{grad, a, b} : widened(grad, a, b);
  return {need_a ? cotangent(da(g, x, y), a) : Tensor(), need_b ? cotangent(db(g, x, y), b) : Tensor()};
}
template <Partial da, Partial db>
TensorPair of_two(const char* op, const Tensor& grad, const Tensor& a, const Tensor& b) {
  require_cotangent(op, grad, common_shape(op, {a, b}));
  return both<da, db>(grad, a, b);
}
template <Partial da, Partial db>
Cotangents rule_of_two(const RuleContext& c) {
  auto [a, b] = both<da, db>(c.grad, c.inputs[0], c.inputs[1], c.needs[0], c.needs[1]);
  return {std::move(a), std::move(b)};
}

Tensor zero(const Tensor& g) { return zeros_like(g); }

// y = a·b            da = g·b                    db = g·a
Tensor mul_da(const Tensor& g, const Tensor&, const Tensor& b) { return g * b; }
Tensor mul_db(const Tensor& g, const Tensor& a, const Tensor&) { return g * a; }

// y = a/b            da = g/b                    db = −g·(a/b)/b
Tensor div_da(const Tensor& g, const Tensor&, const Tensor& b) { return g / b; }
Tensor div_db(const Tensor& g, const Tensor& a, const Tensor& b) { return -g * (a / b) / b; }

// y = a^b            da = g·b·a^(b−1), 0 where b = 0            db = g·a^b·ln a, 0 where a = 0 and b >= 0
// Where b = 0 and 1/a is not finite, 0·a^−1 becomes 0·a^0. Elsewhere 0·a^(b−1) is kept: its derivative by b, a^−1, is
// right.
Tensor pow_da(const Tensor& g, const Tensor& a, const Tensor& b) {
  const Tensor pole = logical_and(b == 0, logical_not(abs(a) >= 1e-37));
  return g * b * pow(a, where(pole, 1, b) - 1);
}
Tensor pow_db(const Tensor& g, const Tensor& a, const Tensor& b) {
  const Tensor pole = logical_and(a == 0, b >= 0);
  return g * pow(a, b) * log(where(pole, 1, a));
}

// y = a − b·floor(a/b)          da = g           db = −g·floor(a/b)
Tensor remainder_db(const Tensor& g, const Tensor& a, const Tensor& b) { return -g * floor_divide(a, b); }

// The smaller operand gets nothing; equal ones get half each.
Tensor share_of_larger(const Tensor& g, const Tensor& mine, const Tensor& other) {
  return where(mine < other, 0, where(mine == other, 0.5 * g, g));
}
Tensor maximum_da(const Tensor& g, const Tensor& a, const Tensor& b) { return share_of_larger(g, a, b); }
Tensor maximum_db(const Tensor& g, const Tensor& a, const Tensor& b) { return share_of_larger(g, b, a); }
Tensor share_of_smaller(const Tensor& g, const Tensor& mine, const Tensor& other) {
  return where(mine > other, 0, where(mine == other, 0.5 * g, g));
}
Tensor minimum_da(const Tensor& g, const Tensor& a, const Tensor& b) { return share_of_smaller(g, a, b); }
Tensor minimum_db(const Tensor& g, const Tensor& a, const Tensor& b) { return share_of_smaller(g, b, a); }

// √(a² + b²), and 1 at the origin, where the numerators below are 0. The operands are replaced, not the result: the
// derivative of hypot itself would divide by 0 there.
Tensor radius(const Tensor& a, const Tensor& b) { return hypot(where(logical_and(a == 0, b == 0), 1, a), b); }

// θ = atan2(y, x)    dy = g·x/r²                 dx = −g·y/r²
// r² = x² + y² may overflow: divides twice by r.
Tensor atan2_dy(const Tensor& g, const Tensor& y, const Tensor& x) { return g * (x / radius(y, x)) / radius(y, x); }
Tensor atan2_dx(const Tensor& g, const Tensor& y, const Tensor& x) { return -g * (y / radius(y, x)) / radius(y, x); }

// r = √(a² + b²)     da = g·a/r                  db = g·b/r
Tensor hypot_da(const Tensor& g, const Tensor& a, const Tensor& b) { return g * (a / radius(a, b)); }
Tensor hypot_db(const Tensor& g, const Tensor& a, const Tensor& b) { return g * (b / radius(a, b)); }

// z = x·log y        dx = g·log y, 0 where x = 0 and y <= 0          dy = g·x/y, 0 where both are 0
Tensor xlogy_dx(const Tensor& g, const Tensor& x, const Tensor& y) {
  return g * log(where(logical_and(x == 0, y <= 0), 1, y));
}
Tensor xlogy_dy(const Tensor& g, const Tensor& x, const Tensor& y) {
  return g * (x / where(logical_and(x == 0, y == 0), 1, y));
}

}  // namespace

TensorPair add_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<pass, pass>("add_backward", grad, a, b);
}
TensorPair sub_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<pass, pass_negated>("sub_backward", grad, a, b);
}
TensorPair mul_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<mul_da, mul_db>("mul_backward", grad, a, b);
}
TensorPair div_backward(const Tensor& grad, const Tensor& a, const Tensor& b, double eps) {
  return of_two<div_da, div_db>("div_backward", grad, a, away_from_zero(b, eps));
}
TensorPair pow_backward(const Tensor& grad, const Tensor& base, const Tensor& exponent) {
  return of_two<pow_da, pow_db>("pow_backward", grad, base, exponent);
}
// y = x^p: g·p·x^(p−1); for p = 0 it does not depend on x
Tensor pow_backward(const Tensor& grad, const Tensor& base, Scalar exponent) {
  require_cotangent("pow_backward", grad, base.shape());
  const auto [g, x] = widened(grad, base);
  if (exponent.real() == 0) return cotangent(zero(g), base);
  const Scalar less = exponent.kind() == Scalar::Kind::real ? Scalar(exponent.real() - 1) : exponent.integer() - 1;
  return cotangent(exponent.real() == 1 ? g : g * (exponent * pow(x, less)), base);
}
TensorPair floor_divide_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  require_cotangent("floor_divide_backward", grad, common_shape("floor_divide_backward", {a, b}));
  const Tensor z = zero(grad);
  return {cotangent(z, a), cotangent(z, b)};
}
TensorPair remainder_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<pass, remainder_db>("remainder_backward", grad, a, b);
}
TensorPair maximum_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<maximum_da, maximum_db>("maximum_backward", grad, a, b);
}
TensorPair minimum_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<minimum_da, minimum_db>("minimum_backward", grad, a, b);
}
TensorPair atan2_backward(const Tensor& grad, const Tensor& y, const Tensor& x) {
  return of_two<atan2_dy, atan2_dx>("atan2_backward", grad, y, x);
}
TensorPair hypot_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return of_two<hypot_da, hypot_db>("hypot_backward", grad, a, b);
}
TensorPair xlogy_backward(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return of_two<xlogy_dx, xlogy_dy>("xlogy_backward", grad, x, y);
}

// y = x·m + a        dx = g·m        dm = g·x        da = g
TensorTriple fma_backward(const Tensor& grad, const Tensor& x, const Tensor& m, const Tensor& a) {
  require_cotangent("fma_backward", grad, common_shape("fma_backward", {x, m, a}));
  auto [dx, dm] = both<mul_da, mul_db>(grad, x, m);
  return {dx, dm, cotangent(grad, a)};
}
TensorTriple affine_backward(const Tensor& grad, const Tensor& x, const Tensor& m, const Tensor& a) {
  return fma_backward(grad, x, m, a);
}
// y = s + w·(e − s)  ds = g·(1 − w)  de = g·w        dw = g·(e − s)
TensorTriple lerp_backward(const Tensor& grad, const Tensor& start, const Tensor& end, const Tensor& weight) {
  require_cotangent("lerp_backward", grad, common_shape("lerp_backward", {start, end, weight}));
  const auto [g, s, e, w] = widened(grad, start, end, weight);
  return {cotangent(g * (1 - w), start), cotangent(g * w, end), cotangent(g * (e - s), weight)};
}

// ---- unary functions ------------------------------------------------------------------------------------------------

// (−x)' = −1      (1/x)' = −y²      (x²)' = 2x      |x|' = sign x, 0 at 0
Tensor neg_backward(const Tensor& grad) { return -grad; }
Tensor reciprocal_backward(const Tensor& grad, const Tensor& y) {
  return one("reciprocal_backward", grad, y, [](auto& g, auto& y) { return -g * square(y); });
}
Tensor square_backward(const Tensor& grad, const Tensor& x) {
  return one("square_backward", grad, x, [](auto& g, auto& x) { return (2 * g) * x; });  // 2g is a scalar if g is
}
Tensor abs_backward(const Tensor& grad, const Tensor& x) {
  return one("abs_backward", grad, x, [](auto& g, auto& x) { return g * sign(x); });
}

// (e^x)' = y      (2^x)' = y·ln 2      (e^x − 1)' = e^x: not y + 1, which cancels where x is very negative
Tensor exp_backward(const Tensor& grad, const Tensor& y) {
  return one("exp_backward", grad, y, [](auto& g, auto& y) { return g * y; });
}
Tensor exp2_backward(const Tensor& grad, const Tensor& y) {
  return one("exp2_backward", grad, y, [](auto& g, auto& y) { return g * (y * std::numbers::ln2); });
}
Tensor expm1_backward(const Tensor& grad, const Tensor& x) {
  return one("expm1_backward", grad, x, [](auto& g, auto& x) { return g * exp(x); });
}

// (ln x)' = 1/x      (log₂ x)' = 1/(x·ln 2)      (log₁₀ x)' = 1/(x·ln 10)      ln(1 + x)' = 1/(1 + x)
Tensor log_backward(const Tensor& grad, const Tensor& x, double eps) {
  return one("log_backward", grad, x, [eps](auto& g, auto& v) { return g / away_from_zero(v, eps); });
}
Tensor log2_backward(const Tensor& grad, const Tensor& x, double eps) {
  return one("log2_backward", grad, x,
             [eps](auto& g, auto& v) { return g / (away_from_zero(v, eps) * std::numbers::ln2); });
}
Tensor log10_backward(const Tensor& grad, const Tensor& x, double eps) {
  return one("log10_backward", grad, x,
             [eps](auto& g, auto& v) { return g / (away_from_zero(v, eps) * std::numbers::ln10); });
}
Tensor log1p_backward(const Tensor& grad, const Tensor& x, double eps) {
  return one("log1p_backward", grad, x, [eps](auto& g, auto& v) { return g / away_from_zero(1 + v, eps); });
}

// (√x)' = 1/(2y)      (1/√x)' = −y³/2      (∛x)' = 1/(3y²)
Tensor sqrt_backward(const Tensor& grad, const Tensor& y, double eps) {
  return one("sqrt_backward", grad, y, [eps](auto& g, auto& v) { return g / (2 * away_from_zero(v, eps)); });
}
Tensor rsqrt_backward(const Tensor& grad, const Tensor& y) {
  return one("rsqrt_backward", grad, y, [](auto& g, auto& y) { return g * (-0.5 * y * square(y)); });
}
Tensor cbrt_backward(const Tensor& grad, const Tensor& y) {
  return one("cbrt_backward", grad, y, [](auto& g, auto& y) { return g / (3 * square(y)); });
}

// sin' = cos      cos' = −sin      tan' = 1 + y²
Tensor sin_backward(const Tensor& grad, const Tensor& x) {
  return one("sin_backward", grad, x, [](auto& g, auto& x) { return g * cos(x); });
}
Tensor cos_backward(const Tensor& grad, const Tensor& x) {
  return one("cos_backward", grad, x, [](auto& g, auto& x) { return -g * sin(x); });
}
Tensor tan_backward(const Tensor& grad, const Tensor& y) {
  return one("tan_backward", grad, y, [](auto& g, auto& y) { return g * (1 + square(y)); });
}

// asin' = 1/√(1 − x²) = −acos'      atan' = 1/(1 + x²).      1 − x² is rounded once: exact near the ends.
Tensor asin_backward(const Tensor& grad, const Tensor& x) {
  return one("asin_backward", grad, x, [](auto& g, auto& x) { return g * rsqrt(fma(x, -x, 1)); });
}
Tensor acos_backward(const Tensor& grad, const Tensor& x) { return asin_backward(-grad, x); }
Tensor atan_backward(const Tensor& grad, const Tensor& x) {
  return one("atan_backward", grad, x, [](auto& g, auto& x) { return g / (1 + square(x)); });
}

// sinh' = cosh      cosh' = sinh      tanh' = 1 − y²
Tensor sinh_backward(const Tensor& grad, const Tensor& x) {
  return one("sinh_backward", grad, x, [](auto& g, auto& x) { return g * cosh(x); });
}
Tensor cosh_backward(const Tensor& grad, const Tensor& x) {
  return one("cosh_backward", grad, x, [](auto& g, auto& x) { return g * sinh(x); });
}
Tensor tanh_backward(const Tensor& grad, const Tensor& y) {
  return one("tanh_backward", grad, y, [](auto& g, auto& y) { return g * (1 - square(y)); });
}

// asinh' = 1/√(x² + 1)      acosh' = 1/√(x² − 1), neither squaring a large x      atanh' = 1/(1 − x²)
Tensor asinh_backward(const Tensor& grad, const Tensor& x) {
  return one("asinh_backward", grad, x, [](auto& g, auto& x) { return g / hypot(x, 1); });
}
Tensor acosh_backward(const Tensor& grad, const Tensor& x) {
  return one("acosh_backward", grad, x, [](auto& g, auto& x) { return g * (rsqrt(x - 1) * rsqrt(x + 1)); });
}
Tensor atanh_backward(const Tensor& grad, const Tensor& x) {
  return one("atanh_backward", grad, x, [](auto& g, auto& x) { return g / fma(x, -x, 1); });
}

// erf' = 2/√π·e^(−x²) = −erfc'
Tensor erf_backward(const Tensor& grad, const Tensor& x) {
  return one("erf_backward", grad, x,
             [](auto& g, auto& x) { return g * ((2 * std::numbers::inv_sqrtpi) * exp(-square(x))); });
}
Tensor erfc_backward(const Tensor& grad, const Tensor& x) { return erf_backward(-grad, x); }

// (ln Γ)' = ψ      ψ' = ψ₁      ψₙ' = ψₙ₊₁
Tensor lgamma_backward(const Tensor& grad, const Tensor& x) {
  return one("lgamma_backward", grad, x, [](auto& g, auto& x) { return g * digamma(x); });
}
Tensor digamma_backward(const Tensor& grad, const Tensor& x) { return polygamma_backward(grad, 0, x); }
Tensor polygamma_backward(const Tensor& grad, int n, const Tensor& x) {
  return one("polygamma_backward", grad, x, [n](auto& g, auto& v) { return g * polygamma(n + 1, v); });
}

Tensor sign_backward(const Tensor& grad) { return zero(grad); }
Tensor floor_backward(const Tensor& grad) { return zero(grad); }
Tensor ceil_backward(const Tensor& grad) { return zero(grad); }
Tensor round_backward(const Tensor& grad) { return zero(grad); }
Tensor trunc_backward(const Tensor& grad) { return zero(grad); }
Tensor frac_backward(const Tensor& grad) { return grad; }

Tensor cast_backward(const Tensor& grad, DType from) { return cast(grad, from); }

// ---- selection ------------------------------------------------------------------------------------------------------

// Each operand gets g where it was chosen.
TensorPair where_backward(const Tensor& grad, const Tensor& mask, const Tensor& a, const Tensor& b) {
  require_cotangent("where_backward", grad, common_shape("where_backward", {mask, a, b}));
  return {cotangent(where(mask, grad, 0), a), cotangent(where(mask, 0, grad), b)};
}
Tensor masked_fill_backward(const Tensor& grad, const Tensor& mask, const Tensor& x) {
  require_cotangent("masked_fill_backward", grad, common_shape("masked_fill_backward", {mask, x}));
  return cotangent(where(mask, 0, grad), x);
}

// y = min(max(x, lo), hi): to x on [lo, hi], both ends included; to lo where x < lo < hi; to hi where x > hi or hi <
// lo.
Tensor clamp_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lo, TensorOrScalar hi) {
  require_cotangent("clamp_backward", grad,
                    common_shape("clamp_backward", {x, lo.given() ? lo : 0, hi.given() ? hi : 0}));
  if (!lo.given()) return cotangent(where(x <= hi, grad, 0), x);
  if (!hi.given()) return cotangent(where(x >= lo, grad, 0), x);
  return cotangent(where(logical_and(x >= lo, x <= hi), grad, 0), x);
}

namespace {

// ---- the table ------------------------------------------------------------------------------------------------------

// The scalar that a tensor broadcasts, if it is a constant behind views.
std::optional<double> repeated_number(const Tensor& x) {
  Tensor t = x;
  while (t.defined() && (t.node()->op == Op::expand || t.node()->op == Op::reshape)) t = input_of(t, 0);
  if (!t.defined() || t.node()->op != Op::constant) return {};
  return t.node()->payload.real;
}

Cotangents pow_rule(const RuleContext& c) {
  if (!c.needs[1]) {
    if (const auto p = repeated_number(c.inputs[1])) return {pow_backward(c.grad, c.inputs[0], Scalar(*p)), {}};
  }
  return rule_of_two<pow_da, pow_db>(c);
}

Cotangents fma_rule(const RuleContext& c) {
  auto [dx, dm] = both<mul_da, mul_db>(c.grad, c.inputs[0], c.inputs[1], c.needs[0], c.needs[1]);
  return {std::move(dx), std::move(dm), c.needs[2] ? c.grad : Tensor()};
}

// The order n is a separate tensor in the node, and has no gradient.
Cotangents polygamma_rule(const RuleContext& c) {
  const auto [g, n, x] = widened(c.grad, c.inputs[0], c.inputs[1]);
  return {{}, cotangent(g * polygamma_of(n + 1, x), c.inputs[1])};
}

// erfcx' = 2x·erfcx x − 2/√π. Far out the two nearly cancel; there erfcx' = −2/√π·h·(1 − 3h·(1 − 5h·(1 − ...))) with
// h = 1/(2x²), from the asymptotic series of erfcx.
Tensor erfcx_backward(const Tensor& grad, const Tensor& x) {
  return one("erfcx_backward", grad, x, [](auto& g, auto& x) {
    const double limit = x.dtype() == DType::f64 ? 28 : 8;
    const Tensor is_far = x > limit, near = where(is_far, limit, x), far = where(is_far, x, limit);
    const Tensor h = 0.5 * square(reciprocal(far));
    Tensor series = 1 - 13 * h;
    for (int k = 11; k > 1; k -= 2) series = 1 - k * h * series;
    constexpr double slope_at_zero = -2 * std::numbers::inv_sqrtpi;
    return g * where(is_far, slope_at_zero * h * series, 2 * near * erfcx(near) + slope_at_zero);
  });
}

Cotangents where_rule(const RuleContext& c) {
  const Tensor& mask = c.inputs[0];
  return {{}, c.needs[1] ? where(mask, c.grad, 0) : Tensor(), c.needs[2] ? where(mask, 0, c.grad) : Tensor()};
}

Cotangents clamp_rule(const RuleContext& c) {
  const bool has_lo = c.attrs.i[0] & 1, has_hi = c.attrs.i[0] & 2;
  const Tensor& x = c.inputs[0];
  const std::size_t at_hi = has_lo ? 2 : 1;
  const TensorOrScalar lo = has_lo ? TensorOrScalar(c.inputs[1]) : TensorOrScalar();
  const TensorOrScalar hi = has_hi ? TensorOrScalar(c.inputs[at_hi]) : TensorOrScalar();
  Cotangents result(c.inputs.size());
  if (c.needs[0]) result[0] = clamp_backward(c.grad, x, lo, hi);
  if (has_lo && c.needs[1]) {
    const Tensor below = has_hi ? logical_and(x < lo, lo < hi) : x < lo;
    result[1] = cotangent(where(below, c.grad, 0), c.inputs[1]);
  }
  if (has_hi && c.needs[at_hi]) {
    const Tensor above = has_lo ? logical_or(x > hi, hi < lo) : x > hi;
    result[at_hi] = cotangent(where(above, c.grad, 0), c.inputs[at_hi]);
  }
  return result;
}

constexpr RuleRow kElementwiseRules[] = {
    {Op::cast, [](const RuleContext& c) -> Cotangents { return {cast_backward(c.grad, c.inputs[0].dtype())}; }},
    {Op::copy, [](const RuleContext& c) -> Cotangents { return {c.grad}; }},
    {Op::check,
     [](const RuleContext& c) -> Cotangents {
       return {c.grad, {}};
     }},
    {Op::neg, [](const RuleContext& c) -> Cotangents { return {neg_backward(c.grad)}; }},
    {Op::reciprocal, of_output<reciprocal_backward>},
    {Op::square, of_input<square_backward>},
    {Op::abs, of_input<abs_backward>},
    {Op::exp, of_output<exp_backward>},
    {Op::exp2, of_output<exp2_backward>},
    {Op::expm1, of_input<expm1_backward>},
    {Op::log, of_input<log_backward>},
    {Op::log2, of_input<log2_backward>},
    {Op::log10, of_input<log10_backward>},
    {Op::log1p, of_input<log1p_backward>},
    {Op::log1p_unit, of_input<log1p_backward>},
    {Op::sqrt, of_output<sqrt_backward>},
    {Op::rsqrt, of_output<rsqrt_backward>},
    {Op::cbrt, of_output<cbrt_backward>},
    {Op::sin, of_input<sin_backward>},
    {Op::cos, of_input<cos_backward>},
    {Op::tan, of_output<tan_backward>},
    {Op::asin, of_input<asin_backward>},
    {Op::acos, of_input<acos_backward>},
    {Op::atan, of_input<atan_backward>},
    {Op::sinh, of_input<sinh_backward>},
    {Op::cosh, of_input<cosh_backward>},
    {Op::tanh, of_output<tanh_backward>},
    {Op::asinh, of_input<asinh_backward>},
    {Op::acosh, of_input<acosh_backward>},
    {Op::atanh, of_input<atanh_backward>},
    {Op::erf, of_input<erf_backward>},
    {Op::erfc, of_input<erfc_backward>},
    {Op::erfcx, of_input<erfcx_backward>},
    {Op::lgamma, of_input<lgamma_backward>},
    {Op::digamma, of_input<digamma_backward>},
    {Op::polygamma, polygamma_rule},
    {Op::add, rule_of_two<pass, pass>},
    {Op::sub, rule_of_two<pass, pass_negated>},
    {Op::mul, rule_of_two<mul_da, mul_db>},
    {Op::div, rule_of_two<div_da, div_db>},
    {Op::pow, pow_rule},
    {Op::remainder, rule_of_two<pass, remainder_db>},
    {Op::maximum, rule_of_two<maximum_da, maximum_db>},
    {Op::minimum, rule_of_two<minimum_da, minimum_db>},
    {Op::atan2, rule_of_two<atan2_dy, atan2_dx>},
    {Op::hypot, rule_of_two<hypot_da, hypot_db>},
    {Op::xlogy, rule_of_two<xlogy_dx, xlogy_dy>},
    {Op::fma, fma_rule},
    {Op::where, where_rule},
    {Op::clamp, clamp_rule},
};

}  // namespace

std::span<const RuleRow> elementwise_rules() { return kElementwiseRules; }

}  // namespace ebb
