// SPDX-License-Identifier: MIT
#include "backend/matrix_errors.h"

#include <fmt/format.h>

namespace ebb {

static std::string matrix_name(const Shape& shape, std::int64_t i) {
  return shape.rank() == 2 ? std::string("the matrix") : fmt::format("matrix {}", i);
}

Error not_floating(const char* operation, DType dtype) {
  return {Error::Kind::type,
          fmt::format("{}: needs floating matrices, got {}; cast them first", operation, name(dtype))};
}

Error not_positive_definite(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t minor) {
  return {Error::Kind::value, fmt::format("{}: {} is not positive definite (leading minor {})", operation,
                                          matrix_name(shape, matrix), minor)};
}

Error singular(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t pivot) {
  return {Error::Kind::value,
          fmt::format("{}: {} is singular (pivot {} is zero)", operation, matrix_name(shape, matrix), pivot)};
}

}  // namespace ebb
