// SPDX-License-Identifier: MIT
// What cuSOLVER has factored by columns, by rows, and after the last row which row became which. A block per some rows
// of a matrix; the first of them follows the exchanges.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = PackFactorsArgs<A>;

extern "C" __global__ void __launch_bounds__(kThreads) pack_factors(const Args a) {
  __shared__ A tile[32][kFinishRows + 1];
  DYNAMIC_SHARED(smem);
  i32* const rows = (i32*)smem;
  for (i64 b = blockIdx.x; b < a.count * a.slabs; b += gridDim.x) {
    const i64 m = quotient(b, a.slabs), first = (b - m * a.slabs) * kFinishRows;
    const A* const factors = a.factors + m * a.n * a.n;
    A* const packed = a.packed + m * (a.n + 1) * a.n;
    if (first == 0) {
      const i32* const order = a.order + m * a.n;
      for (i64 i = threadIdx.x; i < a.n; i += kThreads) rows[i] = (i32)i, rows[a.n + i] = order[i] - 1;
      __syncthreads();
      if (threadIdx.x == 0) {
        bool odd = false;
        for (i64 i = 0; i < a.n; ++i) {
          const i32 other = rows[a.n + i], row = rows[i];
          rows[i] = rows[other], rows[other] = row;
          odd ^= other != i;
        }
        rows[a.n] = odd;
      }
      __syncthreads();
      const bool odd = rows[a.n];
      for (i64 i = threadIdx.x; i < a.n; i += kThreads)
        packed[a.n * a.n + i] = (A)(i == 0 && odd ? -(rows[i] + 1) : rows[i] + 1);
      __syncthreads();
    }
    for (i64 left = 0; left < a.n; left += 32) {
      for (int e = threadIdx.x; e < kFinishRows * 32; e += kThreads) {
        const i64 i = first + e % kFinishRows, j = left + e / kFinishRows;
        tile[e / kFinishRows][e % kFinishRows] = i < a.n && j < a.n ? factors[j * a.n + i] : (A)0;
      }
      __syncthreads();
      for (int e = threadIdx.x; e < kFinishRows * 32; e += kThreads) {
        const i64 i = first + e / 32, j = left + e % 32;
        if (i < a.n && j < a.n) packed[i * a.n + j] = tile[e % 32][e / 32];
      }
      __syncthreads();
    }
  }
}

}  // namespace ebb::cuda
