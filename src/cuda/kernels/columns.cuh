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

extern "C" __global__ void __launch_bounds__(kThreads) lay_out(const Args a) {
  const Windows& z = a.windows;
  EACH(i, a.n) {
    i64 rest = quotient(i, z.columns);
    const i64 q = i - rest * z.columns;
    i64 next = quotient(rest, z.rows);
    const i64 p = rest - next * z.rows;
    rest = next;
    i64 image = 0;
    if (a.images_inside) {
      next = quotient(rest, a.images);
      image = rest - next * a.images;
      rest = next;
    }
    next = quotient(rest, z.taps_w);
    const i64 s = rest - next * z.taps_w;
    rest = next;
    next = quotient(rest, z.taps_h);
    const i64 r = rest - next * z.taps_h;
    rest = next;  // c, and the group outside of it
    const i64 all = z.groups * z.channels;
    if (!a.images_inside) {
      image = quotient(rest, all);
      rest -= image * all;
    }
    const i64 h = p * z.stride_h + r * z.dilation_h - z.padding_h, w = q * z.stride_w + s * z.dilation_w - z.padding_w;
    const bool inside = h >= 0 && h < z.height && w >= 0 && w < z.width;
    a.col[i] = inside ? a.x[image * a.step_n + rest * a.step_c + h * a.step_h + w * a.step_w] : (T)0;
  }
}

}  // namespace ebb::cuda
