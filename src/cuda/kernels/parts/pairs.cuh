// SPDX-License-Identifier: MIT
// Two neighbours at a time.
#pragma once
#include "cuda/kernels/parts/functions.cuh"
#include "cuda/kernels/parts/packs.cuh"

namespace ebb::cuda {

// Two neighbours, and two that are rounded to bf16 or f16. One instruction adds or multiplies both halves and rounds
// once; that is what rounding to f32 and then to the half gives, because 24 bits are two more than twice those of a
// half. Only below 2^-126, where f32 has fewer bits, a product of bf16 may differ in its last one.
struct Two {
  f32 a, b;
  __device__ __forceinline__ Two(f32 x) : a(x), b(x) {}
  __device__ __forceinline__ Two(f32 x, f32 y) : a(x), b(y) {}
};
struct Both {
  bool a, b;
  __device__ __forceinline__ Both(bool x) : a(x), b(x) {}
  __device__ __forceinline__ Both(bool x, bool y) : a(x), b(y) {}
};
template <bool bf16>
struct Halves {
  u32 bits;
};
template <bool bf16>
EBB f32 low(Halves<bf16> x) {
  return bf16 ? __uint_as_float(x.bits << 16) : from_f16((u16)x.bits);
}
template <bool bf16>
EBB f32 high(Halves<bf16> x) {
  return bf16 ? __uint_as_float(x.bits & 0xffff0000u) : from_f16((u16)(x.bits >> 16));
}
EBB f32 low(Two x) { return x.a; }
EBB f32 high(Two x) { return x.b; }
template <bool bf16>
EBB Two two(Halves<bf16> x) {
  return {low(x), high(x)};
}
template <bool bf16>
EBB Halves<bf16> halves(Two x) {
  return {bf16 ? to_bf16x2(x.a, x.b) : to_f16x2(x.a, x.b)};
}
// a·b + c of each, rounded once.
template <bool bf16>
EBB Halves<bf16> multiply_add(Halves<bf16> a, Halves<bf16> b, Halves<bf16> c) {
#ifdef __CUDACC_RTC__
  u32 y;
  if (bf16)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a.bits), "r"(b.bits), "r"(c.bits));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a.bits), "r"(b.bits), "r"(c.bits));
  return {y};
#else
  return halves<bf16>({low(a) * low(b) + low(c), high(a) * high(b) + high(c)});
#endif
}
template <bool bf16>
EBB Halves<bf16> all_halves(f32 x) {
  return halves<bf16>(Two(x));
}
template <bool bf16>
EBB Halves<bf16> product_of(Halves<bf16> a, Halves<bf16> b) {
  return multiply_add(a, b, {0x80008000u});
}
template <bool bf16>
EBB Halves<bf16> sum_of(Halves<bf16> a, Halves<bf16> b) {
  return multiply_add(a, all_halves<bf16>(1.0f), b);
}
template <bool bf16>
EBB Halves<bf16> difference_of(Halves<bf16> a, Halves<bf16> b) {
  return multiply_add(b, all_halves<bf16>(-1.0f), a);
}
template <bool bf16>
EBB Halves<bf16> negative_of(Halves<bf16> x) {
  return {x.bits ^ 0x80008000u};
}
template <bool bf16>
EBB Halves<bf16> size_of(Halves<bf16> x) {
  return {x.bits & 0x7fff7fffu};
}
template <bool bf16>
EBB Halves<bf16> larger_of(Halves<bf16> a, Halves<bf16> b) {
  return {larger_halves<bf16>(a.bits, b.bits)};
}
EBB Two operator-(Two x) { return {-x.a, -x.b}; }
EBB Two operator+(Two x, Two y) { return {x.a + y.a, x.b + y.b}; }
EBB Two operator-(Two x, Two y) { return {x.a - y.a, x.b - y.b}; }
EBB Two operator*(Two x, Two y) { return {x.a * y.a, x.b * y.b}; }
EBB Both operator==(Two x, Two y) { return {x.a == y.a, x.b == y.b}; }
EBB Both operator!=(Two x, Two y) { return {x.a != y.a, x.b != y.b}; }
EBB Both operator<(Two x, Two y) { return {x.a < y.a, x.b < y.b}; }
EBB Both operator<=(Two x, Two y) { return {x.a <= y.a, x.b <= y.b}; }
EBB Both operator>(Two x, Two y) { return {x.a > y.a, x.b > y.b}; }
EBB Both operator>=(Two x, Two y) { return {x.a >= y.a, x.b >= y.b}; }
EBB Both operator!(Both x) { return {!x.a, !x.b}; }
EBB Both operator&&(Both x, Both y) { return {x.a && y.a, x.b && y.b}; }
EBB Both operator||(Both x, Both y) { return {x.a || y.a, x.b || y.b}; }
EBB Two chosen(Both c, Two x, Two y) { return {c.a ? x.a : y.a, c.b ? x.b : y.b}; }
EBB Two numbers_of(Both x) { return {x.a ? 1.0f : 0.0f, x.b ? 1.0f : 0.0f}; }
EBB Both is_inf(Two x) { return {is_inf(x.a), is_inf(x.b)}; }
EBB Both is_finite(Two x) { return {is_finite(x.a), is_finite(x.b)}; }
#define EBB_OF_EACH(f) \
  EBB Two f(Two x) { return {f(x.a), f(x.b)}; }
EBB_OF_EACH(fabsf)
EBB_OF_EACH(sign)
EBB_OF_EACH(floorf)
EBB_OF_EACH(ceilf)
EBB_OF_EACH(rintf)
EBB_OF_EACH(truncf)
EBB_OF_EACH(quick_exp)
EBB_OF_EACH(power_of_two)
EBB_OF_EACH(quick_expm1)
EBB_OF_EACH(quick_log)
EBB_OF_EACH(quick_log2)
EBB_OF_EACH(quick_log1p)
EBB_OF_EACH(quick_tanh)
EBB_OF_EACH(quick_sinh)
EBB_OF_EACH(quick_cosh)
EBB_OF_EACH(quick_erf)
EBB_OF_EACH(quick_erfc)
EBB_OF_EACH(quick_sqrt)
EBB_OF_EACH(quick_rsqrt)
EBB_OF_EACH(quick_reciprocal)
#undef EBB_OF_EACH
EBB Two larger(Two x, Two y) { return {larger(x.a, y.a), larger(x.b, y.b)}; }
EBB Two smaller(Two x, Two y) { return {smaller(x.a, y.a), smaller(x.b, y.b)}; }
EBB Two fmaf(Two x, Two y, Two z) { return {fmaf(x.a, y.a, z.a), fmaf(x.b, y.b, z.b)}; }
EBB Two quick_quotient(Two x, Two y) { return {quick_quotient(x.a, y.a), quick_quotient(x.b, y.b)}; }
template <class... Exponents>
EBB Two quick_logarithm_of_base(Two x, Exponents... e) {
  return {quick_logarithm_of_base(x.a, e...), quick_logarithm_of_base(x.b, e...)};
}
EBB Two quick_power(Two x, Exponent e, Two logarithm) {
  return {quick_power(x.a, e, logarithm.a), quick_power(x.b, e, logarithm.b)};
}
EBB Two quick_power(Two x, Two y) { return {quick_power(x.a, y.a), quick_power(x.b, y.b)}; }

}  // namespace ebb::cuda
