// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// n / size, rounded up: the number of pieces of `size` that hold n. n may be negative.
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t size) { return n / size + (n % size > 0); }

}  // namespace ebb
