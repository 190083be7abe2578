// SPDX-License-Identifier: MIT
// Where in its plane each window's first largest element lies; NaN is larger than any number. A thread per window.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = MaxPoolArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) largest(const Args a) {
  EACH(i, a.n) {
    i64 rest = quotient(i, a.columns);
    const i64 left = (i - rest * a.columns) * a.stride_w - a.padding_w;
    i64 next = quotient(rest, a.rows);
    const i64 top = (rest - next * a.rows) * a.stride_h - a.padding_h;
    const i64 image = quotient(next, a.channels), channel = next - image * a.channels;
    const T* const plane = a.x + image * a.step_n + channel * a.step_c;
    i64 place = -1;
    A best = 0;
    for (i64 r = 0; r < a.taps_h; ++r) {
      const i64 h = top + r * a.dilation_h;
      if (h < 0 || h >= a.height) continue;
      for (i64 s = 0; s < a.taps_w; ++s) {
        const i64 w = left + s * a.dilation_w;
        if (w < 0 || w >= a.width) continue;
        const A y = load(plane[h * a.step_h + w * a.step_w]);
        if (place < 0 || (best == best && (y > best || y != y))) best = y, place = h * a.width + w;
      }
    }
    a.out[i] = place;
  }
}

}  // namespace ebb::cuda
