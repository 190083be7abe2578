// SPDX-License-Identifier: MIT
// conv_transpose and fold: each element of x adds up those of the columns that are it.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef A C;  // a column's element
EBB A of_column(C x) { return x; }
#endif

using Args = AddUpArgs<T, C>;

extern "C" __global__ void __launch_bounds__(kThreads) add_up(const Args a) {
  const Windows& z = a.windows;
  EACH(i, a.n) {
    i64 rest = quotient(i, z.width);
    const i64 w = i - rest * z.width + z.padding_w;
    const i64 c = quotient(rest, z.height), h = rest - c * z.height + z.padding_h;  // c: image, group and channel
    A total = 0;
    for (i64 r = 0; r < z.taps_h; ++r) {
      const i64 down = h - r * z.dilation_h;
      if (down < 0) break;
      const i64 p = quotient(down, z.stride_h);
      if (p * z.stride_h != down || p >= z.rows) continue;
      for (i64 s = 0; s < z.taps_w; ++s) {
        const i64 across = w - s * z.dilation_w;
        if (across < 0) break;
        const i64 q = quotient(across, z.stride_w);
        if (q * z.stride_w != across || q >= z.columns) continue;
        total += of_column(a.col[(((c * z.taps_h + r) * z.taps_w + s) * z.rows + p) * z.columns + q]);
      }
    }
    a.x[i] = store(total);
  }
}

}  // namespace ebb::cuda
