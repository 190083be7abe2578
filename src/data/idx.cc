// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <vector>

#include "core/format_error.h"
#include "ebb/data/readers.h"
#include "io/deflate.h"
#include "io/elements.h"
#include "io/mapped_file.h"

// The format: 0, 0, a type, the rank; the sizes, 4 bytes each; the elements row by row. Big-endian throughout.
namespace ebb {
namespace {

using Bytes = std::span<const std::byte>;

std::optional<io::FileType> element_type_of(unsigned code) {
  switch (code) {
    case 0x08:
      return io::FileType::u8;
    case 0x09:
      return io::FileType::i8;
    case 0x0B:
      return io::FileType::i16;
    case 0x0C:
      return io::FileType::i32;
    case 0x0D:
      return io::FileType::f32;
    case 0x0E:
      return io::FileType::f64;
    default:
      return {};
  }
}

struct Header {
  io::FileType type;
  Shape shape;
  std::size_t bytes;  // of the header
};

Header read_idx_header(Bytes start, const std::string& path) {
  require(start.size() >= 4 && start[0] == std::byte{0} && start[1] == std::byte{0}, Error::Kind::io,
          "{}: this is not an IDX file, it does not begin with two zeros", path);
  const auto type = element_type_of(static_cast<unsigned>(start[2]));
  require(type.has_value(), Error::Kind::io, "{}: IDX type {:#04x} is unknown", path, static_cast<unsigned>(start[2]));
  const auto rank = static_cast<std::size_t>(start[3]);
  require(start.size() >= 4 + 4 * rank, Error::Kind::io, "{}: the file ends inside its IDX header", path);
  std::vector<std::uint64_t> sizes(rank);
  for (std::size_t i = 0; i < 4 * rank; ++i)
    sizes[i / 4] = sizes[i / 4] << 8 | static_cast<std::uint64_t>(start[4 + i]);
  return {*type, io::shape_from_file(sizes, path), 4 + 4 * rank};
}

}  // namespace

Tensor read_idx(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  Bytes all = file->bytes();
  std::vector<std::byte> unpacked;
  if (io::is_gzip(all)) {
    // The header gives the size, and deflate compresses at most 1032 : 1: bounds the memory that is allocated.
    unpacked = io::gunzip_start(all, 4 + 4 * 255, path);
    const Header header = read_idx_header(unpacked, path);
    const std::uint64_t elements = static_cast<std::uint64_t>(header.shape.numel()) * size_of(header.type);
    require(elements / 1032 <= all.size(), Error::Kind::io, "{}: {} bytes of elements cannot come out of {}", path,
            elements, all.size());
    unpacked = io::gunzip(all, header.bytes + elements, path);
    all = unpacked;
  }
  const Header header = read_idx_header(all, path);
  const std::uint64_t expected = static_cast<std::uint64_t>(header.shape.numel()) * size_of(header.type);
  const Bytes elements = all.subspan(header.bytes);
  require(elements.size() == expected, Error::Kind::io, "{}: shape {} takes {} bytes, the file has {}", path,
          header.shape, expected, elements.size());
  return io::tensor_from_elements(elements, header.type, header.shape, true, path);
}

}  // namespace ebb
