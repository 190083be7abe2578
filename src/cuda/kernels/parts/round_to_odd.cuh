// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

// f64 to a half by way of f32 could round twice; a number rounded to odd in between rounds as if once.
EBB f32 to_odd(f64 x) {
  const f32 nearest = (f32)x;
  if ((f64)nearest == x || x != x || is_inf(nearest)) return nearest;
  const u32 bits = __float_as_uint(nearest);
  if (bits & 1u) return nearest;
  return __uint_as_float((nearest > x) == (x > 0) ? bits - 1 : bits + 1);
}

}  // namespace ebb::cuda
