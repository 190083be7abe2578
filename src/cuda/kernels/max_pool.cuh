// SPDX-License-Identifier: MIT
// Where in its plane each window's first largest element lies; NaN is larger than any number. A thread per window.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/pool.cuh"

namespace ebb::cuda {

using Args = PoolArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) largest(const Args a) {
  const i64 down_step = a.rows.dilation * a.step_h, step = a.columns.dilation * a.step_w;
  EACH(i, a.n) {
    const Window at = window_at(i, a.rows.outputs, a.columns.outputs);
    const Taps down = taps_of(a.rows, at.row), across = taps_of(a.columns, at.column);
    const T* line = a.image + plane_offset(a, at.plane) + down.first * a.step_h + across.first * a.step_w;
    A best = load(*line);
    int best_row = 0, best_column = 0;
    for (int r = 0; r < down.count; ++r, line += down_step) {
      const T* x = line;
#pragma unroll 4
      for (int s = 0; s < across.count; ++s, x += step) {
        const A y = load(*x);
        if (best == best && (y > best || y != y)) best = y, best_row = r, best_column = s;
      }
    }
    a.places[i] =
        (down.first + best_row * a.rows.dilation) * a.columns.size + across.first + best_column * a.columns.dilation;
  }
}

}  // namespace ebb::cuda
