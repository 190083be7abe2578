// SPDX-License-Identifier: MIT
// Sums of the columns of a chunk's gradient, added to what the chunks before left.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"
#include "cuda/kernels/parts/element.h"

namespace ebb::cuda {

using Args = AddColumnsArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) add_columns(const Args a) {
  EACH(c, a.classes) {
    f64 total = a.first ? 0 : a.totals[c];
    for (i64 r = 0; r < a.count; ++r) total += (f64)a.z[r * a.step + c];
    a.totals[c] = total;
    a.out[c] = store((A)total);
  }
}

}  // namespace ebb::cuda
