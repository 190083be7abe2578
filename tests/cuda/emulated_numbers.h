// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/dtype.h"

// Numbers of the emulated libraries' matrices and tensors, read and written by dtype.
namespace ebb::testing {

inline double number(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f16:
      return to_float(static_cast<const Half*>(data)[i]);
    default:
      return to_float(static_cast<const BFloat16*>(data)[i]);
  }
}

inline void put(DType dtype, void* data, std::int64_t i, double x) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(data)[i] = x;
      break;
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case DType::f16:
      static_cast<Half*>(data)[i] = half_from(static_cast<float>(x));
      break;
    default:
      static_cast<BFloat16*>(data)[i] = bfloat16_from(static_cast<float>(x));
  }
}

}  // namespace ebb::testing
