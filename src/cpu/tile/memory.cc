// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/memory.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "cpu/tile/half-inl.h"
#include "cpu/tile/parts-inl.h"
#include "cpu/tile/scalar-inl.h"

// Loading, storing, converting and rounding: plain loops that the compiler vectorises, and half conversions.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A mask as a separate type, so that conversions can distinguish it from an integer.
struct Mask32 {
  std::int32_t bits;
};
struct Mask64 {
  std::int64_t bits;
};
template <class T>
inline constexpr bool kIsMask = std::is_same_v<T, Mask32> || std::is_same_v<T, Mask64>;
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// bool in memory, read as the byte it is: any non-zero byte is true, no trap values.
struct Bool8 {
  std::uint8_t byte;
};

// Truncates; NaN gives 0, out-of-range values the nearest end.
template <class To, class From>
HWY_INLINE To float_to_int(From x) {
  constexpr From kEnd = static_cast<From>(std::uint64_t{1} << (sizeof(To) * 8 - 1));
  if (x >= kEnd) return std::numeric_limits<To>::max();
  if (x < -kEnd) return std::numeric_limits<To>::min();
  return x == x ? static_cast<To>(x) : To(0);
}

template <class To, class From>
HWY_INLINE To convert(From x) {
  if constexpr (std::is_same_v<From, Half>) {
    return convert<To>(f16_value(x.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert<To>(bf16_value(x.bits));
  } else if constexpr (std::is_same_v<From, Bool8>) {
    return convert<To>(static_cast<std::int32_t>(x.byte != 0));
  } else if constexpr (kIsMask<From>) {
    if constexpr (kIsMask<To>) {
      return To{static_cast<decltype(To::bits)>(x.bits)};
    } else {
      return convert<To>(static_cast<std::int32_t>(x.bits & 1));
    }
  } else if constexpr (kIsMask<To>) {
    return To{static_cast<decltype(To::bits)>(-static_cast<decltype(To::bits)>(x != From(0)))};
  } else if constexpr (std::is_same_v<To, Bool8>) {
    return Bool8{static_cast<std::uint8_t>(x != From(0))};
  } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Half>) {
    float f;
    if constexpr (std::is_same_v<From, double>)
      f = round_to_odd(x);
    else
      f = static_cast<float>(x);
    if constexpr (std::is_same_v<To, Half>)
      return Half{f16_bits(f)};
    else
      return BFloat16{bf16_bits(f)};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Bytes wrap, like every other integer stored in one.
    if constexpr (sizeof(To) == 1)
      return static_cast<To>(float_to_int<std::int64_t>(x));
    else
      return float_to_int<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void load(void* dst, const void* src, std::ptrdiff_t stride, std::size_t n) {
  To* HWY_RESTRICT d = static_cast<To*>(dst);
  const From* HWY_RESTRICT s = static_cast<const From*>(src);
  if (n == 0) return;
  if (stride == 1) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(d, s, n * sizeof(To));
    } else if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
      f16_to_f32(d, reinterpret_cast<const std::uint16_t*>(s), n);
    } else {
#pragma GCC ivdep  // bytes may alias anything: the compiler would go element by element
      for (std::size_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
    }
  } else if (stride == 0) {
    const To value = convert<To>(*s);
    for (std::size_t i = 0; i < n; ++i) d[i] = value;
  } else {
    for (std::size_t i = 0; i < n; ++i) d[i] = convert<To>(s[static_cast<std::ptrdiff_t>(i) * stride]);
  }
}

// Masks as bytes 0 and 1, which no compiler vectorises.
template <class Bits>
void masks_to_bytes(std::uint8_t* HWY_RESTRICT to, const Bits* HWY_RESTRICT from, std::size_t n) {
  const hn::ScalableTag<std::make_unsigned_t<Bits>> d;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1);
  const auto* masks = reinterpret_cast<const std::make_unsigned_t<Bits>*>(from);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::TruncateTo(bytes, hn::And(hn::LoadU(d, masks + i), one)), bytes, to + i);
  for (; i < n; ++i) to[i] = static_cast<std::uint8_t>(from[i] & 1);
}

template <class From, class To>
void store(void* dst, std::ptrdiff_t stride, const void* src, std::size_t n) {
  To* HWY_RESTRICT d = static_cast<To*>(dst);
  const From* HWY_RESTRICT s = static_cast<const From*>(src);
  if (n == 0) return;
  if (stride == 1) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(d, s, n * sizeof(To));
    } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
      f32_to_f16(reinterpret_cast<std::uint16_t*>(d), s, n);
    } else if constexpr (std::is_same_v<From, double> && kIsHalf<To>) {
      constexpr std::size_t kTile = 256;
      float tile[kTile];
      for (std::size_t i = 0; i < n; i += kTile) {
        const std::size_t count = std::min(kTile, n - i);
        round_to_odd(tile, s + i, count);
        store<float, To>(d + i, 1, tile, count);
      }
    } else if constexpr (kIsMask<From> && sizeof(To) == 1) {
      masks_to_bytes(reinterpret_cast<std::uint8_t*>(d), &s->bits, n);
    } else {
#pragma GCC ivdep
      for (std::size_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) d[static_cast<std::ptrdiff_t>(i) * stride] = convert<To>(s[i]);
  }
}

// The tiles may coincide: when widening that only works from the end, so wide results go through a small tile.
template <class From, class To>
void convert_tile(void* out, const void* a, const void*, const void*, std::size_t n) {
  To* d = static_cast<To*>(out);
  const From* s = static_cast<const From*>(a);
  if (static_cast<const void*>(d) != static_cast<const void*>(s)) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
  } else if constexpr (sizeof(To) <= sizeof(From)) {
    for (std::size_t i = 0; i < n; ++i) {
      From value;
      std::memcpy(&value, s + i, sizeof(From));
      const To result = convert<To>(value);
      std::memcpy(static_cast<void*>(d + i), &result, sizeof(To));
    }
  } else {
    for (std::size_t i = n; i-- > 0;) {
      From value;
      std::memcpy(&value, s + i, sizeof(From));
      const To result = convert<To>(value);
      std::memcpy(static_cast<void*>(d + i), &result, sizeof(To));
    }
  }
}

void round_f16(void* out, const void* a, const void*, const void*, std::size_t n) {
  constexpr std::size_t kPart = 256;
  std::uint16_t half[kPart];
  for (std::size_t i = 0; i < n; i += kPart) {
    const std::size_t m = n - i < kPart ? n - i : kPart;
    f32_to_f16(half, static_cast<const float*>(a) + i, m);
    f16_to_f32(static_cast<float*>(out) + i, half, m);
  }
}
void round_bf16(void* out, const void* a, const void*, const void*, std::size_t n) {
  float* o = static_cast<float*>(out);
  const float* s = static_cast<const float*>(a);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = bf16_value(bf16_bits(s[i]));
}
void wrap_u8(void* out, const void* a, const void*, const void*, std::size_t n) {
  std::int32_t* o = static_cast<std::int32_t*>(out);
  const std::int32_t* s = static_cast<const std::int32_t*>(a);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) o[i] = s[i] & 0xff;
}

// One row per type of the other side; columns in the order of RegType and DType.
template <class From>
constexpr LoadFn kLoadTo[kRegTypeCount] = {&load<From, float>,        &load<From, double>, &load<From, std::int32_t>,
                                           &load<From, std::int64_t>, &load<From, Mask32>, &load<From, Mask64>};
template <class To>
constexpr StoreFn kStoreFrom[kRegTypeCount] = {&store<float, To>,        &store<double, To>, &store<std::int32_t, To>,
                                               &store<std::int64_t, To>, &store<Mask32, To>, &store<Mask64, To>};
template <class To>
constexpr ElementwiseFn kConvertFrom[kRegTypeCount] = {&convert_tile<float, To>,        &convert_tile<double, To>,
                                                       &convert_tile<std::int32_t, To>, &convert_tile<std::int64_t, To>,
                                                       &convert_tile<Mask32, To>,       &convert_tile<Mask64, To>};

constexpr const LoadFn* kLoads[kDTypeCount] = {kLoadTo<double>,       kLoadTo<float>,        kLoadTo<Half>,
                                               kLoadTo<BFloat16>,     kLoadTo<std::int64_t>, kLoadTo<std::int32_t>,
                                               kLoadTo<std::uint8_t>, kLoadTo<Bool8>};
constexpr const StoreFn* kStores[kDTypeCount] = {
    kStoreFrom<double>,       kStoreFrom<float>,        kStoreFrom<Half>,         kStoreFrom<BFloat16>,
    kStoreFrom<std::int64_t>, kStoreFrom<std::int32_t>, kStoreFrom<std::uint8_t>, kStoreFrom<Bool8>};
constexpr const ElementwiseFn* kConverts[kRegTypeCount] = {kConvertFrom<float>,        kConvertFrom<double>,
                                                           kConvertFrom<std::int32_t>, kConvertFrom<std::int64_t>,
                                                           kConvertFrom<Mask32>,       kConvertFrom<Mask64>};

}  // namespace

LoadFn load_kernel(DType from, RegType to) { return kLoads[static_cast<int>(from)][static_cast<int>(to)]; }
StoreFn store_kernel(RegType from, DType to) { return kStores[static_cast<int>(to)][static_cast<int>(from)]; }
ElementwiseFn convert_kernel(RegType from, RegType to) {
  return kConverts[static_cast<int>(to)][static_cast<int>(from)];
}

ElementwiseFn round_kernel(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return &round_f16;
    case DType::bf16:
      return &round_bf16;
    case DType::u8:
      return &wrap_u8;
    default:
      return nullptr;
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
