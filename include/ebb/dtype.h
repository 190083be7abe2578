// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace ebb {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, u8, bool_ };
inline constexpr int kDTypeCount = 8;

std::size_t size_of(DType dtype);            // bytes of one element
std::string_view name(DType dtype);          // "f64", ..., "bool"
DType dtype_from_name(std::string_view name);  // throws Error for an unknown name

std::ostream& operator<<(std::ostream& os, DType dtype);  // its name

constexpr bool is_floating(DType d) { return d <= DType::bf16; }
constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
constexpr bool is_integer(DType d) { return d >= DType::i64 && d <= DType::u8; }  // bool is not an integer

// The common dtype of two operands. Within floats and within integers it is the array API's table (f16 with bf16 gives
// f32); an integer or bool with a float gives the float, as in PyTorch; bool with an integer gives the integer.
DType promote(DType a, DType b);

// The dtype in which sums and formulas are computed: f64 for f64, f32 for the other floats, i64 for integers and bool.
constexpr DType compute_dtype(DType d) {
  return d == DType::f64 ? DType::f64 : is_floating(d) ? DType::f32 : DType::i64;
}

// Storage types of the two half-precision formats. They only convert: arithmetic on them happens in f32.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
Half half_from(float x);          // round to nearest, ties to even; overflow gives infinity
BFloat16 bfloat16_from(float x);  // round to nearest, ties to even; NaN stays NaN
float to_float(Half x);
float to_float(BFloat16 x);

template <class T> struct dtype_of_type;
template <> struct dtype_of_type<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of_type<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of_type<Half> { static constexpr DType value = DType::f16; };
template <> struct dtype_of_type<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of_type<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of_type<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of_type<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of_type<bool> { static constexpr DType value = DType::bool_; };

}  // namespace ebb
