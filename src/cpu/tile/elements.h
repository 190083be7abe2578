// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/tile/kernels.h"
#include "ebb/dtype.h"

// Maps a run-time dtype to a C++ type, and the few facts about elements that library calls share.
namespace ebb::cpu {

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<double>{}) and so on, with the dtype's C++ type.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(Type<double>{});
    case DType::f32:
      return f(Type<float>{});
    case DType::f16:
      return f(Type<Half>{});
    case DType::bf16:
      return f(Type<BFloat16>{});
    case DType::i64:
      return f(Type<std::int64_t>{});
    case DType::i32:
      return f(Type<std::int32_t>{});
    case DType::u8:
      return f(Type<std::uint8_t>{});
    default:
      return f(Type<bool>{});
  }
}

// Data that is only moved needs its size, not its meaning.
template <class F>
decltype(auto) with_element_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 8:
      return f(Type<std::uint64_t>{});
    case 4:
      return f(Type<std::uint32_t>{});
    case 2:
      return f(Type<std::uint16_t>{});
    default:
      return f(Type<std::uint8_t>{});
  }
}

// Indices are i64 or i32.
template <class F>
decltype(auto) with_index_type(DType dtype, F&& f) {
  if (dtype == DType::i32) return f(Type<std::int32_t>{});
  return f(Type<std::int64_t>{});
}

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

inline void halves_to_float(DType dtype, const void* src, std::int64_t stride, float* dst, std::int64_t n) {
  tile_kernels().load(dtype, RegType::f32)(dst, src, stride, static_cast<std::size_t>(n));
}
inline void float_to_halves(DType dtype, const float* src, void* dst, std::int64_t n) {
  tile_kernels().store(RegType::f32, dtype)(dst, 1, src, static_cast<std::size_t>(n));
}

// a + b and a · b as defined for the dtype: integers wrap (unsigned arithmetic, no overflow), bool is or / and.
template <class T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a + b;
  }
}
template <class T>
T wrapping_mul(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a * b;
  }
}

}  // namespace ebb::cpu
