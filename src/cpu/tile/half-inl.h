// SPDX-License-Identifier: MIT
// Converts f16 and bf16 to and from f32, for vectorised loops: instructions where the target has them, else integer
// arithmetic that the compiler vectorises.
#if defined(EBB_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_HALF_INL_H_
#undef EBB_CPU_HALF_INL_H_
#else
#define EBB_CPU_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ebb/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

// Rounds to nearest even by adding half a unit (less one where the kept part is even); NaN stays NaN.
HWY_INLINE std::uint16_t bf16_bits(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : rounded);
}
HWY_INLINE float bf16_value(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }

// Below 2^-14 the half is a multiple of 2^-24, which is the unit of floats in [0.5, 1): adding 0.5 rounds to it.
HWY_INLINE std::uint16_t f16_bits(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  const std::uint32_t normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
  const std::uint32_t special = a > 0x7f800000u ? (0x7e00u | (a >> 13 & 0x3ffu)) : 0x7c00u;
  const std::uint32_t finite = a < 0x38800000u ? tiny : normal;
  return static_cast<std::uint16_t>(sign | (a >= 0x477ff000u ? special : finite));  // 65520 rounds to infinity
}
// Multiplying the bits, read as a float, by 2^112 rebiases the exponent and normalises subnormals in one step.
HWY_INLINE float f16_value(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(h & 0x7fffu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? bits | 0x7f800000u : bits));
}

// A float that rounds to f16 or bf16 as x does: inexact results get an odd last bit, so no false tie appears. Without
// branches, so that loops are vectorised; beyond the largest float the bits below infinity are odd already.
HWY_INLINE float round_to_odd(double x) {
  const float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const bool inexact = back < x || back > x, beyond = std::fabs(back) > std::fabs(x);
  const std::uint32_t odd = (bits - static_cast<std::uint32_t>(beyond)) | 1u;
  return std::bit_cast<float>(inexact ? odd : bits);
}

// The same for n numbers: the digits that a float has no room for are cut off, and the last one left is set if any of
// them was. Below the normal floats there is room for fewer.
inline void round_to_odd(float* to, const double* from, std::size_t n) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<float, decltype(d)> df;
  const auto rest = hn::Set(du, (std::uint64_t{1} << 29) - 1), last = hn::Set(du, std::uint64_t{1} << 29);
  const auto zero = hn::Zero(d), normal = hn::Set(d, 0x1p-126);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, from + i), a = hn::Abs(x);
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::And(hn::Lt(a, normal), hn::Gt(a, zero))))) {
      for (std::size_t k = i; k < i + hn::Lanes(d); ++k) to[k] = round_to_odd(from[k]);
      continue;
    }
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::Add(hn::And(bits, rest), rest), last);
    hn::StoreU(hn::DemoteTo(df, hn::BitCast(d, hn::Or(hn::AndNot(rest, bits), odd))), df, to + i);
  }
#endif
  for (; i < n; ++i) to[i] = round_to_odd(from[i]);
}

// Loops over n contiguous halves; dst and src do not overlap.
inline void f16_to_f32(float* dst, const std::uint16_t* src, std::size_t n) {
  std::size_t i = 0;
#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(src + i))), d, dst + i);
#endif
  for (; i < n; ++i) dst[i] = f16_value(src[i]);
}
inline void f32_to_f16(std::uint16_t* dst, const float* src, std::size_t n) {
  std::size_t i = 0;
#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, src + i)), dh, reinterpret_cast<hwy::float16_t*>(dst + i));
#endif
  for (; i < n; ++i) dst[i] = f16_bits(src[i]);
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
