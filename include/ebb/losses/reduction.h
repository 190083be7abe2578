#pragma once
#include <cstdint>

namespace ebb {

// What becomes of a loss's terms. Mean of nothing is NaN, sum of nothing is 0.
enum class Reduction : std::uint8_t {
  none,       // every term by itself
  mean,       // Σ terms / number of terms (for weighted losses: / Σ weights)
  sum,        // Σ terms
  batchmean,  // Σ terms / size of the first axis; only where a loss says so
};

}  // namespace ebb
