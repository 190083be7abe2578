// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"

namespace ebb {

// Images of single digits and what they show.
struct Digits {
  Tensor images;  // [n, 784] f32 in [0, 1]: 28 × 28 pixels row by row, ink is 1
  Tensor labels;  // [n] i64 in [0, 10)
};

// Digits as a pen might have drawn them: strokes with random slant, size, rotation, wobble and thickness, and some
// noise. Image i depends only on the seed and i, so the first images of a longer set are those of a shorter one.
Digits make_digits(std::int64_t n, std::uint64_t seed = 0);

}  // namespace ebb
