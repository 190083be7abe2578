// SPDX-License-Identifier: MIT
// gather, and index_select of slices that do not lie densely.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef Words4 T;
#endif

using Args = GatherArgs<T>;

// A thread has several elements, so that as many loads are in flight: each waits for that of its index.
extern "C" __global__ void __launch_bounds__(kThreads) gather(const Args a) {
  constexpr int kEach = kGatherEach;
  const i64 n = a.index.n;
  for (i64 first = (i64)blockIdx.x * kThreads * kEach + threadIdx.x; first < n;
       first += (i64)gridDim.x * kThreads * kEach) {
    i64 where[kEach];
    T x[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const i64 i = first + k * kThreads;
      where[k] = i < n ? (i64)((const I*)a.index.data)[at(a.index, i)] : 0;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const i64 i = first + k * kThreads;
      if (i < n && (u64)where[k] < (u64)a.size) x[k] = ((const T*)a.x.data)[at(a.x, i) + where[k] * a.x_step];
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const i64 i = first + k * kThreads;
      if (i >= n) break;
      if ((u64)where[k] < (u64)a.size) {
        put(a.out + i, x[k]);
      } else {
        const i64 outer = a.inner ? quotient(i, a.inner) : 0;
        complain(a.complaints, a.inner ? outer - quotient(outer, a.length) * a.length : i, 0, bits_of(where[k]));
      }
    }
  }
}

}  // namespace ebb::cuda
