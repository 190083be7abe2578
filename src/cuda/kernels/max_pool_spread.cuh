// SPDX-License-Identifier: MIT
// Gradients to what max_pool_index found, in planes: a thread has kSpreadEach neighbours, which look at the windows
// that may contain them. Windows add in their order.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/pool.cuh"

namespace ebb::cuda {

using Args = SpreadInPlanesArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) spread_in_planes(const Args a) {
  const bool aligned = ((u64)a.x & (sizeof(Pack<T, kSpreadEach>) - 1) & 15) == 0;
  EACH(group, (a.n + kSpreadEach - 1) / kSpreadEach) {
    const i64 first = group * kSpreadEach;
    Window at = element_at(first, a.rows, a.columns);
    Range down = windows_near(a.rows, at.row);
    i64 plane = at.plane * a.rows.outputs * a.columns.outputs;
    Pack<T, kSpreadEach> pack;
#pragma unroll
    for (int e = 0; e < kSpreadEach; ++e) {
      if (at.column == a.columns.size) {
        at.column = 0;
        if (++at.row == a.rows.size) at.row = 0, plane += a.rows.outputs * a.columns.outputs;
        down = windows_near(a.rows, at.row);
      }
      A sum = 0;
      if (first + e < a.n) {
        const Range across = windows_near(a.columns, at.column);
        const i64 own = (i64)at.row * a.columns.size + at.column;
        for (P p = down.first; p <= down.last; ++p) {
          const i64 line = plane + p * a.columns.outputs;
          for (P q = across.first; q <= across.last; ++q) {
            if (a.places[line + q] == own) sum += load(a.g[line + q]);
          }
        }
      }
      pack.set(e, store(sum));
      ++at.column;
    }
    const int live = a.n - first < kSpreadEach ? (int)(a.n - first) : kSpreadEach;
    store_pack<kSpreadEach>(a.x + first, pack, aligned, live, false);
  }
}

}  // namespace ebb::cuda
