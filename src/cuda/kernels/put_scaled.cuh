// SPDX-License-Identifier: MIT
// Rows of the gradient of x, each times its factor.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"

namespace ebb::cuda {

extern "C" __global__ void __launch_bounds__(kThreads) put_scaled(const PutScaledArgs a) {
  EACH(i, a.n) {
    const i64 r = quotient(i, a.width), c = i - r * a.width;
    if (c >= a.x_width) continue;
    const f32 s = a.scale[r];
    a.dx[row_of(a.rows, r) * a.row_step + c * a.column_step] = to_bf16(s == 0 ? 0.0f : a.block[i] * s);
  }
}

}  // namespace ebb::cuda
