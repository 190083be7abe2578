// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>

#include "ebb/tensor.h"

namespace ebb::io {

// Parses a .npy file in memory; `where` begins the text of errors.
Tensor parse_npy(std::span<const std::byte> file, const std::string& where);

// The header that precedes a tensor's elements in its .npy file.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace ebb::io
