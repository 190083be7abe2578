// SPDX-License-Identifier: MIT
// Vector lgamma, digamma and trigamma of f32, computed in f64, for positive numbers; others are computed one by one.
#if defined(EBB_CPU_MATH_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_GAMMA_INL_H_
#undef EBB_CPU_MATH_GAMMA_INL_H_
#else
#define EBB_CPU_MATH_GAMMA_INL_H_
#endif

#include "cpu/tile/loops-inl.h"
#include "cpu/tile/math-inl.h"
#include "cpu/tile/special.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

// Positive finite numbers of f32: every one of them is a normal number of f64.
template <class D, class V>
HWY_INLINE hn::Mask<D> is_positive_f32(D d, V x) {
  return hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, constant(d, 3.5e38)));
}

// plain(d, x) where x is positive, scalar(x) in the other lanes: a lane's result does not depend on its neighbours.
template <class D, class V, class Plain, class Scalar>
HWY_INLINE V positive_or_by_lane(D d, V x, Plain plain, Scalar scalar) {
  const auto positive = is_positive_f32(d, x);
  const V found = plain(hn::IfThenElse(positive, x, constant(d, 1)));
  if (hn::AllTrue(d, positive)) return found;
  return hn::IfThenElse(positive, found, by_lane(d, x, scalar));
}

// Below 8.5: x = 2 + k + h with |h| <= 1/2, and log gamma(2 + h) is a polynomial that vanishes at h = 0;
//   k >= 0: log gamma(x) = log gamma(2 + h) + log((2 + h)···(x - 1)),   k < 0: ... - log(x···(1 + h))
// The logarithm of x itself near 1 keeps the digits that the sum would lose there. Above, Stirling's series:
//   log gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + 1/(12 x) - 1/(360 x³) + 1/(1260 x⁵) - 1/(1680 x⁷)
template <class D, class V>
HWY_INLINE V lgamma_positive(D d, V x) {
  const V one = constant(d, 1), large = constant(d, 8.5);
  const auto is_large = hn::Ge(x, large);
  const V near = hn::IfThenElse(is_large, constant(d, 2), x), half = constant(d, 0.5);
  const auto below_half = hn::Lt(near, half), below = hn::Lt(near, constant(d, 1.5));
  V base = hn::IfThenElse(below, hn::Add(near, one), near);
  base = hn::IfThenElse(below_half, hn::Add(base, one), base);
  V product = hn::IfThenElse(below, near, one);
  product = hn::IfThenElse(below_half, hn::Mul(near, hn::Add(near, one)), product);
  for (int step = 0; step < 6; ++step) {
    const auto above = hn::Gt(base, constant(d, 2.5));
    base = hn::IfThenElse(above, hn::Sub(base, one), base);
    product = hn::IfThenElse(above, hn::Mul(product, base), product);
  }
  const V logarithm = log_normal(d, hn::IfThenElse(is_large, x, product));
  const V h = hn::Sub(base, constant(d, 2));
  const V small =
      hn::MulAdd(h, polynomial(d, h, kLgammaF64Short), hn::IfThenElse(below, hn::Neg(logarithm), logarithm));
  const V r = hn::Div(one, x), w = hn::Mul(r, r);
  V series = hn::MulAdd(w, constant(d, -1.0 / 1680), constant(d, 1.0 / 1260));
  series = hn::MulAdd(w, series, constant(d, -1.0 / 360));
  series = hn::MulAdd(w, series, constant(d, 1.0 / 12));
  const V stirling = hn::MulAdd(hn::Sub(x, half), logarithm, hn::Sub(constant(d, 0.9189385332046727), x));
  return hn::IfThenElse(is_large, hn::MulAdd(r, series, stirling), small);
}

// psi(x) = psi(x + 1) - 1/x up to 6; the sum of the reciprocals is one fraction. There
//   psi(z) = log z - 1/(2z) - Σ B(2k) / (2k z^2k)
// Near the positive root the parts cancel, and the Taylor series around it does not.
template <class D, class V>
HWY_INLINE V digamma_positive(D d, V x) {
  const V one = constant(d, 1), large = constant(d, 6);
  V z = x, top = hn::Zero(d), bottom = one;
  for (int step = 0; step < 6; ++step) {
    const auto below = hn::Lt(z, large);
    top = hn::IfThenElse(below, hn::MulAdd(top, z, bottom), top);
    bottom = hn::IfThenElse(below, hn::Mul(bottom, z), bottom);
    z = hn::IfThenElse(below, hn::Add(z, one), z);
  }
  const V r = hn::Div(one, z), w = hn::Mul(r, r);
  constexpr double kSeries[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const V tail = hn::MulAdd(w, polynomial(d, w, kSeries), hn::Mul(constant(d, 0.5), r));
  const V sum = hn::Sub(hn::Sub(log_normal(d, z), tail), hn::Div(top, bottom));
  const V near = hn::Sub(hn::Sub(x, constant(d, kDigammaRootHigh)), constant(d, kDigammaRootLow));
  return hn::IfThenElse(hn::Lt(hn::Abs(near), constant(d, 0.05)), hn::Mul(near, polynomial(d, near, kDigammaRoot)),
                        sum);
}

// psi'(x) = psi'(x + 1) + 1/x² up to 6, there psi'(z) = 1/z + 1/(2z²) + Σ B(2k) / z^(2k+1).
template <class D, class V>
HWY_INLINE V trigamma_positive(D d, V x) {
  const V one = constant(d, 1), large = constant(d, 6);
  V z = x, top = hn::Zero(d), bottom = one;
  for (int step = 0; step < 6; ++step) {
    const auto below = hn::Lt(z, large);
    const V square = hn::Mul(z, z);
    top = hn::IfThenElse(below, hn::MulAdd(top, square, bottom), top);
    bottom = hn::IfThenElse(below, hn::Mul(bottom, square), bottom);
    z = hn::IfThenElse(below, hn::Add(z, one), z);
  }
  const V r = hn::Div(one, z), w = hn::Mul(r, r);
  constexpr double kSeries[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
  const V tail = hn::MulAdd(hn::Mul(w, r), polynomial(d, w, kSeries), hn::MulAdd(constant(d, 0.5), w, r));
  return hn::Add(tail, hn::Div(top, bottom));
}

template <class D, class V>
HWY_INLINE V lgamma_of_f32(D d, V x) {
  return positive_or_by_lane(
      d, x, [d](V v) { return lgamma_positive(d, v); }, [](double v) { return log_gamma(v); });
}
template <class D, class V>
HWY_INLINE V digamma_of_f32(D d, V x) {
  return positive_or_by_lane(
      d, x, [d](V v) { return digamma_positive(d, v); }, [](double v) { return digamma(v); });
}
template <class D, class V>
HWY_INLINE V trigamma_of_f32(D d, V x) {
  return positive_or_by_lane(
      d, x, [d](V v) { return trigamma_positive(d, v); }, [](double v) { return polygamma(1, v); });
}

namespace {

EBB_UNARY_WITH_PLAIN(Lgamma, lgamma_of_f32, is_positive_f32, lgamma_positive)
EBB_UNARY_WITH_PLAIN(Digamma, digamma_of_f32, is_positive_f32, digamma_positive)
EBB_UNARY_WITH_PLAIN(Trigamma, trigamma_of_f32, is_positive_f32, trigamma_positive)

}  // namespace

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
