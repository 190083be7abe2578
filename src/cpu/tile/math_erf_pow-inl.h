// SPDX-License-Identifier: MIT
// Vector erf, erfc, erfcx and pow.
#if defined(EBB_CPU_MATH_ERF_POW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_ERF_POW_INL_H_
#undef EBB_CPU_MATH_ERF_POW_INL_H_
#else
#define EBB_CPU_MATH_ERF_POW_INL_H_
#endif

#include <cmath>

#include "cpu/tile/loops-inl.h"
#include "cpu/tile/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

// The rounding error of a · a, given its rounded value.
template <class D, class V>
HWY_INLINE V square_error(D d, V a, V square) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulSub(a, a, square);
#else
  // Veltkamp's splitting: the product of two halves is exact.
  const V c = hn::Mul(a, constant(d, 0x1p27 + 1));
  const V high = hn::Sub(c, hn::Sub(c, a)), low = hn::Sub(a, high);
  const V cross = hn::Mul(high, low);
  return hn::Add(hn::Add(hn::Sub(hn::Mul(high, high), square), hn::Add(cross, cross)), hn::Mul(low, low));
#endif
}

// erfcx a = e^(a²) erfc a = g(t) / (1 + 2a), t = (a - 4) / (a + 4), for 0 <= a <= 28: the quotient, and the relative
// error from rounding g and 1 + 2a. 1/g, between 1/1.3 and 1, need not be exact for that.
template <class D>
struct ScaledErfc {
  hn::Vec<D> ratio, correction;
};
template <class D, class V>
HWY_INLINE ScaledErfc<D> scaled_erfc(D d, V a) {
  const V four = constant(d, 4), t = hn::Div(hn::Sub(a, four), hn::Add(a, four));
  const V first = constant(d, kErfcxFirst), others = hn::Mul(t, polynomial(d, t, kErfcxF64));
  const V g = hn::Add(first, others), g_error = hn::Sub(others, hn::Sub(g, first));
  const V twice = hn::Add(a, a), one = constant(d, 1), bottom = hn::Add(twice, one);
  const V bottom_error = hn::Sub(one, hn::Sub(bottom, twice));
  const V ratio = hn::Div(g, bottom);
  return {ratio, hn::Mul(hn::NegMulAdd(bottom_error, ratio, g_error), constant(d, 0.87))};
}

// erfc a = e^(-a²) erfcx a for a >= 0. a² = h + e exactly; the correction goes into the exponent too.
template <class D, class V>
HWY_INLINE V erfc_positive(D d, V a) {
  a = clamp_keep_nan(d, a, 0, 28);
  const V h = hn::Mul(a, a), e = square_error(d, a, h);
  const ScaledErfc<D> y = scaled_erfc(d, a);
  return hn::Mul(exp_of_sum(d, hn::Neg(h), hn::Sub(y.correction, e)), y.ratio);
}

// x (2/sqrt(pi) + z e(z)), z = x², for |x| <= 1; 2/sqrt(pi) = 1 + 0.128..., so that the large part of the sum is exact.
template <class D, class V>
HWY_INLINE V erf_small(D d, V x) {
  const V z = hn::Mul(x, x), above_one = constant(d, 0.12837916709551257);
  V q;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    q = polynomial(d, z, kErfSmallF32);
  else
    q = polynomial(d, z, kErfSmallF64);
  return hn::MulAdd(x, hn::MulAdd(z, q, above_one), x);
}

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V a = hn::Abs(x), one = constant(d, 1);
  V large;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {  // 1 - e^l, l = log erfc a by powers of a - 1
    const V t = hn::Sub(clamp_keep_nan(d, a, 0, 4), one);
    large = hn::MulAdd(t, polynomial(d, t, kErfLargeF32), constant(d, kErfLargeFirst));
    large = hn::Sub(one, exp_normal(d, large));
  } else {
    large = hn::Sub(one, erfc_positive(d, a));
  }
  return hn::IfThenElse(hn::Lt(a, one), erf_small(d, x), hn::CopySign(large, x));
}

// Where the result is erf_small.
template <class D, class V>
HWY_INLINE hn::Mask<D> is_below_one(D d, V x) {
  return hn::Lt(hn::Abs(x), constant(d, 1));
}

// Up to 1/2 in magnitude 1 - erf x loses nothing and erf_small has the smaller error.
template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  const V a = hn::Abs(x), y = erfc_positive(d, a);
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 2), y), y);
  return hn::IfThenElse(hn::Lt(a, constant(d, 0.5)), hn::Sub(constant(d, 1), erf_small(d, x)), far);
}

// 2^t for results that will be rounded to f32.
template <class D, class V>
HWY_INLINE V exp2_short(D d, V t) {
  const V magic = constant(d, FloatTraits<double>::kBiasedMagic);
  t = clamp_keep_nan(d, t, -200, 200);
  const V shifted = hn::Add(t, magic), r = hn::Sub(t, hn::Sub(shifted, magic));
  const V q = hn::MulAdd(r, polynomial(d, r, kExp2F64Short), constant(d, 0.69314718055994531));
  return hn::Mul(hn::MulAdd(q, r, constant(d, 1)), normal_power<0>(d, shifted));
}
// erfc of an argument that was f32, by the same formula with fewer terms; 0 or 2 in f32 from |x| = 10.1 on.
template <class D, class V>
HWY_INLINE V erfc_short(D d, V x) {
  const V a = clamp_keep_nan(d, hn::Abs(x), 0, 11), four = constant(d, 4);
  const V t = hn::Div(hn::Sub(a, four), hn::Add(a, four));
  const V g = hn::Div(polynomial(d, t, kErfcxF64Short), hn::MulAdd(a, constant(d, 2), constant(d, 1)));
  const V y = hn::Mul(exp2_short(d, hn::Mul(hn::Mul(a, a), constant(d, -1.4426950408889634))), g);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 2), y), y);
}

// erfc of f32. e^(-a²), erfcx a = g(t) / (1 + 2a) with t = (a - 1.5) / (a + 1.5), and their product: what each step
// loses to rounding is added at the end, so that the error stays below 1 ulp. 0 or 2 from |x| = 10.06 on.
template <class D, class V>
HWY_INLINE V erfc_fused(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const V one = constant(d, 1), two = constant(d, 2);
  // Up to 1/2: 1 - erf x = (1 - x) - x s.
  const V z = hn::Mul(x, x), s = hn::MulAdd(z, polynomial(d, z, kErfSmallF32), constant(d, 0.12837916709551257));
  const V rest = hn::Sub(one, x), rest_lost = hn::Sub(hn::Sub(one, rest), x);
  const V near = hn::Add(rest, hn::NegMulAdd(x, s, rest_lost));
  const V size = hn::Abs(x);
  const auto vanishes = hn::Gt(size, constant(d, 10.06));
  const V a = hn::IfThenZeroElse(vanishes, size), shift = constant(d, 1.5);
  const V top = hn::Sub(a, shift), below = hn::Add(a, shift), bottom = hn::MulAdd(a, two, one);
  const V inverse = hn::Div(one, hn::Mul(below, bottom)), t = hn::Mul(hn::Mul(top, bottom), inverse);
  const V first = constant(d, kErfcxSingleFirst), others = hn::Mul(t, polynomial(d, t, kErfcxF32));
  const V g = hn::Add(first, others), g_lost = hn::Sub(others, hn::Sub(g, first));
  const V ratio = hn::Mul(g, hn::Mul(below, inverse)), bottom_lost = hn::MulAdd(a, two, hn::Sub(one, bottom));
  const V ratio_lost = hn::Add(hn::NegMulAdd(bottom_lost, ratio, g_lost), hn::NegMulAdd(ratio, bottom, g));
  const V h = hn::Mul(a, a), shifted = nearest_exponent(d, hn::Neg(h));
  const V k = hn::Sub(shifted, hn::Set(d, Traits::kBiasedMagic)), ln2_low = hn::Set(d, Traits::kLn2Low);
  const V high = hn::NegMulAdd(k, hn::Set(d, Traits::kLn2High), hn::Neg(h));
  const V r = hn::NegMulAdd(k, ln2_low, high), r_lost = hn::NegMulAdd(k, ln2_low, hn::Sub(high, r));
  // Relative to the product; 1/g is between 0.78 and 0.85.
  const V low = hn::Add(hn::Add(hn::Mul(ratio_lost, constant(d, 0.81)), hn::NegMulAdd(a, a, h)), r_lost);
  const V rr = hn::Mul(r, r), q = exp_rest(d, r), rise = hn::MulAdd(rr, q, r), y = hn::Add(one, rise);
  const V y_lost = hn::Add(hn::Sub(rise, hn::Sub(y, one)), hn::MulAdd(rr, q, hn::Sub(r, rise)));
  const V product = hn::MulAdd(y, ratio, hn::Mul(hn::MulAdd(y, low, y_lost), ratio));
  const V positive = hn::IfThenZeroElse(vanishes, scale(d, product, shifted));
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(two, positive), positive);
  return hn::IfThenElse(hn::Lt(size, constant(d, 0.5)), near, far);
}
// For FusedOrInDouble.
template <class D, class V>
HWY_INLINE V erfc_of_single(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return erfc_fused(d, x);
  else
    return erfc_short(d, x);
}

// erfcx a = 1/(a sqrt(pi)) (1 - h (1 - 3h (1 - 5h ...))), h = 1/(2a²): enough terms for doubles from a = 28 on and
// floats from a = 11 on.
template <class D, class V>
HWY_INLINE V erfcx_far(D d, V a) {
  const V one = constant(d, 1), h = hn::Div(constant(d, 0.5), hn::Mul(a, a));
  V series = one;
  for (int k = 13; k > 0; k -= 2) series = hn::NegMulAdd(hn::Mul(h, constant(d, k)), series, one);
  return hn::Mul(hn::Div(constant(d, 0.56418958354775629), a), series);
}
// Below zero erfcx x = 2 e^(x²) - erfcx(-x). Up to 1/2 in magnitude e^(x²) (1 - erf x) has the smaller error, as in
// erfc.
template <class D, class V>
HWY_INLINE V erfcx(D d, V x) {
  const V a = hn::Abs(x), near = clamp_keep_nan(d, a, 0, 28);
  const ScaledErfc<D> part = scaled_erfc(d, near);
  const V middle = hn::MulAdd(part.correction, part.ratio, part.ratio);
  const V y = hn::IfThenElse(hn::Gt(a, constant(d, 28)), erfcx_far(d, a), middle);
  const V h = hn::Mul(near, near), power = exp_of_sum(d, h, square_error(d, near, h));
  const V outer = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Add(power, power), y), y);
  const V inner = hn::Mul(power, hn::Sub(constant(d, 1), erf_small(d, x)));
  return hn::IfThenElse(hn::Lt(a, constant(d, 0.5)), inner, outer);
}
// The same for an argument that was f32; the result is infinite in f32 from x = -9.4 on.
template <class D, class V>
HWY_INLINE V erfcx_short(D d, V x) {
  const V a = hn::Abs(x), near = clamp_keep_nan(d, a, 0, 11), four = constant(d, 4);
  const V t = hn::Div(hn::Sub(near, four), hn::Add(near, four));
  const V small = hn::Div(polynomial(d, t, kErfcxF64Short), hn::MulAdd(near, constant(d, 2), constant(d, 1)));
  const V y = hn::IfThenElse(hn::Gt(a, constant(d, 11)), erfcx_far(d, a), small);
  const V power = exp2_short(d, hn::Mul(hn::Mul(near, near), constant(d, 1.4426950408889634)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Add(power, power), y), y);
}

// C's special cases of pow, given |x|^y where both are ordinary.
template <class D, class V>
HWY_INLINE V pow_specials(D d, V x, V y, V magnitude) {
  const V one = constant(d, 1), zero = hn::Zero(d), inf = hn::Inf(d), ax = hn::Abs(x);
  const auto y_number = hn::Eq(y, y);
  V r = hn::IfThenElse(hn::And(hn::Eq(ax, one), y_number), one, magnitude);  // 1 to an infinite power too
  const auto integer = hn::Eq(hn::Floor(y), y);
  const V half = hn::Mul(y, constant(d, 0.5));
  const auto odd = hn::And(integer, not_equal(hn::Floor(half), half));
  const auto negative_finite = hn::And(hn::Lt(x, zero), hn::Lt(ax, inf));
  const auto no_root = hn::AndNot(integer, negative_finite);
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const V nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  r = hn::IfThenElse(hn::Or(no_root, hn::Or(not_equal(x, x), not_equal(y, y))), nan, r);
  return hn::IfThenElse(hn::Or(hn::Eq(x, one), hn::Eq(y, zero)), one, r);
}

// x and y were f32: |x|^y = 2^(y log2|x|) with about 35 bits of log2, so that rounding to f32 dominates the error.
template <class D, class V>
HWY_INLINE V log2_short(D d, V ax) {
  const Split<D> p = split(d, ax);
  const V s = hn::Div(p.fraction, hn::Add(p.fraction, constant(d, 2))), z = hn::Mul(s, s);
  const V natural = hn::MulAdd(hn::Mul(s, z), polynomial(d, z, kLogF64Short), hn::Add(s, s));
  return hn::MulAdd(natural, constant(d, 1.4426950408889634), hn::ConvertTo(d, p.exponent));
}
// Positive bases and finite exponents have no special cases.
template <class D, class V>
HWY_INLINE hn::Mask<D> pow_is_plain(D d, V x, V y) {
  const V inf = hn::Inf(d);
  return hn::And(hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, inf)), hn::Lt(hn::Abs(y), inf));
}
template <class D, class V>
HWY_INLINE V pow_short_plain(D d, V x, V y) {
  return exp2_short(d, hn::Mul(y, log2_short(d, x)));
}
template <class D, class V>
HWY_INLINE V pow_short(D d, V x, V y) {
  const V ax = hn::Abs(x), inf = hn::Inf(d);
  V log2 = log2_short(d, ax);
  log2 = hn::IfThenElse(hn::Eq(ax, hn::Zero(d)), hn::Neg(inf), hn::IfThenElse(hn::Eq(ax, inf), inf, log2));
  return pow_specials(d, x, y, exp2_short(d, hn::Mul(y, log2)));
}

#if HWY_NATIVE_FMA
template <class D>
struct TwoParts {
  hn::Vec<D> high, low;
};

// log x = k ln2 + log(1 + f) to 2^-65 of it, as a sum of two numbers. With s = f / (2 + f) = u + v and z = s²,
// log(1 + f) = 2s (1 + z (1/3 + z q(z))): errors of q count z² times, so that all but q are sums of two numbers.
template <class D>
HWY_INLINE TwoParts<D> log_in_parts(D d, const Split<D>& split) {
  using V = hn::Vec<D>;
  using Traits = FloatTraits<double>;
  const V two = constant(d, 2), f = split.fraction, k = hn::ConvertTo(d, split.exponent);
  const V bottom = hn::Add(f, two), bottom_low = hn::Sub(f, hn::Sub(bottom, two));
  const V inverse = hn::Div(constant(d, 1), bottom), u = hn::Mul(f, inverse);
  const V v = hn::Mul(hn::NegMulAdd(u, bottom_low, hn::NegMulAdd(u, bottom, f)), inverse);
  const V u2 = hn::Add(u, u), v2 = hn::Add(v, v);
  const V z = hn::Mul(u, u), z_low = hn::MulAdd(u2, v, hn::MulSub(u, u, z));
  const V third = constant(d, 1.0 / 3), rest = hn::Mul(z, polynomial(d, z, kLogPowerF64));
  const V slope = hn::Add(third, rest);
  const V slope_low = hn::Add(hn::Sub(rest, hn::Sub(slope, third)), constant(d, 0x1.5555555555555p-56));
  const V w = hn::Mul(z, slope);
  const V w_low = hn::MulAdd(z, slope_low, hn::MulAdd(z_low, slope, hn::MulSub(z, slope, w)));
  const V more = hn::Mul(u2, w), more_low = hn::MulAdd(u2, w_low, hn::MulSub(u2, w, more));
  const V y = hn::Add(u2, more);
  const V y_low = hn::Add(hn::Sub(more, hn::Sub(y, u2)), hn::Add(more_low, hn::MulAdd(v2, w, v2)));
  const V exponent = hn::Mul(k, hn::Set(d, Traits::kLn2High)), high = hn::Add(exponent, y);
  const V low = hn::Add(hn::Sub(y, hn::Sub(high, exponent)), hn::MulAdd(k, hn::Set(d, Traits::kLn2Low), y_low));
  return {high, low};
}

// e^(y·log): what the product and the reductions of exp round is added to r² q(r). A y beyond 2^65 gives 0 or infinity
// for any x but 1, as 2^65 does.
template <class D, class V>
HWY_INLINE V power_of_log(D d, V y, const TwoParts<D>& log) {
  using Traits = FloatTraits<double>;
  y = clamp_keep_nan(d, y, -0x1p65, 0x1p65);
  const V product = hn::Mul(y, log.high), error = hn::MulAdd(y, log.low, hn::MulSub(y, log.high, product));
  const V low = hn::IfThenElseZero(hn::Lt(hn::Abs(product), constant(d, -Traits::kExpLow)), error);
  const V x = clamp_keep_nan(d, product, Traits::kExpLow, Traits::kExpHigh), shifted = nearest_exponent(d, x);
  const V k = hn::Sub(shifted, hn::Set(d, Traits::kBiasedMagic));
  const V part = hn::NegMulAdd(k, hn::Set(d, Traits::kLn2High), x);
  const V added = hn::NegMulAdd(k, hn::Set(d, Traits::kLn2Low), low), r = hn::Add(part, added);
  const V lost = hn::Sub(added, hn::Sub(r, part));
  const V one = constant(d, 1), tail = hn::MulAdd(hn::Mul(r, r), exp_rest(d, r), lost), near = hn::Add(one, r);
  return scale(d, hn::Add(near, hn::Add(hn::Sub(r, hn::Sub(near, one)), tail)), shifted);
}

template <class D, class V>
HWY_INLINE hn::Mask<D> pow_of_double_is_plain(D d, V x, V y) {
  return hn::And(is_positive_normal(d, x), hn::Lt(hn::Abs(y), hn::Inf(d)));
}
template <class D, class V>
HWY_INLINE V pow_plain(D d, V x, V y) {
  return power_of_log(d, y, log_in_parts(d, split(d, x)));
}
template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  const V ax = hn::Abs(x), inf = hn::Inf(d);
  TwoParts<D> log = log_in_parts(d, split_any(d, ax));
  log.high = hn::IfThenElse(hn::Eq(ax, hn::Zero(d)), hn::Neg(inf), hn::IfThenElse(hn::Eq(ax, inf), inf, log.high));
  return pow_specials(d, x, y, power_of_log(d, y, log));
}
#else  // products without their rounding errors would cost more than the C library's function
template <class D, class V>
HWY_INLINE hn::Mask<D> pow_of_double_is_plain(D, V x, V) {
  return hn::Lt(x, x);  // nowhere
}
template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  return by_lane(d, x, y, [](double a, double b) { return std::pow(a, b); });
}
template <class D, class V>
HWY_INLINE V pow_plain(D d, V x, V y) {
  return pow(d, x, y);
}
#endif

namespace {

EBB_UNARY(Erf, erf)
EBB_UNARY_WITH_PLAIN(ErfWithSmall, erf, is_below_one, erf_small)
EBB_UNARY(Erfc, erfc)
EBB_UNARY(ErfcOfSingle, erfc_of_single)
EBB_UNARY(Erfcx, erfcx)
EBB_UNARY(ErfcxShort, erfcx_short)

}  // namespace

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// As in math_functions-inl.h.
#undef EBB_MATH_ERF
#define EBB_MATH_ERF(X)                           \
  X(erf, Erf, FusedOrInDouble, ErfWithSmall, 2)   \
  X(erfc, ErfcOfSingle, FusedOrInDouble, Erfc, 2) \
  X(erfcx, ErfcxShort, InDouble, Erfcx, 2)

#endif
