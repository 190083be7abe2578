// SPDX-License-Identifier: MIT
// Thresholds τ with Σ max(0, x − τ) = 1, a block per row: what lies below the threshold of the sum so far is dropped
// until nothing does (Michelot, 1986). NaN is never dropped, and makes the threshold NaN. Long rows: long_sparsemax.cuh.
#pragma once
#include "cuda/kernels/args/rows.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = SparsemaxArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) thresholds(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    f64 top = -infinity();
    for (i64 i = threadIdx.x; i < a.length; i += kThreads) top = (f64)x[i * a.step] > top ? (f64)x[i * a.step] : top;
    top = over_block<Most>(top, shared);
    f64 low = -1, threshold = 0;
    for (i64 count = -1;;) {
      f64 sum = 0;
      i64 left = 0;
      for (i64 i = threadIdx.x; i < a.length; i += kThreads) {
        const f64 d = (f64)x[i * a.step] - top;
        if (d <= low) continue;
        sum += d;
        ++left;
      }
      sum = over_block<Plus>(sum, shared);
      left = over_block<Plus>(left, shared);
      // An element at the threshold, up to rounding, may come back: then there are more.
      if ((count >= 0 && left >= count) || left == 0) {
        if (left == 0) threshold = not_a_number();
        break;
      }
      count = left;
      threshold = low = (sum - 1) / (f64)left;
    }
    if (threadIdx.x == 0) a.out[line] = (T)(threshold + top);
  }
}

}  // namespace ebb::cuda
