// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstring>

namespace ebb::cpu {

// Copying a few bytes takes less time than calling a function that first determines their number: copies two blocks
// that may overlap each other (dst and src do not).
template <std::size_t kBlock>
inline void copy_two_blocks(std::byte* dst, const std::byte* src, std::size_t bytes) {
  std::byte first[kBlock], last[kBlock];
  std::memcpy(first, src, kBlock);
  std::memcpy(last, src + bytes - kBlock, kBlock);
  std::memcpy(dst, first, kBlock);
  std::memcpy(dst + bytes - kBlock, last, kBlock);
}

inline void copy_bytes(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  if (bytes > 128) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 64) {
    copy_two_blocks<64>(to, from, bytes);
  } else if (bytes >= 32) {
    copy_two_blocks<32>(to, from, bytes);
  } else if (bytes >= 16) {
    copy_two_blocks<16>(to, from, bytes);
  } else if (bytes >= 8) {
    copy_two_blocks<8>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_two_blocks<4>(to, from, bytes);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

}  // namespace ebb::cpu
