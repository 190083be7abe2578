// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "ebb/ebb.h"
#include "ebb/io.h"

namespace ebb {

inline const std::vector<DType> kAllDTypes = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                              DType::i64, DType::i32, DType::u8,  DType::bool_};
// Empty, scalar, odd sizes, the maximum number of dimensions.
inline const std::vector<Shape> kShapes = {{}, {1}, {7}, {0}, {3, 0, 2}, {2, 3}, {5, 1, 4}, {2, 1, 2, 1, 2, 1, 2, 3}};

// Every bit pattern is equally likely: NaNs with payloads, infinities and denormals must survive, too.
inline Tensor random_bits(DType dtype, const Shape& shape, std::uint64_t seed = 1) {
  manual_seed(seed);
  const auto count = static_cast<std::int64_t>(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
  std::vector<std::uint8_t> bytes =
      randint(0, dtype == DType::bool_ ? 2 : 256, {count}, DType::u8).to_vector<std::uint8_t>();
  return from_bytes(bytes.data(), dtype, shape);
}

inline std::string bits(const Tensor& t) {
  const auto copy = [&]<class T>(const T* data) {
    return std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(t.numel()) * sizeof(T));
  };
  switch (t.dtype()) {
    case DType::f64:
      return copy(t.data<double>());
    case DType::f32:
      return copy(t.data<float>());
    case DType::f16:
      return copy(t.data<Half>());
    case DType::bf16:
      return copy(t.data<BFloat16>());
    case DType::i64:
      return copy(t.data<std::int64_t>());
    case DType::i32:
      return copy(t.data<std::int32_t>());
    case DType::u8:
      return copy(t.data<std::uint8_t>());
    case DType::bool_:
      return copy(t.data<bool>());
  }
  return {};
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && bits(a) == bits(b);
}

inline io::TensorMap sample_tensors() {
  io::TensorMap all;
  std::uint64_t seed = 0;
  for (DType dtype : kAllDTypes) {
    for (const Shape& shape : kShapes) {
      all[std::string(name(dtype)) + " " + shape.str()] = random_bits(dtype, shape, ++seed);
    }
  }
  return all;
}

}  // namespace ebb
