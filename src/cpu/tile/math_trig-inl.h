// SPDX-License-Identifier: MIT
// Vector sin, cos, tan, their inverses, cbrt and hypot in f64; f32 tiles come through here promoted to f64.
#if defined(EBB_CPU_MATH_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_TRIG_INL_H_
#undef EBB_CPU_MATH_TRIG_INL_H_
#else
#define EBB_CPU_MATH_TRIG_INL_H_
#endif

#include <cmath>

#include "cpu/tile/loops-inl.h"
#include "cpu/tile/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

enum class Trig { sin, cos, tan };

template <Trig kFunction>
double scalar_trig(double x) {
  if constexpr (kFunction == Trig::sin) return std::sin(x);
  if constexpr (kFunction == Trig::cos) return std::cos(x);
  return std::tan(x);
}

// x = n pi/2 + (r + low), |r| <= pi/4
template <class D>
struct Quadrant {
  hn::Vec<D> r, low;
  hn::Vec<SignedTag<D>> n;
};

// pi/2 = P1 + P2 + P3. From |x| = 1 on, x - n P1 is exact (its last bit is not below that of P1); n P2 takes the rest
// and its rounding error is kept. Needs FMA.
// For arguments that were f32, up to 2^20, two parts suffice: the first has 33 bits, so that n times it is exact.
template <bool kShort, class D, class V>
HWY_INLINE Quadrant<D> reduce_by_half_pi(D d, V x) {
  const SignedTag<D> di;
  const V magic = constant(d, FloatTraits<double>::kRoundMagic);
  const V shifted = hn::MulAdd(x, constant(d, 0x1.45f306dc9c883p-1), magic), n = hn::Sub(shifted, magic);
  const auto quadrant = hn::BitCast(di, shifted);  // magic is even enough for the two bits that matter
  if constexpr (kShort) {
    const V first = hn::NegMulAdd(n, constant(d, 0x1.921fb544p+0), x);
    return {hn::NegMulAdd(n, constant(d, 0x1.0b4611a626331p-34), first), hn::Zero(d), quadrant};
  } else {
    const V p2 = constant(d, 0x1.1a62633145c07p-54), p3 = constant(d, -0x1.f1976b7ed8fbcp-110);
    const V first = hn::NegMulAdd(n, constant(d, 0x1.921fb54442d18p+0), x);
    const V r = hn::NegMulAdd(n, p2, first);
    return {r, hn::NegMulAdd(n, p3, hn::NegMulAdd(n, p2, hn::Sub(first, r))), quadrant};
  }
}

// sin or cos of the reduced argument, chosen and signed by the quadrant.
template <Trig kFunction, bool kShort, class D>
HWY_INLINE hn::Vec<D> from_quadrant(D d, const Quadrant<D>& q) {
  using V = hn::Vec<D>;
  const SignedTag<D> di;
  const V r = q.r, z = hn::Mul(r, r);
  V s, c;
  if constexpr (kShort) {
    s = hn::MulAdd(hn::Mul(r, z), polynomial(d, z, kSinF64Short), r);
    c = hn::MulAdd(hn::Mul(z, z), polynomial(d, z, kCosF64Short), hn::NegMulAdd(z, constant(d, 0.5), constant(d, 1)));
  } else {
    // sin(r + low) = sin r + low (1 - z/2); cos(r + low) = cos r - r low. 1 - z/2 is rounded, w carries its error.
    const V half = hn::Mul(z, constant(d, 0.5)), one = constant(d, 1), w = hn::Sub(one, half);
    const V correction = hn::MulAdd(hn::Mul(r, z), polynomial(d, z, kSinF64), hn::Mul(q.low, w));
    s = hn::Add(r, correction);
    const V error = hn::Sub(hn::Sub(one, w), half);
    const V tail = hn::MulAdd(hn::Mul(z, z), polynomial(d, z, kCosF64), hn::NegMulAdd(r, q.low, error));
    c = hn::Add(w, tail);
  }
  const auto one = hn::Set(di, 1);
  if constexpr (kFunction == Trig::tan) {
    const auto odd = hn::RebindMask(d, hn::Eq(hn::And(q.n, one), one));
    return hn::Div(hn::IfThenElse(odd, c, s), hn::IfThenElse(odd, hn::Neg(s), c));
  } else {
    const auto n = kFunction == Trig::cos ? hn::Add(q.n, one) : q.n;
    const auto odd = hn::RebindMask(d, hn::Eq(hn::And(n, one), one));
    const V sign = hn::BitCast(d, hn::ShiftLeft<62>(hn::And(n, hn::Set(di, 2))));
    return hn::Xor(hn::IfThenElse(odd, c, s), sign);
  }
}

template <bool kShort, class D, class V>
HWY_INLINE hn::Mask<D> trig_in_range(D d, V x) {
  return hn::Lt(hn::Abs(x), constant(d, kShort ? 0x1p20 : HWY_NATIVE_FMA ? 0x1p28 : 0.0));
}

// For x in the range of the reduction. Below 1 in magnitude the quadrant may still be 1 (from pi/4 on); x is then a
// multiple of 2^-53, and so is x - P1.
template <Trig kFunction, bool kShort, class D, class V>
HWY_INLINE V trig_ordinary(D d, V x) {
  const V y = from_quadrant<kFunction, kShort>(d, reduce_by_half_pi<kShort>(d, x));
  if constexpr (kFunction == Trig::cos) return y;
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // -0 stays -0
}

// Lanes beyond the range, infinities and NaN go to the C library; the other lanes' bits do not depend on them.
template <Trig kFunction, bool kShort, class D, class V>
HWY_INLINE V trig(D d, V x) {
  const auto ordinary = trig_in_range<kShort>(d, x);
  const V near = trig_ordinary<kFunction, kShort>(d, hn::IfThenElseZero(ordinary, x));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return near;
  const V far = by_lane(d, x, [](double v) { return scalar_trig<kFunction>(v); });
  return hn::IfThenElse(ordinary, near, far);
}

constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;

// atan(num / den) for 0 <= num, den. With t = num/den: t > tan(3pi/8) uses -1/t, t > tan(pi/8) uses (t-1)/(t+1), so one
// division gives |t| <= tan(pi/8) and the angle is offset + atan t.
template <class D, class V>
HWY_INLINE V atan_of_ratio(D d, V num, V den) {
  const auto high = hn::Gt(num, hn::Mul(den, constant(d, 2.414213562373095)));
  const auto middle = hn::Gt(num, hn::Mul(den, constant(d, 0.41421356237309503)));
  const V top = hn::IfThenElse(high, hn::Neg(den), hn::IfThenElse(middle, hn::Sub(num, den), num));
  const V bottom = hn::IfThenElse(high, num, hn::IfThenElse(middle, hn::Add(num, den), den));
  const V t = hn::Div(top, bottom), z = hn::Mul(t, t);
  const V share = hn::IfThenElse(high, constant(d, 1), hn::IfThenElseZero(middle, constant(d, 0.5)));
  const V low = hn::MulAdd(share, constant(d, kHalfPiLow), hn::Mul(hn::Mul(t, z), polynomial(d, z, kAtanF64)));
  return hn::Add(hn::Mul(share, constant(d, kHalfPiHigh)), hn::Add(t, low));
}

template <class D, class V>
HWY_INLINE V atan(D d, V x) {
  // Infinity over 1 would be infinity over infinity in the middle branch's operands.
  const V a = hn::Abs(x), capped = hn::IfThenElse(hn::Eq(a, hn::Inf(d)), constant(d, 0x1p1000), a);
  return hn::CopySign(atan_of_ratio(d, capped, constant(d, 1)), x);
}

template <class D, class V>
HWY_INLINE V atan2(D d, V y, V x) {
  V ay = hn::Abs(y), ax = hn::Abs(x);
  const V one = constant(d, 1), inf = hn::Inf(d), zero = hn::Zero(d);
  // Equal infinities are at 45 degrees; one infinity makes the other side negligible; 0/0 counts as 0/1.
  const auto y_inf = hn::Eq(ay, inf), x_inf = hn::Eq(ax, inf), any_inf = hn::Or(y_inf, x_inf);
  const auto nan = hn::Or(not_equal(x, x), not_equal(y, y));
  const auto both_zero = hn::And(hn::Eq(ay, zero), hn::Eq(ax, zero));
  const V sum = hn::Add(x, y);
  ay = hn::IfThenElse(any_inf, hn::IfThenElseZero(y_inf, one), ay);
  ax = hn::IfThenElse(any_inf, hn::IfThenElseZero(x_inf, one), hn::IfThenElse(both_zero, one, ax));
  // Halving large pairs and doubling small ones keeps sums and products of the two inside the range.
  const V larger = hn::IfThenElse(hn::Gt(ay, ax), ay, ax);
  const V factor = hn::IfThenElse(hn::Gt(larger, constant(d, 0x1p1000)), constant(d, 0x1p-60),
                                  hn::IfThenElse(hn::Lt(larger, constant(d, 0x1p-900)), constant(d, 0x1p100), one));
  const V angle = atan_of_ratio(d, hn::Mul(ay, factor), hn::Mul(ax, factor));
  const V behind = hn::Sub(constant(d, 2 * kHalfPiHigh), hn::Sub(angle, constant(d, 2 * kHalfPiLow)));
  const auto left = hn::Eq(hn::CopySign(one, x), hn::Neg(one));
  const V result = hn::CopySign(hn::IfThenElse(left, behind, angle), y);
  return hn::IfThenElse(nan, sum, result);
}

// asin a = a + a z P(z), z = a², up to 1/2; beyond, asin a = pi/2 - 2 asin s with s² = z = (1 - a)/2, exact there.
template <class D>
struct ArcParts {
  hn::Vec<D> root, tail;  // asin of `root` is root + tail
  hn::Mask<D> large;
};
template <class D, class V>
HWY_INLINE ArcParts<D> arc_parts(D d, V a) {
  const auto large = hn::Gt(a, constant(d, 0.5));
  const V z = hn::IfThenElse(large, hn::Mul(hn::Sub(constant(d, 1), a), constant(d, 0.5)), hn::Mul(a, a));
  const V root = hn::IfThenElse(large, hn::Sqrt(z), a);
  return {root, hn::Mul(hn::Mul(root, z), polynomial(d, z, kAsinF64)), large};
}
template <class D, class V>
HWY_INLINE V asin(D d, V x) {
  const ArcParts<D> p = arc_parts(d, hn::Abs(x));
  const V twice = hn::Add(p.root, p.root), tails = hn::Sub(hn::Add(p.tail, p.tail), constant(d, kHalfPiLow));
  const V large = hn::Sub(constant(d, kHalfPiHigh), hn::Add(twice, tails));
  return hn::CopySign(hn::IfThenElse(p.large, large, hn::Add(p.root, p.tail)), x);
}
template <class D, class V>
HWY_INLINE V acos(D d, V x) {
  const ArcParts<D> p = arc_parts(d, hn::Abs(x));
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V arc = hn::Add(p.root, p.tail);
  const V twice = hn::Add(arc, arc);
  const V behind = hn::Sub(constant(d, 2 * kHalfPiHigh), hn::Sub(twice, constant(d, 2 * kHalfPiLow)));
  const V signed_root = hn::CopySign(p.root, x), signed_tail = hn::CopySign(p.tail, x);
  const V middle =
      hn::Sub(constant(d, kHalfPiHigh), hn::Add(signed_root, hn::Sub(signed_tail, constant(d, kHalfPiLow))));
  return hn::IfThenElse(p.large, hn::IfThenElse(negative, behind, twice), middle);
}

// |x| = 2^(3q + r) m, m in [1, 2): a polynomial estimate of m^(1/3), one step of Halley (five digits become sixteen),
// one of Newton for the last bits.
template <class D, class V>
HWY_INLINE V cbrt(D d, V x) {
  using Traits = FloatTraits<double>;
  const SignedTag<D> di;
  const V a = hn::Abs(x);
  const auto tiny = hn::Lt(a, constant(d, 0x1p-1022));
  const V b = hn::IfThenElse(tiny, hn::Mul(a, constant(d, 0x1p54)), a);
  const auto bits = hn::BitCast(di, b);
  const V k = hn::Sub(hn::ConvertTo(d, hn::ShiftRight<Traits::kMantissa>(bits)), constant(d, 1023));
  const V q = hn::Floor(hn::MulAdd(k, constant(d, 1.0 / 3), constant(d, 1.0 / 6)));  // between thirds: rounding is safe
  const V r = hn::NegMulAdd(q, constant(d, 3), k);
  const auto is_one = hn::Eq(r, constant(d, 1)), is_two = hn::Eq(r, constant(d, 2));
  const V mantissa = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(di, static_cast<std::int64_t>(Traits::kMantissaMask))),
                                           hn::BitCast(di, constant(d, 1))));
  const V m =
      hn::Mul(mantissa, hn::IfThenElse(is_two, constant(d, 4), hn::IfThenElse(is_one, constant(d, 2), constant(d, 1))));
  const V root = hn::IfThenElse(is_two, constant(d, 1.5874010519681996),
                                hn::IfThenElse(is_one, constant(d, 1.2599210498948732), constant(d, 1)));
  V t = hn::Mul(polynomial(d, mantissa, kCbrt), root);
  const V cube = hn::Mul(hn::Mul(t, t), t), twice = hn::Add(m, m);
  t = hn::Mul(t, hn::Div(hn::Add(cube, twice), hn::Add(hn::Add(cube, cube), m)));
  const V square = hn::Mul(t, t);
  const V error = hn::NegMulAdd(square, t, m);  // m - t³
  t = hn::MulAdd(error, hn::Div(constant(d, 1.0 / 3), square), t);
  const V shift = hn::Sub(q, hn::IfThenElseZero(tiny, constant(d, 18)));
  // 2^shift, from the bits of shift + magic: its exponent is always a normal one.
  const V magic = constant(d, Traits::kRoundMagic);
  const UnsignedTag<D> du;
  const auto exponent = hn::Sub(hn::BitCast(du, hn::Add(shift, magic)), hn::BitCast(du, magic));
  const V y = hn::Mul(t, power_of_two(d, exponent));
  const auto ordinary = hn::And(hn::Gt(a, hn::Zero(d)), hn::Lt(a, hn::Inf(d)));
  return hn::CopySign(hn::IfThenElse(ordinary, y, a), x);
}

// sqrt(x² + y²), both scaled by a power of two when a square would leave the range.
template <class D, class V>
HWY_INLINE V hypot(D d, V x, V y) {
  const V a = hn::Abs(x), b = hn::Abs(y), one = constant(d, 1), inf = hn::Inf(d);
  const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);
  const auto huge = hn::Gt(larger, constant(d, 0x1p500)), tiny = hn::Lt(larger, constant(d, 0x1p-450));
  const V down = hn::IfThenElse(huge, constant(d, 0x1p-600), hn::IfThenElse(tiny, constant(d, 0x1p600), one));
  const V up = hn::IfThenElse(huge, constant(d, 0x1p600), hn::IfThenElse(tiny, constant(d, 0x1p-600), one));
  const V s = hn::Mul(a, down), t = hn::Mul(b, down);
  const V result = hn::Mul(hn::Sqrt(hn::MulAdd(s, s, hn::Mul(t, t))), up);
  return hn::IfThenElse(hn::Or(hn::Eq(a, inf), hn::Eq(b, inf)), inf, result);  // even if the other is NaN
}

namespace {

template <Trig kFunction, bool kWasF32>
struct Circular {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x) {
    return trig<kFunction, kWasF32>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {
    return trig_in_range<kWasF32>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V x, V) {
    return trig_ordinary<kFunction, kWasF32>(d, x);
  }
};
template <bool kWasF32>
using Sin = Circular<Trig::sin, kWasF32>;
template <bool kWasF32>
using Cos = Circular<Trig::cos, kWasF32>;
template <bool kWasF32>
using Tan = Circular<Trig::tan, kWasF32>;
EBB_UNARY(Asin, asin)
EBB_UNARY(Acos, acos)
EBB_UNARY(Atan, atan)
EBB_UNARY(Cbrt, cbrt)

}  // namespace

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// As in math_functions-inl.h.
#undef EBB_MATH_TRIG
#define EBB_MATH_TRIG(X)                     \
  X(sin, Sin<true>, InDouble, Sin<false>, 4) \
  X(cos, Cos<true>, InDouble, Cos<false>, 4) \
  X(tan, Tan<true>, InDouble, Tan<false>, 4) \
  X(asin, Asin, InDouble, Asin, 4)           \
  X(acos, Acos, InDouble, Acos, 4)           \
  X(atan, Atan, InDouble, Atan, 4)           \
  X(cbrt, Cbrt, InDouble, Cbrt, 4)

#endif
