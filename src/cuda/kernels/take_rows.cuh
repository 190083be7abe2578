// SPDX-License-Identifier: MIT
// Copies rows of x into a chunk's block, or those of its gradient back; rows that do not count are zeros.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef Words4 T;
#endif

using Args = TakeRowsArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) take(const Args a) {
  EACH(i, a.n) {
    const i64 r = quotient(i, a.width), c = i - r * a.width, row = row_of(a.rows, r);
    const bool inside = c < a.x_width, counts = inside && a.target[row * a.target_step] != a.ignore;
    if (!a.put) {
      put(a.block + i, counts ? a.x[row * a.x_row + c * a.x_column] : T{});
    } else if (inside) {
      put(a.x + row * a.x_row + c, counts ? a.block[i] : T{});
    }
  }
}

}  // namespace ebb::cuda
