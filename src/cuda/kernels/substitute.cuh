// SPDX-License-Identifier: MIT
// x = a⁻¹·b with a triangular, `upward` if what lies above the diagonal counts. A block takes some columns of b: a row
// is divided by its diagonal, then leaves the rows after it.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = SubstituteArgs<A>;

extern "C" __global__ void __launch_bounds__(kThreads) substitute(const Args a) {
  for (i64 task = blockIdx.x; task < a.a.n * a.tiles; task += gridDim.x) {
    const i64 m = quotient(task, a.tiles), first = (task - m * a.tiles) * kSubstituteColumns;
    const i64 wide = a.k - first < kSubstituteColumns ? a.k - first : kSubstituteColumns;
    const T* const matrix = (const T*)a.a.data + at(a.a, m);
    const T* const b = (const T*)a.b.data + at(a.b, m) + first * a.b_column;
    A* const x = a.x + m * a.n * a.k + first;
    for (i64 e = threadIdx.x; e < a.n * wide; e += kThreads) {
      const i64 i = quotient(e, wide), c = e - i * wide;
      x[i * a.k + c] = load(b[i * a.b_row + c * a.b_column]);
    }
    __syncthreads();
    for (i64 s = 0; s < a.n; ++s) {
      const i64 j = a.upward ? a.n - 1 - s : s;
      A* const solved = x + j * a.k;
      if (!a.unit && threadIdx.x < wide) solved[threadIdx.x] /= load(matrix[j * (a.a_row + a.a_column)]);
      __syncthreads();
      for (i64 e = threadIdx.x; e < (a.n - 1 - s) * wide; e += kThreads) {
        const i64 r = quotient(e, wide), c = e - r * wide, i = a.upward ? r : j + 1 + r;
        x[i * a.k + c] -= load(matrix[i * a.a_row + j * a.a_column]) * solved[c];
      }
      __syncthreads();
    }
  }
}

}  // namespace ebb::cuda
