// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>

#include "ebb/dtype.h"

// Element i of an array of any dtype, as a double.
namespace ebb::testing {

inline double read_number(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f16:
      return to_float(static_cast<const Half*>(data)[i]);
    case DType::bf16:
      return to_float(static_cast<const BFloat16*>(data)[i]);
    case DType::i64:
      return static_cast<double>(static_cast<const std::int64_t*>(data)[i]);
    case DType::i32:
      return static_cast<const std::int32_t*>(data)[i];
    default:
      return static_cast<const std::uint8_t*>(data)[i];
  }
}

inline void write_number(DType dtype, void* data, std::int64_t i, double x) {
  auto put = [&](auto value) {
    std::memcpy(static_cast<char*>(data) + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
  };
  switch (dtype) {
    case DType::f64:
      return put(x);
    case DType::f32:
      return put(static_cast<float>(x));
    case DType::f16:
      return put(half_from(static_cast<float>(x)));
    case DType::bf16:
      return put(bfloat16_from(static_cast<float>(x)));
    case DType::i64:
      return put(static_cast<std::int64_t>(x));
    case DType::i32:
      return put(static_cast<std::int32_t>(static_cast<std::int64_t>(x)));
    default:
      return put(static_cast<std::uint8_t>(static_cast<std::int64_t>(x)));
  }
}

}  // namespace ebb::testing
