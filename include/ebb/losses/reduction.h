// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// How the terms of a loss are reduced. The mean of no terms is NaN, their sum is 0.
enum class Reduction : std::uint8_t {
  none,       // the terms themselves
  mean,       // Σ terms / number of terms (for weighted losses: / Σ weights)
  sum,        // Σ terms
  batchmean,  // Σ terms / size of the first axis; only where a loss says so
};

}  // namespace ebb
