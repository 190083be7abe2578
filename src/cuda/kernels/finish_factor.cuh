// SPDX-License-Identifier: MIT
// The determinant of what cuSOLVER has factored, and a complaint where a pivot is 0 and an inverse is wanted. A block
// per matrix.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FinishFactorArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) finish_factor(const Args a) {
  __shared__ f64 products[kThreads], logarithms[kThreads], signs[kThreads];
  for (i64 m = blockIdx.x; m < a.count; m += gridDim.x) {
    if (a.needs_inverse && a.info[m] > 0 && threadIdx.x == 0) complain(a.complaints, m, 0, bits_of((i64)a.info[m]));
    if (!a.determinant) continue;
    f64 product = 1, logarithm = 0, sign = 1;
    for (i64 j = threadIdx.x; j < a.n; j += kThreads) {
      const f64 pivot = (f64)a.factors[m * a.n * a.n + j * (a.n + 1)];
      const bool exchanged = (i64)a.order[m * a.n + j] != j + 1;
      product *= exchanged ? -pivot : pivot;
      logarithm += log(fabs(pivot));
      if ((pivot < 0) != exchanged) sign = -sign;
      if (pivot == 0) sign = 0;
    }
    products[threadIdx.x] = product, logarithms[threadIdx.x] = logarithm, signs[threadIdx.x] = sign;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int t = 1; t < kThreads; ++t) product *= products[t], logarithm += logarithms[t], sign *= signs[t];
      a.determinant[m] = store((A)(a.logarithm ? (sign < 0 ? not_a_number() : logarithm) : product));
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
