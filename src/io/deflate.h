// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb::io {

// zlib's three jobs, for spans of any length. `where` begins the text of errors.
std::vector<std::byte> deflate_raw(std::span<const std::byte> bytes, const std::string& where);
// Exactly `expected` bytes must come out.
std::vector<std::byte> inflate_raw(std::span<const std::byte> bytes, std::uint64_t expected, const std::string& where);
// Unpacks a .gz file with all of its members; more than `limit` bytes are rejected.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, std::uint64_t limit, const std::string& where);
// Its first `count` bytes, fewer if it has fewer.
std::vector<std::byte> gunzip_start(std::span<const std::byte> bytes, std::size_t count, const std::string& where);
inline bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);
// The checksum of two pieces, the second of `bytes` bytes, from those of each.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t bytes);

}  // namespace ebb::io
