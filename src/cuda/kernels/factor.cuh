// SPDX-License-Identifier: MIT
// P·a = L·U by columns with partial pivoting, a block per matrix: column j of L, then row j of U. Rows stay where they
// are and `order` says which of them has which place. L is stored by columns and U by rows, beside it L⁻¹·P·b:
// neighbouring threads read neighbours in both.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FactorArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) factor(const Args a) {
  __shared__ u64 shared[kThreads];
  const i64 n = a.n, width = a.n + a.k;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    const T* const right = (const T*)a.b.data + at(a.b, m);
    A* const lower = a.lower + m * n * n;
    A* const upper = a.upper + m * n * width;
    i64* const order = a.order + m * n;
    for (i64 i = threadIdx.x; i < n; i += kThreads) order[i] = i;
    __syncthreads();
    f64 sign = 1, logarithm = 0, product = 1;
    for (i64 j = 0; j < n; ++j) {
      f64 most = -1;
      i64 place = n;
      for (i64 p = j + threadIdx.x; p < n; p += kThreads) {
        const i64 i = order[p];
        A s = load(from[i * a.a_row + j * a.a_column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= lower[l * n + i] * upper[l * width + j];
        lower[j * n + i] = s;
        const f64 size = s != s ? infinity() : fabs((f64)s);
        if (size > most) {
          most = size;
          place = p;
        }
      }
      const f64 top = over_block<Most>(most, shared);
      place = over_block<Least>(most == top ? place : n, shared);
      if (threadIdx.x == 0) {
        const i64 i = order[j];
        order[j] = order[place];
        order[place] = i;
      }
      __syncthreads();
      const i64 row = order[j];
      const A pivot = lower[j * n + row];
      if (a.needs_inverse && pivot == 0) {
        if (threadIdx.x == 0) complain(a.complaints, m, 0, bits_of(j + 1));
        break;
      }
      if (pivot < 0) sign = -sign;
      if (place != j) sign = -sign;
      if (pivot == 0) sign = 0;
      logarithm += log(fabs((f64)pivot));
      product *= place != j ? -(f64)pivot : (f64)pivot;
      for (i64 p = j + 1 + threadIdx.x; p < n; p += kThreads) {
        if (pivot != 0) lower[j * n + order[p]] /= pivot;
      }
      for (i64 c = j + threadIdx.x; c < width; c += kThreads) {
        A s = c < n ? load(from[row * a.a_row + c * a.a_column]) : load(right[row * a.b_row + (c - n) * a.b_column]);
#pragma unroll 4
        for (i64 l = 0; l < j; ++l) s -= lower[l * n + row] * upper[l * width + c];
        upper[j * width + c] = s;
      }
      __syncthreads();
    }
    if (a.determinant && threadIdx.x == 0)
      a.determinant[m] = store((A)(a.logarithm ? (sign < 0 ? not_a_number() : logarithm) : product));
  }
}

}  // namespace ebb::cuda
