// SPDX-License-Identifier: MIT
// Where in its plane each window's first largest element lies; NaN is larger than any number. A thread per window, or
// kLanes of a large one.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/pool.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kLanes = 32;
#endif

using Args = PoolArgs<T, A>;

// An element, and which of its window it is.
struct Tap {
  A x;
  u32 number;
};
EBB Tap larger_tap(Tap a, Tap b) {
  const bool first = b.number < a.number, nan = a.x != a.x;
  return b.x != b.x ? (nan && !first ? a : b) : !nan && (b.x > a.x || (b.x == a.x && first)) ? b : a;
}

extern "C" __global__ void __launch_bounds__(kThreads) largest(const Args a) {
  const i64 down_step = a.rows.dilation * a.step_h, step = a.columns.dilation * a.step_w;
  EACH(i, a.n) {
    const Window at = window_at(i, a.rows, a.columns);
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

extern "C" __global__ void __launch_bounds__(kThreads) largest_by_lanes(const Args a) {
  __shared__ Tap best_of[kThreads];
  constexpr int kWindows = kThreads / kLanes;  // of a block
  const int lane = threadIdx.x % kLanes;
  for (i64 group = blockIdx.x; group * kWindows < a.n; group += gridDim.x) {
    const i64 i = group * kWindows + threadIdx.x / kLanes;
    Tap best{-(A)infinity(), ~0u};
    if (i < a.n) {
      const Window at = window_at(i, a.rows, a.columns);
      const Taps down = taps_of(a.rows, at.row), across = taps_of(a.columns, at.column);
      const T* const plane = a.image + plane_offset(a, at.plane);
      const u32 width = (u32)across.count, taps = (u32)down.count * width;
      const auto row_of = [&](u32 row) { return down.first + row * a.rows.dilation; };
      const auto column_of = [&](u32 column) { return across.first + column * a.columns.dilation; };
#pragma unroll 4
      for (u32 t = lane; t < taps; t += kLanes) {
        const u32 row = t / width;
        best = larger_tap(best, {load(plane[row_of(row) * a.step_h + column_of(t - row * width) * a.step_w]), t});
      }
    }
#pragma unroll
    for (int left = kLanes / 2; left > 0; left /= 2) {
      best_of[threadIdx.x] = best;
      __syncthreads();
      if (lane < left) best = larger_tap(best, best_of[threadIdx.x + left]);
      __syncthreads();
    }
    if (i < a.n && lane == 0) {
      const Window at = window_at(i, a.rows, a.columns);
      const Taps down = taps_of(a.rows, at.row), across = taps_of(a.columns, at.column);
      const u32 row = best.number / (u32)across.count;
      a.places[i] = (down.first + row * a.rows.dilation) * a.columns.size + across.first +
                    (best.number - row * (u32)across.count) * a.columns.dilation;
    }
  }
}

}  // namespace ebb::cuda
