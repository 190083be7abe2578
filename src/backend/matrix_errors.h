// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"

// Errors of every device about matrices it cannot factor. `shape` is that of the batch, `matrix` the number of the
// first bad one there.
namespace ebb {

Error not_floating(const char* operation, DType dtype);
Error not_positive_definite(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t minor);
Error singular(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t pivot);

}  // namespace ebb
