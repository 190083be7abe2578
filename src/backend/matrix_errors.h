// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"

// Errors shared by all devices about matrices that cannot be factored. `shape` is that of the batch, `matrix` the index
// of its first bad one.
namespace ebb {

Error not_floating(const char* operation, DType dtype);
Error not_positive_definite(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t minor);
Error singular(const char* operation, const Shape& shape, std::int64_t matrix, std::int64_t pivot);

}  // namespace ebb
