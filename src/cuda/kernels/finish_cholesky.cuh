// SPDX-License-Identifier: MIT
// The lower triangle of what cuSOLVER has factored, zeros above it, and a complaint where a minor is not positive: its
// verdict, or a NaN on the diagonal. A block per some rows of a matrix.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FinishCholeskyArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) finish_cholesky(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 b = blockIdx.x; b < a.count * a.slabs; b += gridDim.x) {
    const i64 m = quotient(b, a.slabs), first = (b - m * a.slabs) * kFinishRows;
    const i64 end = first + kFinishRows < a.n ? first + kFinishRows : a.n;
    const A* const work = a.work + m * a.n * a.n;
    T* const out = a.out + m * a.n * a.n;
    if (first == 0) {
      i64 bad = a.info[m] > 0 ? (i64)a.info[m] : a.n + 1;
      for (i64 j = threadIdx.x; j < a.n; j += kThreads) {
        if (work[j * a.n + j] != work[j * a.n + j] && j + 1 < bad) bad = j + 1;
      }
      bad = over_block<Least>(bad, shared);
      if (bad <= a.n && threadIdx.x == 0) complain(a.complaints, m, 0, bits_of(bad));
    }
    for (i64 e = first * a.n + threadIdx.x; e < end * a.n; e += kThreads) {
      const i64 i = quotient(e, a.n), j = e - i * a.n;
      out[e] = store(j <= i ? work[e] : (A)0);
    }
  }
}

}  // namespace ebb::cuda
