// SPDX-License-Identifier: MIT
// Copies the elements of a view in words of type T.
#pragma once
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef Words4 T;
#endif

extern "C" __global__ void __launch_bounds__(kThreads) copy(const CopyArgs a) {
  constexpr int kLoads = 4;  // in flight
  for (i64 first = (i64)blockIdx.x * kLoads * kThreads + threadIdx.x; first < a.to.n;
       first += (i64)gridDim.x * kLoads * kThreads) {
    T x[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (first + k * kThreads < a.to.n) x[k] = ((const T*)a.from.data)[at(a.from, first + k * kThreads)];
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (first + k * kThreads < a.to.n) put((T*)a.to.data + at(a.to, first + k * kThreads), x[k]);
    }
  }
}

}  // namespace ebb::cuda
