// SPDX-License-Identifier: MIT
// Vector exp, log and functions based on them, for f32 and f64, sharing one body where the mathematics is the same.
// Coefficients come from tools/fit_polynomials.py. Errors are in units of the last place and are tested against MPFR.
#if defined(EBB_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_INL_H_
#undef EBB_CPU_MATH_INL_H_
#else
#define EBB_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "cpu/tile/math_coefficients.h"
#include "cpu/tile/math_traits.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using SignedTag = hn::RebindToSigned<D>;
template <class D>
using UnsignedTag = hn::RebindToUnsigned<D>;

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double x) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(x));
}

// c[k] + c[k+1] x + ... of kCount terms, x^2, x^4, x^8 given: halves are independent, so the chain of dependent
// operations grows with the logarithm of the degree (Estrin).
template <std::size_t kFirst, std::size_t kCount, class D, class V, class T>
HWY_INLINE V polynomial_part(D d, const V* powers, const T* c) {
  if constexpr (kCount == 1) {
    return hn::Set(d, c[kFirst]);
  } else if constexpr (kCount == 2) {
    return hn::MulAdd(hn::Set(d, c[kFirst + 1]), powers[0], hn::Set(d, c[kFirst]));
  } else {
    constexpr int kPower = kCount > 16 ? 4 : kCount > 8 ? 3 : kCount > 4 ? 2 : 1;
    constexpr std::size_t kLow = std::size_t{1} << kPower;
    return hn::MulAdd(polynomial_part<kFirst + kLow, kCount - kLow>(d, powers, c), powers[kPower],
                      polynomial_part<kFirst, kLow>(d, powers, c));
  }
}
template <class D, class V, class T, std::size_t kCount>
HWY_INLINE V polynomial(D d, V x, const T (&c)[kCount]) {
  constexpr std::size_t kSteps = horner_steps(kCount), kRest = kCount - kSteps;
  V powers[5];
  powers[0] = x;
  if constexpr (kRest > 2) powers[1] = hn::Mul(x, x);
  if constexpr (kRest > 4) powers[2] = hn::Mul(powers[1], powers[1]);
  if constexpr (kRest > 8) powers[3] = hn::Mul(powers[2], powers[2]);
  if constexpr (kRest > 16) powers[4] = hn::Mul(powers[3], powers[3]);
  V y = polynomial_part<kSteps, kRest>(d, powers, c);
  for (std::size_t k = kSteps; k > 0; --k) y = hn::MulAdd(y, x, hn::Set(d, c[k - 1]));
  return y;
}

// x within [low, high], NaN kept. x86 returns the second operand if either is NaN; Arm has instructions that propagate
// it, but Highway's Min and Max do not use them.
template <class D, class V>
HWY_INLINE V clamp_keep_nan(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
#if HWY_TARGET == HWY_NEON
  (void)d;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return V(vmaxq_f32(vdupq_n_f32(low), vminq_f32(vdupq_n_f32(high), x.raw)));
  else
    return V(vmaxq_f64(vdupq_n_f64(low), vminq_f64(vdupq_n_f64(high), x.raw)));
#elif HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  const V capped = hn::IfThenElse(hn::Gt(x, hn::Set(d, high)), hn::Set(d, high), x);
  return hn::IfThenElse(hn::Lt(capped, hn::Set(d, low)), hn::Set(d, low), capped);
#else
  return hn::Max(hn::Set(d, low), hn::Min(hn::Set(d, high), x));
#endif
}

// 2^k for k in the range of normal exponents.
template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI k) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const UnsignedTag<D> du;
  return hn::BitCast(d, hn::ShiftLeft<Traits::kMantissa>(hn::Add(hn::BitCast(du, k), hn::Set(du, Traits::kBias))));
}

// y · 2^k in two steps, so that k may reach from twice the lowest to twice the highest exponent: the first product is
// exact, the second rounds once, also into the subnormals. k comes as the bits of k + kBiasedMagic, whose low bits are
// the sum of the two biased exponents; shifting left drops the rest.
template <class D, class V>
HWY_INLINE V scale(D d, V y, V shifted) {
  constexpr int kMantissa = FloatTraits<hn::TFromD<D>>::kMantissa;
  const UnsignedTag<D> du;
  const auto sum = hn::BitCast(du, shifted), half = hn::ShiftRight<1>(sum);
  const V first = hn::BitCast(d, hn::ShiftLeft<kMantissa>(half));
  const V second = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::Sub(sum, half)));
  return hn::Mul(hn::Mul(y, first), second);
}

template <class D>
struct Reduced {
  hn::Vec<D> rest;     // r
  hn::Vec<D> shifted;  // k + kBiasedMagic
};

// x = k ln2 + r: |r| <= ln2 / 2 for the k nearest x / ln2
template <class D, class V>
HWY_INLINE V nearest_exponent(D d, V x) {
  return hn::MulAdd(x, constant(d, 1.4426950408889634), hn::Set(d, FloatTraits<hn::TFromD<D>>::kBiasedMagic));
}
template <class D, class V>
HWY_INLINE Reduced<D> reduce_by_ln2(D d, V x, V shifted) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const V k = hn::Sub(shifted, hn::Set(d, Traits::kBiasedMagic));
  const V r = hn::NegMulAdd(k, hn::Set(d, Traits::kLn2Low), hn::NegMulAdd(k, hn::Set(d, Traits::kLn2High), x));
  return {r, shifted};
}
template <class D, class V>
HWY_INLINE Reduced<D> reduce_by_ln2(D d, V x) {
  return reduce_by_ln2(d, x, nearest_exponent(d, x));
}

// (e^r - 1 - r) / r² for |r| <= ln2 / 2
template <class D, class V>
HWY_INLINE V exp_rest(D d, V r) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return polynomial(d, r, kExpF32);
  else
    return polynomial(d, r, kExpF64);
}

// 1 + r (c + r q), and the part lost to rounding. Without an instruction that multiplies and adds with one rounding,
// the small terms are added first.
template <class D>
struct Rounded {
  hn::Vec<D> value, lost;
};
template <class D, class V>
HWY_INLINE Rounded<D> one_plus(D d, V r, V c, V q) {
  const V one = constant(d, 1);
#if HWY_NATIVE_FMA
  const V slope = hn::MulAdd(r, q, c), y = hn::MulAdd(r, slope, one);
  return {y, hn::MulAdd(r, slope, hn::Sub(one, y))};
#else
  const V rest = hn::Add(hn::Mul(hn::Mul(r, r), q), hn::Mul(r, c)), y = hn::Add(one, rest);
  return {y, hn::Sub(rest, hn::Sub(y, one))};
#endif
}

// e^r = 1 + r + r² q(r)
template <class D, class V>
HWY_INLINE Rounded<D> exp_of_rest(D d, V r) {
  return one_plus(d, r, constant(d, 1), exp_rest(d, r));
}

// 2^(k + kOffset) from the bits of k + kBiasedMagic, where that is a normal number.
template <int kOffset, class D, class V>
HWY_INLINE V normal_power(D d, V shifted) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const UnsignedTag<D> du;
  const auto biased = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, Traits::kBias - kOffset));
  return hn::BitCast(d, hn::ShiftLeft<Traits::kMantissa>(biased));
}

// Where |x| is below this, e^x is a normal number and one factor scales it.
template <class D, class V>
HWY_INLINE hn::Mask<D> exp_is_normal(D d, V x) {
  return hn::Lt(hn::Abs(x), hn::Set(d, FloatTraits<hn::TFromD<D>>::kExpNormal));
}
// e^x for such x, or NaN. The same bits as exp.
template <class D, class V>
HWY_INLINE V exp_normal(D d, V x) {
  const Reduced<D> k = reduce_by_ln2(d, x);
  return hn::Mul(exp_of_rest(d, k.rest).value, normal_power<0>(d, k.shifted));
}

// e^x for any x. Results below the smallest subnormal, such as for the -inf of a mask, become 0 by selection: a product
// that underflows takes x86 processors more than a hundred cycles.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const auto vanishes = hn::Lt(x, hn::Set(d, Traits::kExpLow));
  const V a = hn::IfThenZeroElse(vanishes, clamp_keep_nan(d, x, Traits::kExpLow, Traits::kExpHigh));
  const Reduced<D> k = reduce_by_ln2(d, a);
  return hn::IfThenZeroElse(vanishes, scale(d, exp_of_rest(d, k.rest).value, k.shifted));
}

// e^|x| / 2 for sinh and cosh, which overflow later than e^|x|; plain where e^|x| is a normal number.
template <bool kPlain, class D, class V>
HWY_INLINE Rounded<D> half_exp(D d, V x) {
  V a = hn::Abs(x);
  if constexpr (!kPlain) a = clamp_keep_nan(d, a, 0, FloatTraits<hn::TFromD<D>>::kExpHigh);
  const Reduced<D> k = reduce_by_ln2(d, a);
  const Rounded<D> y = exp_of_rest(d, k.rest);
  if constexpr (kPlain) {
    const V power = normal_power<-1>(d, k.shifted);
    return {hn::Mul(y.value, power), hn::Mul(y.lost, power)};
  } else {
    const V shifted = hn::Sub(k.shifted, constant(d, 1));
    return {scale(d, y.value, shifted), scale(d, y.lost, shifted)};
  }
}

// e^(x + low), low tiny
template <class D, class V>
HWY_INLINE V exp_of_sum(D d, V x, V low) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const Reduced<D> k = reduce_by_ln2(d, clamp_keep_nan(d, x, Traits::kExpLow, Traits::kExpHigh));
  return scale(d, exp_of_rest(d, hn::Add(k.rest, low)).value, k.shifted);
}

// 2^x = 2^k · 2^r, |r| <= 1/2, r exact
template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  x = clamp_keep_nan(d, x, Traits::kExp2Low, Traits::kExp2High);
  const V magic = hn::Set(d, Traits::kBiasedMagic);
  const V shifted = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(shifted, magic));
  V q;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    q = polynomial(d, r, kExp2F32);
  else
    q = polynomial(d, r, kExp2F64);
  return scale(d, one_plus(d, r, constant(d, 0.69314718055994531), q).value, shifted);
}

// e^x - 1 = 2^k (e^r - 1) + (2^k - 1), in halves so that 2^k does not overflow before the result does. In f32 k is 0 up
// to |x| = 0.45, beyond ln2 / 2: just above that, where k = 1, the sum is smaller than its terms and their errors count
// more. From kExpm1Plain on 2^k - 1 has one digit too many: there each step's error is added at the end.
template <bool kPlain, class D, class V>
HWY_INLINE V expm1_parts(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  constexpr bool kSingle = sizeof(hn::TFromD<D>) == 4;
  const V a = kPlain ? x : clamp_keep_nan(d, x, Traits::kExpm1Low, Traits::kExpm1High);
  V shifted = nearest_exponent(d, a);
  if constexpr (kSingle)
    shifted = hn::IfThenElse(hn::Lt(hn::Abs(a), constant(d, 0.45)), hn::Set(d, Traits::kBiasedMagic), shifted);
  const V r = reduce_by_ln2(d, a, shifted).rest;
  V q;
  if constexpr (kSingle)
    q = polynomial(d, r, kExpm1F32);
  else
    q = polynomial(d, r, kExpF64);
  const V rest = hn::MulAdd(hn::Mul(r, r), q, r);
  const V half = normal_power<-1>(d, shifted), less = hn::Sub(half, constant(d, 0.5));
  V y = hn::MulAdd(half, rest, less);
  if constexpr (!kPlain) {
    const V slope = hn::MulAdd(r, q, constant(d, 1)), run = hn::Mul(half, r), rise = hn::Mul(run, slope);
    const V sum = hn::Add(less, rise);
    V lost = hn::Add(hn::MulSub(run, slope, rise), hn::Sub(hn::Sub(half, less), constant(d, 0.5)));
    lost = hn::Add(lost, hn::Sub(rise, hn::Sub(sum, less)));
    y = hn::IfThenElse(hn::Lt(a, hn::Set(d, Traits::kExpm1Plain)), y, hn::Add(sum, lost));
  }
  return hn::CopySign(hn::Add(y, y), x);  // -0 stays -0
}
template <class D, class V>
HWY_INLINE hn::Mask<D> expm1_is_plain(D d, V x) {
  return hn::Lt(hn::Abs(x), hn::Set(d, FloatTraits<hn::TFromD<D>>::kExpm1Plain));
}
template <class D, class V>
HWY_INLINE V expm1_plain(D d, V x) {
  return expm1_parts<true>(d, x);
}
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  return expm1_parts<false>(d, x);
}

template <class D>
struct Split {
  hn::Vec<D> fraction;             // f = m - 1, m in [sqrt(1/2), sqrt(2))
  hn::Vec<SignedTag<D>> exponent;  // k
};

// x = 2^k (1 + f) for positive normal x. Unsigned, so that the result for any other x is at least defined.
template <class D, class V>
HWY_INLINE Split<D> split(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  const UnsignedTag<D> du;
  const auto base = hn::Set(du, Traits::kRootHalf);
  const auto bits = hn::Sub(hn::BitCast(du, x), base);
  const auto m = hn::Add(hn::And(bits, hn::Set(du, Traits::kMantissaMask)), base);
  return {hn::Sub(hn::BitCast(d, m), constant(d, 1)), hn::ShiftRight<Traits::kMantissa>(hn::BitCast(di, bits))};
}

// log(1 + f) - f, small relative to f, so that what is added to it may round.
template <class D, class V>
HWY_INLINE V log_rest(D d, V f) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::Mul(hn::Mul(f, f), polynomial(d, f, kLogF32));
  } else {
    // log(1 + f) = 2s + s z L(z) with s = f / (2 + f), and 2s = f - s f = f - (f²/2 - s f²/2)
    const V s = hn::Div(f, hn::Add(f, constant(d, 2)));
    const V z = hn::Mul(s, s), half_square = hn::Mul(hn::Mul(f, f), constant(d, 0.5));
    const V tail = hn::Mul(z, polynomial(d, z, kLogF64));
    return hn::Sub(hn::Mul(s, hn::Add(half_square, tail)), half_square);
  }
}

// Results of log for arguments other than positive finite numbers.
template <class D, class V>
HWY_INLINE V log_specials(D d, V x, V y) {
  using T = hn::TFromD<D>;
  const V inf = hn::Inf(d), nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
  const V at_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), nan);
  y = hn::IfThenElse(hn::Lt(x, inf), y, x);
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), y, hn::IfThenElse(hn::Eq(x, x), at_zero, x));
}

// Subnormals are scaled into the normal numbers first.
template <class D, class V>
HWY_INLINE Split<D> split_any(D d, V x) {
  using T = hn::TFromD<D>;
  using Traits = FloatTraits<T>;
  const SignedTag<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  const V up = hn::Set(d, static_cast<T>(std::int64_t{1} << (Traits::kMantissa + 1)));
  const Split<D> s = split(d, hn::IfThenElse(tiny, hn::Mul(x, up), x));
  const auto shift = hn::IfThenElseZero(hn::RebindMask(di, tiny), hn::Set(di, Traits::kMantissa + 1));
  return {s.fraction, hn::Sub(s.exponent, shift)};
}

// k ln2 + (f + rest), rest small relative to f
template <class D, class V>
HWY_INLINE V log_sum_low(D d, V f, V k) {
  return hn::MulAdd(k, hn::Set(d, FloatTraits<hn::TFromD<D>>::kLn2Low), log_rest(d, f));
}
template <class D, class V>
HWY_INLINE V log_sum(D d, V f, hn::Vec<SignedTag<D>> exponent) {
  const V k = hn::ConvertTo(d, exponent);
  return hn::MulAdd(k, hn::Set(d, FloatTraits<hn::TFromD<D>>::kLn2High), hn::Add(f, log_sum_low(d, f, k)));
}
template <class D, class V>
HWY_INLINE V log_sum(D d, V f, hn::Vec<SignedTag<D>> exponent, V small) {
  const V k = hn::ConvertTo(d, exponent), low = hn::Add(log_sum_low(d, f, k), small);
  return hn::MulAdd(k, hn::Set(d, FloatTraits<hn::TFromD<D>>::kLn2High), hn::Add(f, low));
}

// log for arguments that need no special case.
template <class D, class V>
HWY_INLINE hn::Mask<D> is_positive_normal(D d, V x) {
  return hn::And(hn::Ge(x, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::min())), hn::Lt(x, hn::Inf(d)));
}

template <class D, class V>
HWY_INLINE V log_normal(D d, V x) {
  const Split<D> s = split(d, x);
  return log_sum(d, s.fraction, s.exponent);
}
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const Split<D> s = split_any(d, x);
  return log_specials(d, x, log_sum(d, s.fraction, s.exponent));
}

// u = 1 + x rounded, e its error: u = 2^k m, and 1 + f = m + 2^-k e. For k = 0 that f is x itself, exactly; otherwise
// its rounding error counts 1 / (1 + f) times, which is nearly 1 - f.
template <class D>
struct Log1pParts {
  hn::Vec<D> u, y;
};
template <bool kPlain, class D, class V>
HWY_INLINE Log1pParts<D> log1p_parts(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const UnsignedTag<D> du;
  const V one = constant(d, 1);
  const V u = hn::Add(x, one), error = hn::Sub(hn::Min(x, one), hn::Sub(u, hn::Max(x, one)));
  const Split<D> s = split(d, u);
  // 2^-k is subnormal for the last two k, where the error is negligible next to u: a quarter of 2^(2-k) does as well.
  constexpr int kShift = kPlain ? 0 : 2;
  const auto biased = hn::Sub(hn::Set(du, Traits::kBias + kShift), hn::BitCast(du, s.exponent));
  V down = hn::BitCast(d, hn::ShiftLeft<Traits::kMantissa>(biased));
  if constexpr (!kPlain) down = hn::Mul(down, constant(d, 0.25));
  const V added = hn::Mul(error, down), f = hn::Add(s.fraction, added);
  const V lost = hn::Sub(added, hn::Sub(f, s.fraction));
  return {u, log_sum(d, f, s.exponent, hn::NegMulAdd(lost, f, lost))};
}
template <class D, class V>
HWY_INLINE hn::Mask<D> log1p_is_plain(D d, V x) {
  return hn::And(hn::Gt(x, constant(d, -1)), hn::Lt(x, hn::Set(d, FloatTraits<hn::TFromD<D>>::kLog1pHigh)));
}
template <class D, class V>
HWY_INLINE V log1p_plain(D d, V x) {
  return hn::CopySign(log1p_parts<true>(d, x).y, x);  // -0 stays -0
}
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const Log1pParts<D> p = log1p_parts<false>(d, x);
  return log_specials(d, p.u, hn::CopySign(p.y, x));
}

// log(1 + x) of x in [0, 1], which needs no splitting; others, which never occur, are clamped to it. By Horner's rule:
// loops have several vectors side by side, so the fewest instructions are best.
template <class D, class V>
HWY_INLINE V log1p_unit(D d, V x) {
  const V zero = hn::Zero(d), one = constant(d, 1);
  const V u = hn::IfThenElse(hn::Gt(x, one), one, hn::IfThenElse(hn::Lt(x, zero), zero, x));  // NaN and -0 stay
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const V v = hn::Sub(u, constant(d, 0.5));
    V q = hn::Set(d, kLog1pUnitF32[std::size(kLog1pUnitF32) - 1]);
    for (std::size_t k = std::size(kLog1pUnitF32) - 1; k > 0; --k)
      q = hn::MulAdd(q, v, hn::Set(d, kLog1pUnitF32[k - 1]));
    return hn::MulAdd(hn::Mul(u, u), q, u);
  } else {
    return log1p_plain(d, u);
  }
}

// log2 x = k + log(1+f) / ln2, log10 x = k log10(2) + log(1+f) / ln10; the factor in two parts keeps x near 1 accurate.
struct Base2 {
  template <class T>
  static constexpr double kHigh = sizeof(T) == 4 ? 0x1.715476p+0 : 0x1.71547652b82fep+0;
  template <class T>
  static constexpr double kLow = sizeof(T) == 4 ? 0x1.4ae0cp-26 : 0x1.777d0ffda0d24p-56;
  template <class T>
  static constexpr double kExponentHigh = 1;
  template <class T>
  static constexpr double kExponentLow = 0;
  static constexpr double kUpper = 0x1.716p+0;
  static constexpr auto& kRestF32 = kLog2F32;
};
struct Base10 {
  template <class T>
  static constexpr double kHigh = sizeof(T) == 4 ? 0x1.bcb7b2p-2 : 0x1.bcb7b1526e50ep-2;
  template <class T>
  static constexpr double kLow = sizeof(T) == 4 ? -0x1.5b235ep-27 : 0x1.95355baaafad3p-57;
  template <class T>
  static constexpr double kExponentHigh = sizeof(T) == 4 ? 0x1.344p-2 : 0x1.34413509f6p-2;
  template <class T>
  static constexpr double kExponentLow = sizeof(T) == 4 ? 0x1.3509f8p-18 : 0x1.9fef311f12b36p-42;
  static constexpr double kUpper = 0x1.bccp-2;
  static constexpr auto& kRestF32 = kLog10F32;
};
template <class Base, class D>
HWY_INLINE hn::Vec<D> log_to_base(D d, const Split<D>& s) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const V f = s.fraction, k = hn::ConvertTo(d, s.exponent), high = constant(d, Base::template kHigh<T>);
  V low;
  if constexpr (sizeof(T) == 4)  // a polynomial of its own: the product with the factor would be rounded
    low = hn::MulAdd(hn::Mul(f, f), polynomial(d, f, Base::kRestF32), hn::Mul(f, constant(d, Base::template kLow<T>)));
  else
    low = hn::MulAdd(f, constant(d, Base::template kLow<T>), hn::Mul(log_rest(d, f), high));
  if constexpr (Base::template kExponentLow<T> != 0)
    low = hn::MulAdd(k, constant(d, Base::template kExponentLow<T>), low);
  V y = hn::MulAdd(f, high, low);
  if constexpr (sizeof(T) == 4 && !HWY_NATIVE_FMA) {
    // The product of the upper twelve digits of either factor is exact; the others are small.
    const UnsignedTag<D> du;
    const V upper = hn::BitCast(d, hn::And(hn::BitCast(du, f), hn::Set(du, 0xfffff000)));
    low = hn::MulAdd(f, constant(d, Base::template kHigh<T> - Base::kUpper), low);
    low = hn::MulAdd(hn::Sub(f, upper), constant(d, Base::kUpper), low);
    y = hn::MulAdd(upper, constant(d, Base::kUpper), low);
  }
  return hn::MulAdd(k, constant(d, Base::template kExponentHigh<T>), y);
}
template <class Base, class D, class V>
HWY_INLINE V log_to_base_normal(D d, V x) {
  return log_to_base<Base>(d, split(d, x));
}
template <class Base, class D, class V>
HWY_INLINE V log_to_base_any(D d, V x) {
  return log_specials(d, x, log_to_base<Base>(d, split_any(d, x)));
}

// f64: tanh |x| = e / (e + 2), e = expm1(2|x|). f32: 1 - 2 / (e^2|x| + 1), below 1 an odd polynomial, which is
// faster and keeps the error below one unit. From |x| = 20 on the result is 1 in either type.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V a = clamp_keep_nan(d, hn::Abs(x), 0, 20), one = constant(d, 1), two = constant(d, 2);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const V z = hn::Mul(a, a);
    const V small = hn::MulAdd(hn::Mul(a, z), polynomial(d, z, kTanhF32), a);
    const V large = hn::Sub(one, hn::Div(two, hn::Add(exp_normal(d, hn::Add(a, a)), one)));
    return hn::CopySign(hn::IfThenElse(hn::Lt(a, one), small, large), x);
  } else {
    const V e = expm1_plain(d, hn::Add(a, a));
    return hn::CopySign(hn::Div(e, hn::Add(e, two)), x);
  }
}

// cosh x = h + 1 / (4h), h = e^|x| / 2
template <bool kPlain, class D, class V>
HWY_INLINE V cosh_parts(D d, V x) {
  const Rounded<D> h = half_exp<kPlain>(d, x);
  return hn::Add(h.value, hn::Add(h.lost, hn::Div(constant(d, 0.25), h.value)));
}
template <class D, class V>
HWY_INLINE V cosh(D d, V x) {
  return cosh_parts<false>(d, x);
}
template <class D, class V>
HWY_INLINE V cosh_plain(D d, V x) {
  return cosh_parts<true>(d, x);
}

// sinh x = h - 1 / (4h) from |x| = 1 on, below that an odd polynomial
template <bool kPlain, class D, class V>
HWY_INLINE V sinh_parts(D d, V x) {
  const Rounded<D> h = half_exp<kPlain>(d, x);
  const V a = hn::Abs(x), z = hn::Mul(a, a);
  V q;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    q = polynomial(d, z, kSinhF32);
  else
    q = polynomial(d, z, kSinhF64);
  const V small = hn::MulAdd(hn::Mul(a, z), q, a);
  const V large = hn::Add(h.value, hn::Sub(h.lost, hn::Div(constant(d, 0.25), h.value)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(d, 1)), small, large), x);
}
template <class D, class V>
HWY_INLINE V sinh(D d, V x) {
  return sinh_parts<false>(d, x);
}
template <class D, class V>
HWY_INLINE V sinh_plain(D d, V x) {
  return sinh_parts<true>(d, x);
}

// asinh x = log1p(a + a² / (1 + sqrt(1 + a²))), a = |x|; log(2a) where a² would overflow or is all there is
template <class D, class V>
HWY_INLINE V asinh(D d, V x) {
  const V a = hn::Abs(x), one = constant(d, 1);
  const auto large = hn::Gt(a, constant(d, 0x1p60));
  const V b = hn::IfThenElse(large, one, a), z = hn::Mul(b, b);
  const V inner = hn::Add(b, hn::Div(z, hn::Add(one, hn::Sqrt(hn::Add(one, z)))));
  const V y = log1p(d, hn::IfThenElse(large, a, inner));
  return hn::CopySign(hn::IfThenElse(large, hn::Add(y, constant(d, 0.69314718055994531)), y), x);
}

// acosh x = log1p(t + sqrt(2t + t²)), t = x - 1
template <class D, class V>
HWY_INLINE V acosh(D d, V x) {
  const V t = hn::Sub(x, constant(d, 1));
  const auto large = hn::Gt(x, constant(d, 0x1p60));
  const V b = hn::IfThenElse(large, constant(d, 1), t);
  const V inner = hn::Add(b, hn::Sqrt(hn::Mul(b, hn::Add(b, constant(d, 2)))));
  const V y = log1p(d, hn::IfThenElse(large, x, inner));
  const V nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  const V z = hn::IfThenElse(large, hn::Add(y, constant(d, 0.69314718055994531)), y);
  return hn::IfThenElse(hn::Lt(x, constant(d, 1)), nan, z);
}

// atanh x = log1p(2a / (1 - a)) / 2
template <class D, class V>
HWY_INLINE V atanh(D d, V x) {
  const V a = hn::Abs(x), one = constant(d, 1);
  const V y = log1p(d, hn::Div(hn::Add(a, a), hn::Sub(one, a)));
  return hn::CopySign(hn::Mul(y, constant(d, 0.5)), x);
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
