// Vector erf, erfc and pow.
#if defined(EBB_CPU_MATH_ERF_POW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_ERF_POW_INL_H_
#undef EBB_CPU_MATH_ERF_POW_INL_H_
#else
#define EBB_CPU_MATH_ERF_POW_INL_H_
#endif

#include <cmath>

#include "cpu/math-inl.h"
#include "cpu/tile_loops-inl.h"

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

// erfc a = e^(-a²) g(t) / (1 + 2a), t = (a - 4) / (a + 4), for a >= 0; a² = h + e exactly, e^-e = 1 - e.
template <class D, class V>
HWY_INLINE V erfc_positive(D d, V a) {
  a = clamp_keep_nan(d, a, 0, 28);
  const V four = constant(d, 4), t = hn::Div(hn::Sub(a, four), hn::Add(a, four));
  const V h = hn::Mul(a, a), e = square_error(d, a, h);
  const V g = hn::Div(polynomial(d, t, kErfcxF64), hn::MulAdd(a, constant(d, 2), constant(d, 1)));
  return hn::Mul(exp(d, hn::Neg(h)), hn::NegMulAdd(g, e, g));
}

template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  const V y = erfc_positive(d, hn::Abs(x));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 2), y), y);
}

// x (2/sqrt(pi) + x² e(x²)) up to 1, then 1 - erfc |x|
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V a = hn::Abs(x), z = hn::Mul(x, x);
  V small, large;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const V low = hn::MulAdd(z, polynomial(d, z, kErfSmallF32), constant(d, 0.12837916709551257));
    small = hn::Add(x, hn::Mul(x, low));  // 2/sqrt(pi) = 1 + 0.128...
    const V capped = clamp_keep_nan(d, a, 0, 4);
    large = hn::Sub(constant(d, 1), exp(d, polynomial(d, capped, kErfLargeF32)));
  } else {
    const V low = hn::MulAdd(z, polynomial(d, z, kErfSmallF64), constant(d, 0.12837916709551257));
    small = hn::Add(x, hn::Mul(x, low));
    large = hn::Sub(constant(d, 1), erfc_positive(d, a));
  }
  return hn::IfThenElse(hn::Lt(a, constant(d, 1)), small, hn::CopySign(large, x));
}

// C's special cases of pow, given |x|^y where both are ordinary.
template <class D, class V>
HWY_INLINE V pow_specials(D d, V x, V y, V magnitude) {
  const V one = constant(d, 1), zero = hn::Zero(d), inf = hn::Inf(d), ax = hn::Abs(x);
  const auto y_number = hn::Eq(y, y);
  V r = hn::IfThenElse(hn::And(hn::Eq(ax, one), y_number), one, magnitude);  // 1 to an infinite power too
  const auto integer = hn::Eq(hn::Floor(y), y);
  const V half = hn::Mul(y, constant(d, 0.5));
  const auto odd = hn::And(integer, hn::Ne(hn::Floor(half), half));
  const auto negative_finite = hn::And(hn::Lt(x, zero), hn::Lt(ax, inf));
  const auto no_root = hn::AndNot(integer, negative_finite);
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const V nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  r = hn::IfThenElse(hn::Or(no_root, hn::Or(hn::Ne(x, x), hn::Ne(y, y))), nan, r);
  return hn::IfThenElse(hn::Or(hn::Eq(x, one), hn::Eq(y, zero)), one, r);
}

// x and y were f32: |x|^y = 2^(y log2|x|) with about 35 bits of log2, so that the rounding to f32 is what counts.
template <class D, class V>
HWY_INLINE V pow_short(D d, V x, V y) {
  const SignedTag<D> di;
  const V ax = hn::Abs(x), inf = hn::Inf(d);
  const Split<D> p = split(d, ax);
  const V s = hn::Div(p.fraction, hn::Add(p.fraction, constant(d, 2))), z = hn::Mul(s, s);
  const V natural = hn::MulAdd(hn::Mul(s, z), polynomial(d, z, kLogF64Short), hn::Add(s, s));
  V log2 = hn::MulAdd(natural, constant(d, 1.4426950408889634), hn::ConvertTo(d, p.exponent));
  log2 = hn::IfThenElse(hn::Eq(ax, hn::Zero(d)), hn::Neg(inf), hn::IfThenElse(hn::Eq(ax, inf), inf, log2));

  const V t = clamp_keep_nan(d, hn::Mul(y, log2), -200, 200);
  const V magic = constant(d, FloatTraits<double>::kRoundMagic);
  const V shifted = hn::Add(t, magic), r = hn::Sub(t, hn::Sub(shifted, magic));
  const V e =
      hn::MulAdd(hn::MulAdd(r, polynomial(d, r, kExp2F64Short), constant(d, 0.69314718055994531)), r, constant(d, 1));
  const V power = hn::Mul(e, power_of_two(d, hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic))));
  return pow_specials(d, x, y, power);
}

template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  return by_lane(d, x, y, [](double a, double b) { return std::pow(a, b); });
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
