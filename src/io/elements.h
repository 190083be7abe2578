// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "ebb/tensor.h"

namespace ebb::io {

// The number types in files; those without a dtype in Ebb are widened on reading.
enum class FileType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool_ };

std::size_t size_of(FileType type);
DType stored_as(FileType type);  // the dtype of a tensor read from it
FileType file_type(DType dtype);

// Row-major elements as a tensor of stored_as(type). `where` begins the text of an error (a bool that is neither 0 nor
// 1, a u64 beyond i64), `bytes` has exactly the size of the shape.
Tensor tensor_from_elements(std::span<const std::byte> bytes, FileType type, const Shape& shape, bool big_endian,
                            const std::string& where);

// Bools must be 0 or 1: anything else would be undefined behaviour later.
void check_bools(std::span<const std::byte> bytes, const std::string& where);

// The shape a file requests; throws if it exceeds addressable memory or Ebb's number of dimensions.
Shape shape_from_file(std::span<const std::uint64_t> sizes, const std::string& where);

}  // namespace ebb::io
