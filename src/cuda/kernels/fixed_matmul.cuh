// SPDX-License-Identifier: MIT
// Products whose rows do not depend on their batch: every element is one chain of fused multiply-adds in the order of
// k. A block makes a tile, a thread one element in kFixedSide x kFixedSide of it, kWidth rows and columns.
#pragma once
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f32 T;
constexpr int kWidth = 8;
#endif

using Args = FixedMatmulArgs<T>;

constexpr int kTile = kFixedSide * kWidth;
extern "C" __global__ void __launch_bounds__(kThreads) multiply(const Args a) {
  __shared__ T left[kFixedSide][kTile + 1], right[kFixedSide][kTile + 1];
  const int row = threadIdx.x / kFixedSide, column = threadIdx.x % kFixedSide;
  for (i64 tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const i64 of_rows = quotient(tile, a.tiles_n), batch = quotient(of_rows, a.tiles_m);
    const i64 top = (of_rows - batch * a.tiles_m) * kTile, side = (tile - of_rows * a.tiles_n) * kTile;
    const T* const from_a = a.a + batch * a.a_batch;
    const T* const from_b = a.b + batch * a.b_batch;
    T total[kWidth][kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) total[i][j] = 0;
    }
    for (i64 first = 0; first < a.k; first += kFixedSide) {
#pragma unroll
      for (int at = threadIdx.x; at < kFixedSide * kTile; at += kThreads) {
        const int r = a.a_column == 1 ? at / kFixedSide : at % kTile,
                  d = a.a_column == 1 ? at % kFixedSide : at / kTile;
        const int c = a.b_row == 1 ? at / kFixedSide : at % kTile, e = a.b_row == 1 ? at % kFixedSide : at / kTile;
        const bool in_a = top + r < a.m && first + d < a.k, in_b = side + c < a.n && first + e < a.k;
        left[d][r] = in_a ? from_a[(top + r) * a.a_row + (first + d) * a.a_column] : (T)0;
        right[e][c] = in_b ? from_b[(first + e) * a.b_row + (side + c) * a.b_column] : (T)0;
      }
      __syncthreads();
      const int count = a.k - first < kFixedSide ? (int)(a.k - first)
                                                 : kFixedSide;  // a product of padding could change the sign of 0
#pragma unroll 4
      for (int d = 0; d < count; ++d) {
        T x[kWidth], y[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) x[i] = left[d][row + kFixedSide * i];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) y[j] = right[d][column + kFixedSide * j];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
#pragma unroll
          for (int j = 0; j < kWidth; ++j) total[i][j] = fused(x[i], y[j], total[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const i64 r = top + row + kFixedSide * i, c = side + column + kFixedSide * j;
        if (r >= a.m || c >= a.n) continue;
        T* const to = a.c + (batch * a.m + r) * a.n + c;
        *to = a.add ? *to + total[i][j] : total[i][j];
      }
    }
  }
}

}  // namespace ebb::cuda
