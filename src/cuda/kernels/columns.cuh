// SPDX-License-Identifier: MIT
// The elements that windows look at, laid out as columns: col[n, g, (c, r, s), (p, q)] of dense memory, or
// col[g, (c, r, s), n, (p, q)] where images are part of the sum.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u32 T;
#endif

using Args = ColumnsArgs<T>;

// A thread has all taps of a position of one channel: neighbours read and write neighbours.
extern "C" __global__ void __launch_bounds__(kThreads) lay_out(const Args a) {
  const Windows& z = a.windows;
  const i64 all = z.groups * z.channels, places = z.rows * z.columns;
  const i64 step = a.images_inside ? a.images * places : places, taps = z.taps_h * z.taps_w;
  EACH(i, a.n) {
    const i64 line = quotient(i, z.columns), plane = quotient(line, z.rows), image = quotient(plane, all);
    const i64 q = i - line * z.columns, p = line - plane * z.rows, c = plane - image * all;
    const T* const x = a.x + image * a.step_n + c * a.step_c;
    T* col = a.col + (a.images_inside ? c * taps * a.images + image : plane * taps) * places + p * z.columns + q;
    i64 h = p * z.stride_h - z.padding_h;
    for (i64 r = 0; r < z.taps_h; ++r, h += z.dilation_h) {
      i64 w = q * z.stride_w - z.padding_w;
#pragma unroll 4
      for (i64 s = 0; s < z.taps_w; ++s, w += z.dilation_w, col += step) {
        const bool inside = h >= 0 && h < z.height && w >= 0 && w < z.width;
        *col = inside ? x[h * a.step_h + w * a.step_w] : (T)0;
      }
    }
  }
}

}  // namespace ebb::cuda
