// SPDX-License-Identifier: MIT
// a = L·Lᵀ by columns, kept by columns while it is made, a block per matrix. Only the lower triangle of a is read.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = CholeskyArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) cholesky(const Args a) {
  const i64 n = a.n;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    A* const work = a.work + m * n * n;
    for (i64 j = 0; j < n; ++j) {
      for (i64 i = j + threadIdx.x; i < n; i += kThreads) {
        A s = load(from[i * a.row + j * a.column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= work[l * n + i] * work[l * n + j];
        work[j * n + i] = s;
      }
      __syncthreads();
      const A square = work[j * n + j];
      __syncthreads();
      if (!(square > 0)) {
        if (threadIdx.x == 0) complain(a.complaints, m, 0, bits_of(j + 1));
        break;
      }
      const A root = (A)sqrt((f64)square);
      for (i64 i = j + threadIdx.x; i < n; i += kThreads) work[j * n + i] = i == j ? root : work[j * n + i] / root;
      __syncthreads();
    }
    for (i64 e = threadIdx.x; e < n * n; e += kThreads) {
      const i64 i = quotient(e, n), j = e - i * n;
      a.out[m * n * n + e] = store(j <= i ? work[j * n + i] : (A)0);
    }
  }
}

}  // namespace ebb::cuda
