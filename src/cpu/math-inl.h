// Vector exp, log and what is made of them, for f32 and f64, with one body for both where the mathematics is the same.
// Coefficients come from tools/fit_polynomials.py. Errors are in units of the last place and are tested against MPFR.
#if defined(EBB_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_MATH_INL_H_
#undef EBB_CPU_MATH_INL_H_
#else
#define EBB_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "cpu/math_coefficients.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRoundMagic = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  static constexpr std::int32_t kRootHalf = 0x3f3504f3, kMantissaMask = 0x7fffff;
  // ln 2 in two parts; the first has zeros at its end, so that its product with an exponent is exact without FMA too.
  static constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  static constexpr float kExpLow = -104.5f, kExpHigh = 89.5f, kExp2Low = -151.0f, kExp2High = 129.0f;
  static constexpr float kExpm1Low = -18.0f;
};
template <>
struct FloatTraits<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRoundMagic = 0x1.8p52;
  static constexpr std::int64_t kRootHalf = 0x3fe6a09e667f3bcd, kMantissaMask = 0xfffffffffffff;
  static constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kExpLow = -746.0, kExpHigh = 711.0, kExp2Low = -1076.0, kExp2High = 1025.0;
  static constexpr double kExpm1Low = -40.0;
};

template <class D>
using SignedTag = hn::RebindToSigned<D>;

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double x) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(x));
}

// c[0] + c[1] x + ...
template <class D, class V, class T, std::size_t kCount>
HWY_INLINE V polynomial(D d, V x, const T (&c)[kCount]) {
  V r = hn::Set(d, c[kCount - 1]);
  for (std::size_t k = kCount - 1; k-- > 0;) r = hn::MulAdd(r, x, hn::Set(d, c[k]));
  return r;
}

// x within [low, high], NaN kept. The operand that may be NaN comes second: x86 returns that one.
template <class D, class V>
HWY_INLINE V clamp_keep_nan(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
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
  const SignedTag<D> di;
  return hn::BitCast(d, hn::ShiftLeft<Traits::kMantissa>(hn::Add(k, hn::Set(di, Traits::kBias))));
}

// y · 2^k in two steps, so that k may reach from twice the lowest to twice the highest exponent: the first product is
// exact, the second rounds once, also into the subnormals.
template <class D, class V, class VI>
HWY_INLINE V scale(D d, V y, VI k) {
  const SignedTag<D> di;
  const VI half = hn::ShiftRight<1>(k);
  (void)di;
  return hn::Mul(hn::Mul(y, power_of_two(d, half)), power_of_two(d, hn::Sub(k, half)));
}

template <class D>
struct Reduced {
  hn::Vec<D> rest;                 // r
  hn::Vec<SignedTag<D>> exponent;  // k
};

// x = k ln2 + r, |r| <= ln2 / 2
template <class D, class V>
HWY_INLINE Reduced<D> reduce_by_ln2(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  const V magic = hn::Set(d, Traits::kRoundMagic);
  const V shifted = hn::MulAdd(x, constant(d, 1.4426950408889634), magic);
  const V k = hn::Sub(shifted, magic);
  const V r = hn::NegMulAdd(k, hn::Set(d, Traits::kLn2Low), hn::NegMulAdd(k, hn::Set(d, Traits::kLn2High), x));
  return {r, hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic))};
}

// (e^r - 1 - r) / r² for |r| <= ln2 / 2
template <class D, class V>
HWY_INLINE V exp_rest(D d, V r) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return polynomial(d, r, kExpF32);
  else
    return polynomial(d, r, kExpF64);
}

// e^x · 2^bias; a bias lets sinh and cosh reach the last overflow.
template <int kBias = 0, class D, class V>
HWY_INLINE V exp(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  x = clamp_keep_nan(d, x, Traits::kExpLow, Traits::kExpHigh);
  const Reduced<D> k = reduce_by_ln2(d, x);
  const V one = constant(d, 1);
  const V y = hn::Add(one, hn::MulAdd(hn::Mul(k.rest, k.rest), exp_rest(d, k.rest), k.rest));
  if constexpr (kBias != 0)
    return scale(d, y, hn::Add(k.exponent, hn::Set(di, kBias)));
  else
    return scale(d, y, k.exponent);
}

// 2^x = 2^k · 2^r, |r| <= 1/2, r exact
template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  x = clamp_keep_nan(d, x, Traits::kExp2Low, Traits::kExp2High);
  const V magic = hn::Set(d, Traits::kRoundMagic);
  const V shifted = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(shifted, magic));
  V q;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    q = polynomial(d, r, kExp2F32);
  else
    q = polynomial(d, r, kExp2F64);
  const V y = hn::Add(constant(d, 1), hn::MulAdd(r, constant(d, 0.69314718055994531), hn::Mul(hn::Mul(r, r), q)));
  return scale(d, y, hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic)));
}

// e^x - 1 = 2^k (e^r - 1) + (2^k - 1), in halves so that 2^k does not overflow before the result does.
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  const V clamped = clamp_keep_nan(d, x, Traits::kExpm1Low, Traits::kExpHigh);
  const Reduced<D> k = reduce_by_ln2(d, clamped);
  const V rest = hn::MulAdd(hn::Mul(k.rest, k.rest), exp_rest(d, k.rest), k.rest);
  const V half = power_of_two(d, hn::Sub(k.exponent, hn::Set(di, 1)));
  const V y = hn::MulAdd(half, rest, hn::Sub(half, constant(d, 0.5)));
  return hn::CopySign(hn::Add(y, y), x);  // -0 stays -0
}

template <class D>
struct Split {
  hn::Vec<D> fraction;             // f = m - 1, m in [sqrt(1/2), sqrt(2))
  hn::Vec<SignedTag<D>> exponent;  // k
};

// x = 2^k (1 + f) for positive normal x
template <class D, class V>
HWY_INLINE Split<D> split(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  const auto base = hn::Set(di, Traits::kRootHalf);
  const auto bits = hn::Sub(hn::BitCast(di, x), base);
  const auto m = hn::Add(hn::And(bits, hn::Set(di, Traits::kMantissaMask)), base);
  return {hn::Sub(hn::BitCast(d, m), constant(d, 1)), hn::ShiftRight<Traits::kMantissa>(bits)};
}

// log(1 + f) - f, small beside f, so that what is added to it may round.
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

// What log gives outside the positive finite numbers.
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

// k ln2 + (f + rest)
template <class D, class V>
HWY_INLINE V log_sum(D d, V f, hn::Vec<SignedTag<D>> exponent) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const V k = hn::ConvertTo(d, exponent);
  const V low = hn::MulAdd(k, hn::Set(d, Traits::kLn2Low), log_rest(d, f));
  return hn::MulAdd(k, hn::Set(d, Traits::kLn2High), hn::Add(f, low));
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const Split<D> s = split_any(d, x);
  return log_specials(d, x, log_sum(d, s.fraction, s.exponent));
}

// u = 1 + x rounded, e its error: u = 2^k m, and 1 + f = m + 2^-k e. For k = 0 that f is x itself, exactly.
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  using Traits = FloatTraits<hn::TFromD<D>>;
  const SignedTag<D> di;
  const V one = constant(d, 1);
  const V u = hn::Add(x, one), part = hn::Sub(u, one);
  const V error = hn::Add(hn::Sub(one, hn::Sub(u, part)), hn::Sub(x, part));
  const Split<D> s = split(d, u);
  const V down = power_of_two(d, hn::Neg(hn::Min(s.exponent, hn::Set(di, Traits::kBias - 1))));
  const V f = hn::MulAdd(error, down, s.fraction);
  const V y = log_sum(d, f, s.exponent);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, log_specials(d, u, y));
}

// log2 x = k + log(1+f) / ln2, log10 x = k log10(2) + log(1+f) / ln10; the factor in two parts keeps x near 1 accurate.
template <class D, class V>
HWY_INLINE V log_with_base(D d, V x, double factor_high, double factor_low, double k_high, double k_low) {
  const Split<D> s = split_any(d, x);
  const V f = s.fraction, k = hn::ConvertTo(d, s.exponent);
  const V high = constant(d, factor_high);
  const V low = hn::MulAdd(f, constant(d, factor_low), hn::Mul(log_rest(d, f), high));
  const V y = hn::MulAdd(f, high, hn::MulAdd(k, constant(d, k_low), low));
  return log_specials(d, x, hn::MulAdd(k, constant(d, k_high), y));
}

// high parts are split where the type's last bits are, so each row fits one type.
template <class D, class V>
HWY_INLINE V log2(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return log_with_base(d, x, 0x1.715476p+0, 0x1.4ae0cp-26, 1, 0);
  else
    return log_with_base(d, x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1, 0);
}
template <class D, class V>
HWY_INLINE V log10(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return log_with_base(d, x, 0x1.bcb7b2p-2, -0x1.5b235ep-27, 0x1.344p-2, 0x1.3509f8p-18);
  else
    return log_with_base(d, x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f6p-2, 0x1.9fef311f12b36p-42);
}

// tanh |x| = e / (e + 2), e = expm1(2|x|); from |x| = 20 on it is 1 in either type.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V a = clamp_keep_nan(d, hn::Abs(x), 0, 20);
  const V e = expm1(d, hn::Add(a, a));
  return hn::CopySign(hn::Div(e, hn::Add(e, constant(d, 2))), x);
}

// cosh x = h + 1 / (4h), h = e^|x| / 2
template <class D, class V>
HWY_INLINE V cosh(D d, V x) {
  const V h = exp<-1>(d, hn::Abs(x));
  return hn::Add(h, hn::Div(constant(d, 0.25), h));
}

// sinh x = h - 1 / (4h) from |x| = 1 on, below that an odd polynomial
template <class D, class V>
HWY_INLINE V sinh(D d, V x) {
  const V a = hn::Abs(x), h = exp<-1>(d, a), z = hn::Mul(a, a);
  V q;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    q = polynomial(d, z, kSinhF32);
  else
    q = polynomial(d, z, kSinhF64);
  const V small = hn::MulAdd(hn::Mul(a, z), q, a);
  const V large = hn::Sub(h, hn::Div(constant(d, 0.25), h));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(d, 1)), small, large), x);
}

// asinh x = log1p(a + a² / (1 + sqrt(1 + a²))), a = |x|; log(2a) where a² would overflow or is all there is
template <class D, class V>
HWY_INLINE V asinh(D d, V x) {
  const V a = hn::Abs(x), one = constant(d, 1);
  const auto large = hn::Gt(a, constant(d, 0x1p28));
  const V b = hn::IfThenElse(large, one, a), z = hn::Mul(b, b);
  const V inner = hn::Add(b, hn::Div(z, hn::Add(one, hn::Sqrt(hn::Add(one, z)))));
  const V y = log1p(d, hn::IfThenElse(large, a, inner));
  return hn::CopySign(hn::IfThenElse(large, hn::Add(y, constant(d, 0.69314718055994531)), y), x);
}

// acosh x = log1p(t + sqrt(2t + t²)), t = x - 1
template <class D, class V>
HWY_INLINE V acosh(D d, V x) {
  const V t = hn::Sub(x, constant(d, 1));
  const auto large = hn::Gt(x, constant(d, 0x1p28));
  const V b = hn::IfThenElse(large, constant(d, 1), t);
  const V inner = hn::Add(b, hn::Sqrt(hn::Mul(b, hn::Add(b, constant(d, 2)))));
  const V y = log1p(d, hn::IfThenElse(large, x, inner));
  return hn::IfThenElse(large, hn::Add(y, constant(d, 0.69314718055994531)), y);
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
