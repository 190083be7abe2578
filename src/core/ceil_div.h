// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// n / size, rounded up: how many pieces of `size` hold n. n may be negative.
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t size) { return n / size + (n % size > 0); }

}  // namespace ebb
