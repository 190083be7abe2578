// SPDX-License-Identifier: MIT
#include "ebb/dtype.h"

#include <array>
#include <bit>
#include <ostream>

#include "core/format_error.h"
#include "ebb/tensor.h"

namespace ebb {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};
// In the order of the enum.
constexpr std::array<Row, kDTypeCount> kRows = {
    {{"f64", 8}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i64", 8}, {"i32", 4}, {"u8", 1}, {"bool", 1}}};

}  // namespace

std::size_t size_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].bytes; }

std::string_view name(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }
std::ostream& operator<<(std::ostream& os, DType dtype) { return os << name(dtype); }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kRows[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  fail(Error::Kind::type, "dtype_from_name: \"{}\" is not a dtype; use f64, f32, f16, bf16, i64, i32, u8 or bool",
       name);
}

// The enum is ordered from wide to narrow and from float to integer to bool, so the common dtype is the smaller of the
// two, except for f16 with bf16: neither holds the other's values, f32 holds both.
DType promote(DType a, DType b) {
  if (a != b && is_half(a) && is_half(b)) return DType::f32;
  return a < b ? a : b;
}

DType Scalar::dtype_beside(DType dtype) const {
  switch (kind_) {
    case Kind::boolean:
      return dtype;
    case Kind::integer:
      return dtype == DType::bool_ ? DType::i64 : dtype;
    case Kind::real:
      return is_floating(dtype) ? dtype : DType::f32;
  }
  return dtype;
}

// f32 has 23 bits of fraction and exponent bias 127, f16 has 10 bits and bias 15.
Half half_from(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  auto result = [sign](std::uint32_t m) { return Half{static_cast<std::uint16_t>(sign | m)}; };

  if (magnitude > 0x7f800000u) return result(0x7e00u | ((magnitude >> 13) & 0x1ffu));  // quiet NaN
  if (magnitude >= 0x477ff000u) return result(0x7c00u);  // from 65520 on, the midpoint above the largest, 65504
  if (magnitude >= 0x38800000u) {                        // from 2^-14 on: a normal number
    // Adding half of the last place minus one, and one more if that place is odd, is round to nearest even; a carry out
    // of the fraction correctly increments the exponent.
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return result((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
  }
  // A multiple of 2^-24 below 2^-14. In [0.5, 1) the last place of a float is 2^-24, so the addition rounds exactly
  // this way.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return result(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f));
}

float to_float(Half x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;  // zero or subnormal
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

// bf16 is the upper half of an f32.
BFloat16 bfloat16_from(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // quiet NaN
  const std::uint32_t odd = (bits >> 16) & 1u;
  return {static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16)};
}

float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

}  // namespace ebb
