// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>

namespace ebb {

// n / d is (n · factor >> 32) >> shift for every n below 2^31: with 2^(s−1) < d ≤ 2^s, factor is 2^(31+s) / d rounded
// up, which fits 32 bits, and n times what was added to it is less than 2^(31+s) / d. A division takes some 20
// instructions, three of which run at a quarter of the rate or less. d lies between 2 and 2^31.
struct Divisor {
  std::uint32_t factor = 0;
  std::uint8_t shift = 0;
};
constexpr Divisor divisor_of(std::int64_t d) {
  if (d < 2 || d > std::int64_t{1} << 31) return {};  // numbers below 2^31 are not divided by those
  const auto by = static_cast<std::uint64_t>(d);
  const int s = std::bit_width(by - 1);
  const std::uint64_t factor = ((std::uint64_t{1} << (31 + s)) + by - 1) / by;
  return {static_cast<std::uint32_t>(factor), static_cast<std::uint8_t>(s - 1)};
}
// The same as one number: the factor above, the shift below.
constexpr std::int64_t divisor_word(std::int64_t d) {
  const Divisor by = divisor_of(d);
  return static_cast<std::int64_t>(std::uint64_t{by.factor} << 32 | by.shift);
}

}  // namespace ebb
