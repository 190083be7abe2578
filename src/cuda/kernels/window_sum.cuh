// SPDX-License-Identifier: MIT
// Sums of windows, kLanes lanes each; and for every element of an image the sum over the windows that cover it, a
// thread each.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/pool.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kLanes = 8;
#endif

using Args = PoolArgs<T, A>;

// Every kLanes-th element of a window, in its order.
EBB A part_of_window(const Args& a, const T* plane, Range down, Range across, int lane) {
  A sum = 0;
  if (kLanes == 1) {
    for (i64 h = down.first; h <= down.last; ++h) {
      for (i64 w = across.first; w <= across.last; ++w) sum += load(plane[h * a.step_h + w * a.step_w]);
    }
    return sum;
  }
  const i64 width = across.last - across.first + 1, taps = (down.last - down.first + 1) * width;
  for (i64 t = lane; t < taps; t += kLanes) {
    const i64 row = quotient(t, width);
    sum += load(plane[(down.first + row) * a.step_h + (across.first + t - row * width) * a.step_w]);
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads) add_windows(const Args a) {
  const int in_warp = threadIdx.x & 31, lane = threadIdx.x & (kLanes - 1);
  for (i64 i = (i64)blockIdx.x * kThreads + threadIdx.x; i - in_warp < a.n * kLanes; i += (i64)gridDim.x * kThreads) {
    const bool live = i < a.n * kLanes;
    const i64 to = live ? i / kLanes : 0;
    const Window at = window_at(to, a.rows, a.columns);
    A sum = part_of_window(a, a.image + plane_offset(a, at.plane), elements_of(a.rows, at.row),
                           elements_of(a.columns, at.column), lane);
#pragma unroll
    for (int d = kLanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (live && lane == 0) a.sums[to] = sum;
  }
}

// A thread has kSpreadEach neighbours, which share the windows' rows while they are in one row.
extern "C" __global__ void __launch_bounds__(kThreads) spread_windows(const Args a) {
  const bool aligned = ((u64)a.image & (sizeof(Pack<T, kSpreadEach>) - 1) & 15) == 0;
  EACH(group, (a.n + kSpreadEach - 1) / kSpreadEach) {
    const i64 first = group * kSpreadEach;
    Window at = element_at(first, a.rows, a.columns);
    Range down = windows_of(a.rows, at.row);
    const A* sums = a.sums + at.plane * a.rows.outputs * a.columns.outputs;
    Pack<T, kSpreadEach> pack;
#pragma unroll
    for (int e = 0; e < kSpreadEach; ++e) {
      if (at.column == a.columns.size) {
        at.column = 0;
        if (++at.row == a.rows.size) at.row = 0, sums += a.rows.outputs * a.columns.outputs;
        down = windows_of(a.rows, at.row);
      }
      A sum = 0;
      if (first + e < a.n) {
        const Range across = windows_of(a.columns, at.column);
        const A* line = sums + down.first * a.columns.outputs;
        for (int p = (int)(down.last - down.first); p >= 0; --p, line += a.columns.outputs) {
          for (P q = across.first; q <= across.last; ++q) sum += line[q];
        }
      }
      pack.set(e, store(sum));
      ++at.column;
    }
    const int live = a.n - first < kSpreadEach ? (int)(a.n - first) : kSpreadEach;
    store_pack<kSpreadEach>(a.image + first, pack, aligned, live, false);
  }
}

}  // namespace ebb::cuda
