// SPDX-License-Identifier: MIT
// Conversions, and arithmetic as every device has it.
#pragma once
#include "cuda/kernels/args/types.h"
#include "cuda/kernels/parts/editor.h"

namespace ebb::cuda {

#define EBB static __device__ __forceinline__

#ifdef __CUDACC_RTC__
EBB f32 from_f16(u16 h) {
  f32 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
// Conversions of two numbers are several times cheaper than those of one.
EBB u32 to_f16x2(f32 low, f32 high) {
  u32 w;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}
EBB u32 to_bf16x2(f32 low, f32 high) {
  u32 w;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}
EBB u16 to_f16(f32 x) { return (u16)to_f16x2(x, 0.0f); }
EBB u16 to_bf16(f32 x) { return (u16)to_bf16x2(x, 0.0f); }
#else
EBB u32 to_f16x2(f32 low, f32 high) { return (u32)to_f16(high) << 16 | to_f16(low); }
EBB u32 to_bf16x2(f32 low, f32 high) { return (u32)to_bf16(high) << 16 | to_bf16(low); }
#endif
EBB f32 from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }

EBB f64 infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
EBB f64 not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
EBB bool is_inf(f32 x) { return fabsf(x) == (f32)infinity(); }
EBB bool is_inf(f64 x) { return fabs(x) == infinity(); }
EBB bool is_finite(f32 x) { return fabsf(x) < (f32)infinity(); }
EBB bool is_finite(f64 x) { return fabs(x) < infinity(); }
// Equal, or both not a number.
EBB bool are_same(f32 x, f32 y) { return x == y || (x != x && y != y); }

// Quotients of indices: mostly both fit 32 bits, where division is several times cheaper.
EBB i64 quotient(i64 a, i64 b) { return ((u64)a | (u64)b) >> 32 ? a / b : (i64)((u32)a / (u32)b); }

// Blocks on a multiprocessor that a kernel's registers must leave room for: fewer where they would not suffice.
#ifndef FEWER
#define FEWER 0
#endif
#define BLOCKS(n) (n - FEWER > 2 ? n - FEWER : 2)
// As a C++ cast, but NaN gives 0 and what is out of range saturates.
EBB i32 to_i32(f64 x) {
  return x != x ? 0 : x >= 2147483648.0 ? 2147483647 : x < -2147483648.0 ? -2147483647 - 1 : (i32)x;
}
EBB i64 to_i64(f64 x) {
  return x != x                       ? 0
         : x >= 9223372036854775808.0 ? 9223372036854775807ll
         : x < -9223372036854775808.0 ? -9223372036854775807ll - 1
                                      : (i64)x;
}

template <class T>
EBB T sign(T x) {
  return x > 0 ? (T)1 : x < 0 ? (T)-1 : x;
}
EBB bool sign_bit(f32 x) { return __float_as_uint(x) >> 31; }
EBB bool sign_bit(f64 x) { return __double_as_longlong(x) < 0; }
// NaN wins, and +0 is above -0.
#ifdef __CUDACC_RTC__
EBB f32 larger(f32 a, f32 b) {
  f32 x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
EBB f32 smaller(f32 a, f32 b) {
  f32 x;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
#endif
template <class T>
EBB T larger(T a, T b) {
  return a != a ? a : b != b ? b : a == b ? (sign_bit(a) ? b : a) : a > b ? a : b;
}
template <class T>
EBB T smaller(T a, T b) {
  return a != a ? a : b != b ? b : a == b ? (sign_bit(a) ? a : b) : a < b ? a : b;
}
EBB i64 larger(i64 a, i64 b) { return a > b ? a : b; }
EBB i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

EBB f32 fmod_of(f32 a, f32 b) { return fmodf(a, b); }
EBB f64 fmod_of(f64 a, f64 b) { return fmod(a, b); }
EBB f32 floor_of(f32 a) { return floorf(a); }
EBB f64 floor_of(f64 a) { return floor(a); }
EBB f32 exp_of(f32 a) { return expf(a); }
EBB f64 exp_of(f64 a) { return exp(a); }
EBB f32 tanh_of(f32 a) { return tanhf(a); }
EBB f64 tanh_of(f64 a) { return tanh(a); }
template <class T>
EBB T floor_remainder(T a, T b) {
  const T r = fmod_of(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return sign_bit(b) ? -(T)0 : (T)0;
}
template <class T>
EBB T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = fmod_of(a, b), least = (a - rest) / b;
  const T whole = rest != 0 && (rest < 0) != (b < 0) ? least - 1 : least;
  if (whole == 0) return sign_bit(a / b) ? -(T)0 : (T)0;
  const T down = floor_of(whole);
  return whole - down > (T)0.5 ? down + 1 : down;
}

// Integers wrap.
EBB i32 sum(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
EBB i64 sum(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
EBB i32 difference(i32 a, i32 b) { return (i32)((u32)a - (u32)b); }
EBB i64 difference(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
EBB i32 product(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
EBB i64 product(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
// Towards minus infinity; a divisor of 0 gives 0 and leaves everything to the remainder.
template <class T>
EBB T integer_quotient(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return difference((T)0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <class T>
EBB T integer_remainder(T a, T b) {
  return difference(a, product(b, integer_quotient(a, b)));
}
template <class T>
EBB T integer_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  T result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = product(result, base);
    base = product(base, base);
  }
  return result;
}
template <class T>
EBB T left_shift(T a, T b) {
  return b >= 0 && b < (T)(8 * sizeof(T)) ? (T)((u64)a << b) : (T)0;
}
template <class T>
EBB T right_shift(T a, T b) {
  return a >> (b >= 0 && b < (T)(8 * sizeof(T)) ? b : (T)(8 * sizeof(T) - 1));
}

}  // namespace ebb::cuda
