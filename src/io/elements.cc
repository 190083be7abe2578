// SPDX-License-Identifier: MIT
#include "io/elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/format_error.h"
#include "graph/node.h"

namespace ebb::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

template <class From>
From load(const std::byte* at, bool big_endian) {
  std::byte raw[sizeof(From)];
  std::memcpy(raw, at, sizeof(From));
  if (big_endian) std::reverse(raw, raw + sizeof(From));
  From value;
  std::memcpy(&value, raw, sizeof(From));
  return value;
}

template <class From, class To>
void widen(std::span<const std::byte> bytes, bool big_endian, std::byte* out) {
  To* to = reinterpret_cast<To*>(out);
  const std::size_t n = bytes.size() / sizeof(From);
  for (std::size_t i = 0; i < n; ++i) to[i] = load<From>(bytes.data() + i * sizeof(From), big_endian);
}

void swap_elements(std::span<const std::byte> bytes, std::size_t size, std::byte* out) {
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    std::reverse_copy(bytes.data() + i, bytes.data() + i + size, out + i);
  }
}

}  // namespace

std::size_t size_of(FileType type) {
  switch (type) {
    case FileType::f64:
    case FileType::i64:
    case FileType::u64:
      return 8;
    case FileType::f32:
    case FileType::i32:
    case FileType::u32:
      return 4;
    case FileType::f16:
    case FileType::bf16:
    case FileType::i16:
    case FileType::u16:
      return 2;
    case FileType::i8:
    case FileType::u8:
    case FileType::bool_:
      return 1;
  }
  return 1;
}

DType stored_as(FileType type) {
  switch (type) {
    case FileType::f64:
      return DType::f64;
    case FileType::f32:
      return DType::f32;
    case FileType::f16:
      return DType::f16;
    case FileType::bf16:
      return DType::bf16;
    case FileType::i64:
    case FileType::u64:
    case FileType::u32:
      return DType::i64;
    case FileType::i32:
    case FileType::i16:
    case FileType::u16:
    case FileType::i8:
      return DType::i32;
    case FileType::u8:
      return DType::u8;
    case FileType::bool_:
      return DType::bool_;
  }
  return DType::u8;
}

FileType file_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return FileType::f64;
    case DType::f32:
      return FileType::f32;
    case DType::f16:
      return FileType::f16;
    case DType::bf16:
      return FileType::bf16;
    case DType::i64:
      return FileType::i64;
    case DType::i32:
      return FileType::i32;
    case DType::u8:
      return FileType::u8;
    case DType::bool_:
      return FileType::bool_;
  }
  return FileType::u8;
}

void check_bools(std::span<const std::byte> bytes, const std::string& where) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto value = static_cast<unsigned>(bytes[i]);
    require(value <= 1, Error::Kind::io, "{}: element {} is a bool with the value {}, it must be 0 or 1", where, i,
            value);
  }
}

Tensor tensor_from_elements(std::span<const std::byte> bytes, FileType type, const Shape& shape, bool big_endian,
                            const std::string& where) {
  const DType dtype = stored_as(type);
  const std::size_t element = size_of(type);
  if (type == FileType::bool_) check_bools(bytes, where);
  BufferPtr buffer =
      BufferPtr::allocate(static_cast<std::size_t>(shape.numel()) * ebb::size_of(dtype), "a tensor from a file");
  std::byte* out = buffer.data();
  switch (type) {
    case FileType::i16:
      widen<std::int16_t, std::int32_t>(bytes, big_endian, out);
      break;
    case FileType::i8:
      widen<std::int8_t, std::int32_t>(bytes, big_endian, out);
      break;
    case FileType::u16:
      widen<std::uint16_t, std::int32_t>(bytes, big_endian, out);
      break;
    case FileType::u32:
      widen<std::uint32_t, std::int64_t>(bytes, big_endian, out);
      break;
    case FileType::u64:
      for (std::size_t i = 0; i < bytes.size(); i += 8) {
        const auto value = load<std::uint64_t>(bytes.data() + i, big_endian);
        require(value <= static_cast<std::uint64_t>(INT64_MAX), Error::Kind::io,
                "{}: element {} is {}, which i64, the widest integer of Ebb, cannot hold", where, i / 8, value);
      }
      widen<std::uint64_t, std::int64_t>(bytes, big_endian, out);
      break;
    default:
      if (big_endian && element > 1) {
        swap_elements(bytes, element, out);
      } else if (!bytes.empty()) {
        std::memcpy(out, bytes.data(), bytes.size());
      }
  }
  return make_data(dtype, shape, std::move(buffer)).to(default_device());
}

Shape shape_from_file(std::span<const std::uint64_t> sizes, const std::string& where) {
  std::vector<std::int64_t> signed_sizes;
  for (std::uint64_t size : sizes)
    signed_sizes.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(size, INT64_MAX)));
  try {
    return Shape(signed_sizes);
  } catch (const Error& error) {
    fail(Error::Kind::io, "{}: {}", where, error.what());
  }
}

}  // namespace ebb::io
