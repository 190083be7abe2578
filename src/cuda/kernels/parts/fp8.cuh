// SPDX-License-Identifier: MIT
// Numbers of eight bits, e4m3 (kMantissa = 3, kBias = 7) or e5m2 (2, 15), and the scales of calls/fp8_product.h.
#pragma once
#include "cuda/kernels/args/fp8.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kMantissa = 3, kBias = 7;
#endif
constexpr int kMostExponent = kMantissa == 3 ? 8 : 15;

// The exponent, with its bias, of the power of two that a line with this largest magnitude is divided by.
EBB u32 scale_exponent(u32 most) {
  const i32 e = (i32)(most >> 23) - kMostExponent + ((most & 0x7FFFFFu) > 0x600000u);
  return most == 0 ? 127u : (u32)(e < 1 ? 1 : e);
}
EBB f32 scale_of(u32 most) {
  return most >= 0x7F800000u ? (f32)not_a_number() : __uint_as_float(scale_exponent(most) << 23);
}
EBB f32 inverse_scale_of(u32 most) {
  return most >= 0x7F800000u ? 0.0f : __uint_as_float((254u - scale_exponent(most)) << 23);
}

EBB u32 code_of(f32 x) {
  const u32 bits = __float_as_uint(x), sign = bits >> 24 & 0x80u, low = bits & 0x7FFFFFFFu;
  constexpr int kDropped = 23 - kMantissa;
  if (low < (u32)(128 - kBias) << 23) {  // steps of 2^(1 - kBias - kMantissa): those of 1.5·2²³ steps
    const f32 large = __uint_as_float((u32)(127 + 24 - kBias - kMantissa) << 23 | 0x400000u);
    return sign | (__float_as_uint(__uint_as_float(low) + large) & 0xFFu);
  }
  const u32 up = low + (1u << (kDropped - 1)) - 1 + (low >> kDropped & 1u);
  return sign | ((up >> kDropped) - ((u32)(127 - kBias) << kMantissa));
}
// Four neighbours. None is above the largest number.
EBB u32 codes_of(f32 a, f32 b, f32 c, f32 d) {
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 890
  u16 low, high;
  if constexpr (kMantissa == 3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  }
  return (u32)high << 16 | low;
#else
  return code_of(a) | code_of(b) << 8 | code_of(c) << 16 | code_of(d) << 24;
#endif
}
EBB f32 number_of(u32 code) {
  const u32 low = code & 0x7Fu, sign = (code & 0x80u) << 24;
  const f32 usual = __uint_as_float((low << (23 - kMantissa)) + ((u32)(127 - kBias) << 23));
  const f32 small = (f32)low * __uint_as_float((u32)(128 - kBias - kMantissa) << 23);
  return __uint_as_float(__float_as_uint(low >> kMantissa ? usual : small) | sign);
}

}  // namespace ebb::cuda
