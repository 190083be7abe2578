// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>

namespace ebb {

// Blocks of the pool come in classes so that a freed one fits the next request of similar size: multiples of 128 bytes
// up to 1 KiB, then eight sizes per power of two, which wastes at most an eighth of the requested size.
struct SizeClass {
  int index;
  std::size_t bytes;
};

inline constexpr std::size_t kBlockAlignment = 128;
inline constexpr std::size_t kLargestBlock = std::size_t{1} << 46;  // no machine has more: rejected without trying
inline constexpr int kSizeClassCount = 8 * (46 - 10) + 8;

// The smallest class that holds `bytes`, which is at most kLargestBlock.
inline SizeClass size_class_of(std::size_t bytes) {
  if (bytes <= 1024) {
    const std::size_t steps = bytes == 0 ? 1 : (bytes + kBlockAlignment - 1) / kBlockAlignment;
    return {static_cast<int>(steps) - 1, steps * kBlockAlignment};
  }
  // 2^e < bytes <= 2^(e+1); the classes between are 2^e + k·2^(e-3), k = 1..8.
  const int e = static_cast<int>(std::bit_width(bytes - 1)) - 1;
  const std::size_t k = ((bytes - 1) >> (e - 3)) - 8 + 1;
  return {8 * (e - 10) + 7 + static_cast<int>(k), (8 + k) << (e - 3)};
}

}  // namespace ebb
