// SPDX-License-Identifier: MIT
// Σ over listed k and classes i that are not listed of max(0, 1 − x_{y_k} + x_i), and its gradient: a block per row.
#pragma once
#include "cuda/kernels/args/rows.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
#endif

using Args = HingesArgs<T, A, I>;

extern "C" __global__ void __launch_bounds__(kThreads) hinges(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 n = blockIdx.x; n < a.rows; n += gridDim.x) {
    const T* const x = a.x + n * a.x_row;
    const I* const list = a.target + n * a.target_row;
    u8* const listed = a.listed + n * a.classes;
    i64 length = a.classes;  // of the list, which ends at the first -1
    for (i64 k = threadIdx.x; k < a.classes; k += kThreads) {
      listed[k] = 0;
      if (list[k * a.target_step] == -1 && k < length) length = k;
    }
    length = over_block<Least>(length, shared);
    bool wrong = false;
    for (i64 k = threadIdx.x; k < length; k += kThreads) {
      const i64 y = list[k * a.target_step];
      if ((u64)y >= (u64)a.classes) {
        complain(a.complaints, n * a.classes + k, 0, bits_of(y));
        wrong = true;
      }
    }
    if (__syncthreads_or(wrong)) continue;
    for (i64 c = threadIdx.x; c < a.classes; c += kThreads) {
      bool found = false;
      for (i64 k = 0; k < length && !found; ++k) found = list[k * a.target_step] == c;
      listed[c] = found;
    }
    __syncthreads();
    const A scale = a.scale ? a.scale[n * a.scale_step] : (A)1;
    f64 total = 0;
    for (i64 c = threadIdx.x; c < a.classes; c += kThreads) {
      const A here = load(x[c * a.x_step]);
      i64 open = 0;
      if (listed[c]) {  // of each time it is listed
        for (i64 i = 0; a.gradient && i < a.classes; ++i)
          open -= !listed[i] && !(load(x[i * a.x_step]) + ((A)1 - here) <= 0);
        i64 times = 0;
        for (i64 k = 0; a.gradient && k < length; ++k) times += list[k * a.target_step] == c;
        open *= times;
      } else {
        for (i64 k = 0; k < length; ++k) {
          const A hinge = here + ((A)1 - load(x[list[k * a.target_step] * a.x_step]));
          if (hinge <= 0) continue;  // NaN is not
          total += (f64)hinge;
          ++open;
        }
      }
      if (a.gradient) a.gradient[n * a.classes + c] = store(open == 0 ? (A)0 : (A)open * scale);
    }
    total = over_block<Plus>(total, shared);
    if (threadIdx.x == 0) a.sums[n] = (A)total;
  }
}

}  // namespace ebb::cuda
