// SPDX-License-Identifier: MIT
// The lower triangle of what cuSOLVER has factored by columns, by rows, zeros above it, and a complaint where a minor
// is not positive: its verdict, or a NaN on the diagonal. A block per some rows of a matrix.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FinishCholeskyArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) finish_cholesky(const Args a) {
  __shared__ u64 shared[kThreads];
  __shared__ A tile[kFinishRows][33];
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
    for (i64 left = 0; left < a.n; left += 32) {  // neighbours of a column are read, those of a row written
      __syncthreads();
      for (int e = threadIdx.x; e < kFinishRows * 32; e += kThreads) {
        const i64 i = first + e % kFinishRows, j = left + e / kFinishRows;
        if (i < end && j <= i) tile[e % kFinishRows][e / kFinishRows] = work[j * a.n + i];
      }
      __syncthreads();
      for (int e = threadIdx.x; e < kFinishRows * 32; e += kThreads) {
        const i64 i = first + e / 32, j = left + e % 32;
        if (i < end && j < a.n) out[i * a.n + j] = store(j <= i ? tile[e / 32][e % 32] : (A)0);
      }
    }
  }
}

}  // namespace ebb::cuda
