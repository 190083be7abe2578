// SPDX-License-Identifier: MIT
// Quick functions for halves, powers, digamma.
#pragma once
#include "cuda/kernels/parts/arithmetic.cuh"

namespace ebb::cuda {

// For sweeps whose results are all halves: functions of f32 to a relative 2^-15 or better, where f16 keeps 2^-11.
// Results of exponentials below 2^-126 are 0.
#ifdef __CUDACC_RTC__
EBB f32 power_of_two(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EBB f32 logarithm_to_two(f32 x) {
  f32 y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EBB f32 quick_reciprocal(f32 x) {
  f32 y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// For arguments and results that are not subnormal: fewer instructions.
EBB f32 normal_logarithm_to_two(f32 x) {
  f32 y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EBB f32 normal_reciprocal(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EBB f32 quick_sqrt(f32 x) {
  f32 y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EBB f32 quick_rsqrt(f32 x) {
  f32 y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Neither b nor its reciprocal may be subnormal.
EBB f32 quick_quotient(f32 a, f32 b) {
  const f32 s = fabsf(b) < 7.8886091e-31f ? 1.8446744e19f : 0.25f;  // 2^-100, 2^64
  return a * s * normal_reciprocal(b * s);
}
#else
EBB f32 power_of_two(f32 x) { return exp2f(x); }
EBB f32 logarithm_to_two(f32 x) { return log2f(x); }
EBB f32 quick_reciprocal(f32 x) { return 1 / x; }
EBB f32 normal_logarithm_to_two(f32 x) { return log2f(x); }
EBB f32 normal_reciprocal(f32 x) { return 1 / x; }
EBB f32 quick_sqrt(f32 x) { return sqrtf(x); }
EBB f32 quick_rsqrt(f32 x) { return 1 / sqrtf(x); }
EBB f32 quick_quotient(f32 a, f32 b) { return a / b; }
#endif
// Begins what is hardly ever done: the compiler shall leave its branch one.
#ifdef __CUDACC_RTC__
EBB void rarely() { asm volatile(""); }
#else
EBB void rarely() {}
#endif
EBB f32 quick_exp(f32 x) { return power_of_two(x * 1.4426950408889634f); }
// Near 1 the instruction errs by 2^-22 of 1, not of its result: there a few terms of the series do.
EBB f32 log1p_near_0(f32 x) { return x * fmaf(x, fmaf(x, fmaf(x, -0.25f, 0.33333333f), -0.5f), 1.0f); }
EBB f32 quick_log(f32 x) {
  const f32 d = x - 1.0f;
  return fabsf(d) < 0.015625f ? log1p_near_0(d) : logarithm_to_two(x) * 0.6931471805599453f;
}
EBB f32 quick_log2(f32 x) {
  const f32 d = x - 1.0f;
  return fabsf(d) < 0.015625f ? log1p_near_0(d) * 1.4426950408889634f : logarithm_to_two(x);
}
EBB f32 quick_log1p(f32 x) {
  return fabsf(x) < 0.015625f ? log1p_near_0(x) : normal_logarithm_to_two(1.0f + x) * 0.6931471805599453f;
}
EBB f32 quick_expm1(f32 x) {
  const f32 near = x * fmaf(x, fmaf(x, fmaf(x, 0.041666667f, 0.16666667f), 0.5f), 1.0f);
  return fabsf(x) < 0.03125f ? near : quick_exp(x) - 1.0f;
}
EBB f32 quick_tanh(f32 x) {
  const f32 e = quick_exp(-2.0f * fabsf(x)), far = (1.0f - e) * normal_reciprocal(1.0f + e);
  const f32 s = x * x, near = x * fmaf(s, fmaf(s, 0.13333333f, -0.33333333f), 1.0f);
  return fabsf(x) < 0.125f ? near : x < 0 ? -far : far;
}
// e^|x| / 2 is finite where cosh is.
EBB f32 quick_cosh(f32 x) {
  const f32 half = power_of_two(fmaf(fabsf(x), 1.4426950408889634f, -1.0f));
  return fmaf(0.25f, normal_reciprocal(half), half);
}
EBB f32 quick_sinh(f32 x) {
  const f32 half = power_of_two(fmaf(fabsf(x), 1.4426950408889634f, -1.0f));
  const f32 far = fmaf(-0.25f, normal_reciprocal(half), half);
  const f32 s = x * x, near = x * fmaf(s, fmaf(s, 0.0083333333f, 0.16666667f), 1.0f);
  return fabsf(x) < 0.25f ? near : x < 0 ? -far : far;
}
// t·e^(-x²)·2^q(t) with t = 1 / (1 + |x| / 2); q was fitted to log2 of e^(x²)·erfc(x) / t up to x = 10.5.
EBB f32 quick_erfc(f32 x) {
  const f32 size = fabsf(x), t = normal_reciprocal(fmaf(0.5f, size, 1.0f));
  const f32 q =
      fmaf(t, fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.33165029f, -1.0281416f), 0.69057602f), 0.36366332f), 1.4695833f),
           -1.8273199f);
  const f32 far = t * power_of_two(fmaf(size * size, -1.4426950408889634f, q));
  return x < 0 ? 2.0f - far : far;
}
EBB f32 quick_erf(f32 x) {
  const f32 far = 1.0f - quick_erfc(fabsf(x)), s = x * x;
  const f32 near = x * fmaf(s, fmaf(s, fmaf(s, -0.023589848f, 0.11216793f), -0.37608243f), 1.1283787f);
  return fabsf(x) < 0.5f ? near : x < 0 ? -far : far;
}

// x / d from 1 / d in f64, for a d that many are divided by. A quotient of numbers of 24 bits is never as near to the
// middle of two others as this errs; among subnormal ones it may be the middle itself, and go either way.
EBB f32 quotient_by(f32 x, f64 reciprocal) { return (f32)((f64)x * reciprocal); }

// x^y for normal x > 0 where that is within 2^±125: 2^(y·log2 x) in f64, whose units a GPU for computing has half as
// many of as for f32. log2 of m·2^e, m in [0.7, 1.4), is e plus the series of atanh in (m - 1) / (m + 1), which errs by
// 2^-36; numbers go from f32 to f64 by their bits, since conversions are as rare as special functions.
EBB f64 widened(f32 x) {
  const u32 bits = __float_as_uint(x);
  return __longlong_as_double((i64)((u64)((bits >> 3) + 0x38000000u) << 32 | bits << 29));
}
// An exponent, as powers need it: `times` is -1 where it is not a whole number up to 64 and the base is taken to that
// power by its logarithm. One that all elements have is made once: the compiler shall not make it again at each of
// them.
struct Exponent {
  f32 y;
  f64 wide;
  int times;
};
EBB Exponent exponent_of(f32 y) {
  const f32 size = fabsf(y);
  return {y, (f64)y, size <= 64 && size == floorf(size) ? (int)size : -1};
}
EBB Exponent kept_exponent(f32 y) {
  Exponent e = exponent_of(y);
#ifdef __CUDACC_RTC__
  asm volatile("" : "+d"(e.wide), "+r"(e.times));
#endif
  return e;
}
// log2 x of normal x > 0, otherwise NaN.
EBB f64 logarithm_of_base(f32 x) {
  const u32 bits = __float_as_uint(x), above = bits - 0x3f330000u;
  const f32 m = __uint_as_float(bits - (above & 0xff800000u)), r = normal_reciprocal(m + 1.0f), near = (m - 1.0f) * r;
  const u64 shifted = 0x4330000000000000ull | (u32)((i32)above >> 23) ^ 0x80000000u;  // 2^52 + 2^31 + e
  const f64 e = __longlong_as_double((i64)shifted) - 4503601774854144.0;
  const f64 wide = widened(m), d = wide + 1.0, first = widened(r);
  const f64 t = (wide - 1.0) * fma(first, fma(-d, first, 1.0), first), s = t * t;
  // From s^3 on 24 bits do: 2 / (13 ln 2), and so on.
  const f32 c = near * near;
  const f64 rest = widened(fmaf(c, fmaf(c, fmaf(c, 0.22195308f, 0.26230818f), 0.32059890f), 0.41219857f));
  const f64 l = fma(fma(fma(fma(rest, s, 0.5770780163555854), s, 0.9617966939259757), s, 2.8853900817779268), t, e);
  return bits - 0x00800000u < 0x7f000000u ? l : not_a_number();
}
// Is computed once for all powers of a base; what is not needed by any of them is not computed.
template <class... Exponents>
EBB f64 logarithm_of_base(f32 x, Exponent e, Exponents... more) {
  return (e.times | ... | more.times) < 0 ? logarithm_of_base(x) : 0.0;
}
// CUDA's pow errs by 2 units in the last place, and powf by more. Small whole exponents, the common ones, are products:
// of f32 in f64, of f64 as unevaluated sums of two numbers (Dekker), so that what is exact comes out exactly.
static __device__ __noinline__ f32 whole_power(f32 x, f32 y, int times) {
  f64 p = 1, base = x;
  for (int k = times; k; k >>= 1, base *= base) p = k & 1 ? p * base : p;
  return (f32)(y < 0 ? 1 / p : p);
}
static __device__ __noinline__ f32 unusual_power(f32 x, f32 y) { return (f32)pow((f64)x, (f64)y); }
EBB f32 power(f32 x, Exponent e, f64 logarithm) {
  if (e.times >= 0) return e.y == 3 ? (f32)((f64)x * ((f64)x * (f64)x)) : whole_power(x, e.y, e.times);
  const f64 p = e.wide * logarithm, shifted = p + 6755399441055744.0, f = p - (shifted - 6755399441055744.0);
  if (((u32)(__double_as_longlong(p) >> 32) & 0x7fffffffu) >= 0x405f4000u)
    return unusual_power(x, e.y);  // |p| >= 125, NaN
  // 2^f: from f^3 on 24 bits do, ln2^8 / 8! and so on.
  const f32 c = (f32)f;
  const f32 rest = fmaf(
      c, fmaf(c, fmaf(c, fmaf(c, fmaf(c, 1.3215487e-6f, 1.5252734e-5f), 1.5403530e-4f), 1.3333558e-3f), 9.6181291e-3f),
      5.5504109e-2f);
  const f64 q = fma(fma(fma(widened(rest), f, 0.24022650695910072), f, 0.6931471805599453), f, 1.0);
  return __uint_as_float(__float_as_uint((f32)q) + ((u32)__double_as_longlong(shifted) << 23));
}
EBB f32 power(f32 x, f32 y) {
  const Exponent e = exponent_of(y);
  return power(x, e, logarithm_of_base(x, e));
}
EBB f32 quick_logarithm_of_base(f32 x) { return quick_log2(x); }
template <class... Exponents>
EBB f32 quick_logarithm_of_base(f32 x, Exponent e, Exponents... more) {
  return (e.times | ... | more.times) < 0 ? quick_log2(x) : 0.0f;
}
EBB f32 quick_power(f32 x, Exponent e, f32 logarithm) {
  if (e.times >= 0) return e.y == 3 ? x * (x * x) : whole_power(x, e.y, e.times);
  return x >= 0 && fabsf(e.y) <= 64 ? power_of_two(e.y * logarithm) : unusual_power(x, e.y);
}
EBB f32 quick_power(f32 x, f32 y) {
  const Exponent e = exponent_of(y);
  return quick_power(x, e, quick_logarithm_of_base(x, e));
}
EBB void times(f64& high, f64& low, f64 other, f64 other_low) {
  const f64 p = high * other, rest = fma(high, other, -p) + (high * other_low + low * other);
  high = p + rest;
  low = rest - (high - p);
}
EBB f64 power(f64 x, f64 y) {
  const f64 n = fabs(y);
  if (y == 1) return x;
  if (n > 64 || n != floor(n)) return pow(x, y);
  f64 high = 1, low = 0, base = x, base_low = 0;
  for (int k = (int)n; k; k >>= 1) {
    if (k & 1) times(high, low, base, base_low);
    if (k > 1) times(base, base_low, base, base_low);
  }
  if (!(fabs(high) > 1e-280 && fabs(high) < 1e280)) return pow(x, y);  // also NaN
  if (y >= 0) return high;
  const f64 q = 1 / high;
  return q + q * (fma(-q, high, 1.0) - q * low);
}

// Beside a root of digamma, where its parts cancel: terms up to 256, summed together with what rounding takes from
// them, so that only parts below 0.01 are rounded.
static __device__ __noinline__ f64 digamma_by_terms(f64 x) {
  f64 sum = 0, low = 0;
  for (; x < 256; x += 1) {
    const f64 q = 1 / x, before = sum;
    sum += q;
    const f64 added = sum - before;
    low += (before - (sum - added)) + (q - added) + fma(-q, x, 1.0) / x;
  }
  const f64 z = 1 / (x * x), log_256 = 5.545177444479562, log_256_low = 1.8552374510770396e-16;
  return (log_256 - sum) +
         (log1p(x / 256 - 1) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z / 252)) + log_256_low - low);
}
// Below 0 by reflection, then up to 10 term by term, then the asymptotic series.
static __device__ __noinline__ f64 digamma(f64 x) {
  if (x <= 0 && x == floor(x)) return x == 0 ? (sign_bit(x) ? infinity() : -infinity()) : not_a_number();
  const f64 at = x;
  f64 result = 0;
  if (x < 0) {
    result = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - floor(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const f64 z = 1 / (x * x);
  result += log(x) - 0.5 / x -
            z * (1.0 / 12 -
                 z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return fabs(result) < 1e-6 && at > -128 ? digamma_by_terms(at) : result;
}
// Hurwitz zeta(s, x) for x > 0: terms up to x >= 15, then Euler-Maclaurin.
static __device__ __noinline__ f64 hurwitz_zeta(f64 s, f64 x) {
  f64 sum = 0;
  for (; x < 15; x += 1) {
    const f64 term = pow(x, -s);
    sum += term;
    if (term < sum * 1e-18) return sum;
  }
  const f64 p = pow(x, -s), z = 1 / (x * x);
  const f64 bernoulli[8] = {1.0 / 12,
                            -1.0 / 720,
                            1.0 / 30240,
                            -1.0 / 1209600,
                            1.0 / 47900160,
                            -691.0 / 1307674368000.0,
                            1.0 / 74724249600.0,
                            -3617.0 / 10670622842880000.0};
  f64 term = p / x * s, at = s;
  sum += p * x / (s - 1) + p / 2;
  for (int k = 0; k < 8; ++k) {
    sum += bernoulli[k] * term;
    term *= (at + 1) * (at + 2) * z;
    at += 2;
  }
  return sum;
}
// (-1)^(n+1) n! zeta(n + 1, x), with zeta infinite at the poles; for x < 0 as in cpu/tile/special.cc.
static __device__ __noinline__ f64 polygamma(f64 n, f64 x) {
  if (!(n >= 0 && n <= 1e6) || n != floor(n)) return not_a_number();
  if (n == 0) return digamma(x);
  const bool odd = n != 2 * floor(n / 2);
  const f64 s = n + 1, sign = odd ? 1 : -1;
  if (x != x || x == -infinity()) return not_a_number();
  if (x == infinity()) return sign * 0.0;
  f64 zeta = infinity();
  if (x > 0) {
    zeta = hurwitz_zeta(s, x);
  } else if (x != floor(x)) {
    const f64 f = x - floor(x);
    zeta = hurwitz_zeta(s, f) + sign * (hurwitz_zeta(s, 1 - f) - hurwitz_zeta(s, 1 - x));
  }
  return sign * tgamma(s) * zeta;
}

// 1 / x of a normal number, to a relative 2^-38: the instruction's 20 bits, and a step of Newton.
EBB f64 quick_reciprocal(f64 x) {
#ifdef __CUDACC_RTC__
  f64 y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#else
  const f64 y = 1 / x;
#endif
  return fma(y, fma(-x, y, 1.0), y);
}

// digamma of f32 without loops, in f64 and rounded once. On [1, 2] its root is a factor: (t - root)·p(t - 1.5), where p
// was fitted to a relative 2^-30. psi(x + 1) = psi(x) + 1/x leads there from below 4; from 4 on it is the asymptotic
// series. What is not positive, or too small or large for that, goes by the function of f64.
static __device__ __noinline__ f32 digamma(f32 x) {
  if (!(x >= 7.8886091e-31f && x <= 1e38f)) return (f32)digamma((f64)x);
  const f64 wide = widened(x);
  if (x >= 4) {
    const f64 r = quick_reciprocal(wide);
    const f32 q = normal_reciprocal(x), z = q * q;
    const f32 rest =
        z * fmaf(z,
                 fmaf(z, fmaf(z, fmaf(z, fmaf(z, 0.021092796f, -0.0075757576f), 0.0041666667f), -0.0039682540f),
                      0.0083333333f),
                 -0.083333333f);
    return (f32)(fma(logarithm_of_base(x), 0.6931471805599453, -0.5 * r) + (f64)rest);
  }
  f64 t = wide, above = 0, below = 1;  // psi(x) = psi(t) + above / below
  if (x < 1) {
    above = -1, below = wide, t = wide + 1;
  } else if (x > 3) {
    above = 2 * wide - 3, below = (wide - 1) * (wide - 2), t = wide - 2;
  } else if (x > 2) {
    above = 1, below = t = wide - 1;
  }
  const f64 u = t - 1.5, d = (t - 1.4616321449683622) - 9.549995429965697e-17;
  f64 p = -0.007476843099039942;
  p = fma(p, u, 0.01122315637643749);
  p = fma(p, u, -0.011247037333869003);
  p = fma(p, u, 0.016915223738038547);
  p = fma(p, u, -0.027064258800657295);
  p = fma(p, u, 0.0408935606644924);
  p = fma(p, u, -0.06191686333003683);
  p = fma(p, u, 0.09498081754904339);
  p = fma(p, u, -0.14840503688922396);
  p = fma(p, u, 0.240542655036541);
  p = fma(p, u, -0.42362742088558825);
  p = fma(p, u, 0.9510558754378758);
  return (f32)fma(above, quick_reciprocal(below), d * p);
}

// n! zeta(s, x) of normal x > 0 with s = n + 1: terms up to y = s + 3 with a common denominator, then Euler-Maclaurin
// relative to y^-s: y / n + 1/2 + sum of B(2j)·C(2j + n - 1, n - 1) / n / y^(2j - 1), whose terms after the fifth are
// below 2^-28.
template <int n>
static __device__ __noinline__ f64 sum_of_powers(f32 x) {
  const auto power = [](f64 y) {
    const f64 square = y * y;
    return n == 1 ? square : n == 2 ? square * y : square * square;
  };
  constexpr f32 k1 = 1.0f / 6 *
                     (n == 1   ? 1.0f
                      : n == 2 ? 3.0f / 2
                               : 6.0f / 3),
                k2 = -1.0f / 30 *
                     (n == 1   ? 1.0f
                      : n == 2 ? 5.0f / 2
                               : 15.0f / 3),
                k3 = 1.0f / 42 *
                     (n == 1   ? 1.0f
                      : n == 2 ? 7.0f / 2
                               : 28.0f / 3),
                k4 = -1.0f / 30 *
                     (n == 1   ? 1.0f
                      : n == 2 ? 9.0f / 2
                               : 45.0f / 3),
                k5 = 5.0f / 66 *
                     (n == 1   ? 1.0f
                      : n == 2 ? 11.0f / 2
                               : 66.0f / 3);
  f64 y = widened(x), above = 0, below = 1;
  f32 near = x;
  for (; near < n + 4; near += 1, y += 1) {
    const f64 p = power(y);
    above = fma(above, p, below);
    below *= p;
  }
  const f32 r = normal_reciprocal(near), z = r * r;
  const f32 rest = r * fmaf(z, fmaf(z, fmaf(z, fmaf(z, k5, k4), k3), k2), k1);
  const f64 p = power(y), last = fma(y, 1.0 / n, 0.5) + (f64)rest;
  return (n == 3 ? 6 : n) * fma(above, p, last * below) * quick_reciprocal(below * p);
}
// The orders of gradients of lgamma and digamma are common, others go by the function of f64.
EBB f32 polygamma(f32 n, f32 x) {
  if (x >= 7.8886091e-31f && x <= 1e38f) {
    if (n == 1) return (f32)sum_of_powers<1>(x);
    if (n == 2) return -(f32)sum_of_powers<2>(x);
    if (n == 3) return (f32)sum_of_powers<3>(x);
  }
  return (f32)polygamma((f64)n, (f64)x);
}

}  // namespace ebb::cuda
