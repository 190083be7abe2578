// SPDX-License-Identifier: MIT
// x = a⁻¹·b with a triangular, `upward` if what lies above the diagonal counts. A block takes some columns of b, and 32
// rows at a time: warps solve those for their columns, a lane per row, then all threads take their products from the
// rows that are left. Of small matrices a thread has a column.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kColumns = 32;  // of a block
#endif

using Args = SubstituteArgs<A>;

constexpr int kTileRows = 64, kGroups = kThreads / kColumns, kEach = kTileRows / kGroups;
constexpr int kOwn = kColumns / (kThreads / 32);  // columns of a warp

extern "C" __global__ void __launch_bounds__(kThreads) substitute(const Args a) {
  __shared__ A diagonal[kPanel][kPanel + 1], solved[kPanel][kColumns + 1], tile[kTileRows][kPanel + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = threadIdx.x % kColumns, group = threadIdx.x / kColumns;
  for (i64 task = blockIdx.x; task < a.a.n * a.tiles; task += gridDim.x) {
    const i64 m = quotient(task, a.tiles), first = (task - m * a.tiles) * kColumns;
    const int wide = a.k - first < kColumns ? (int)(a.k - first) : kColumns;
    const T* const matrix = (const T*)a.a.data + at(a.a, m);
    const T* const b = (const T*)a.b.data + at(a.b, m) + first * a.b_column;
    A* const x = a.x + m * a.n * a.k + first;
    for (i64 i = group; i < a.n; i += kGroups) {
      if (column < wide) x[i * a.k + column] = load(b[i * a.b_row + column * a.b_column]);
    }
    __syncthreads();
    for (i64 done = 0; done < a.n; done += kPanel) {
      const int rows = a.n - done < kPanel ? (int)(a.n - done) : kPanel;
      const i64 top = a.upward ? a.n - done - rows : done;
      for (int e = threadIdx.x; e < kPanel * kPanel; e += kThreads) {
        const int i = e / kPanel, j = e % kPanel;
        diagonal[i][j] = i < rows && j < rows ? load(matrix[(top + i) * a.a_row + (top + j) * a.a_column]) : (A)1;
      }
      for (int i = group; i < kPanel; i += kGroups)
        solved[i][column] = i < rows && column < wide ? x[(top + i) * a.k + column] : (A)0;
      __syncthreads();
      const A divisor = a.unit ? (A)1 : diagonal[lane][lane];
      A own[kOwn];
#pragma unroll
      for (int c = 0; c < kOwn; ++c) own[c] = solved[lane][warp * kOwn + c];
      for (int s = 0; s < rows; ++s) {
        const int r = a.upward ? rows - 1 - s : s;
        const A factor = diagonal[lane][r];
        const bool is_left = a.upward ? lane < r : lane > r;
#pragma unroll
        for (int c = 0; c < kOwn; ++c) {
          const A y = __shfl_sync(0xffffffffu, own[c] / divisor, r);
          own[c] = lane == r ? y : is_left ? fused(-factor, y, own[c]) : own[c];
        }
      }
#pragma unroll
      for (int c = 0; c < kOwn; ++c) solved[lane][warp * kOwn + c] = own[c];
      __syncthreads();
      for (int i = group; i < rows; i += kGroups) {
        if (column < wide) x[(top + i) * a.k + column] = solved[i][column];
      }
      // Rows are left only while panels are whole.
      const i64 end = a.upward ? top : a.n;
      for (i64 i0 = a.upward ? 0 : done + rows; i0 < end; i0 += kTileRows) {
        const bool by_rows = a.a_column <= a.a_row;
        for (int e = threadIdx.x; e < kTileRows * kPanel; e += kThreads) {
          const int i = by_rows ? e / kPanel : e % kTileRows, j = by_rows ? e % kPanel : e / kTileRows;
          tile[i][j] = i0 + i < end ? load(matrix[(i0 + i) * a.a_row + (top + j) * a.a_column]) : (A)0;
        }
        A sums[kEach];
#pragma unroll
        for (int g = 0; g < kEach; ++g) {
          const i64 i = i0 + group + g * kGroups;
          sums[g] = i < end && column < wide ? x[i * a.k + column] : (A)0;
        }
        __syncthreads();
#pragma unroll 8
        for (int r = 0; r < kPanel; ++r) {
          const A y = solved[r][column];
#pragma unroll
          for (int g = 0; g < kEach; ++g) sums[g] = fused(-tile[group + g * kGroups][r], y, sums[g]);
        }
#pragma unroll
        for (int g = 0; g < kEach; ++g) {
          const i64 i = i0 + group + g * kGroups;
          if (i < end && column < wide) x[i * a.k + column] = sums[g];
        }
        __syncthreads();
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) substitute_few(const Args a) {
  EACH(task, a.a.n * a.k) {
    const i64 m = quotient(task, a.k), c = task - m * a.k;
    const T* const matrix = (const T*)a.a.data + at(a.a, m);
    const T* const b = (const T*)a.b.data + at(a.b, m) + c * a.b_column;
    A* const to = a.x + m * a.n * a.k + c;
    const int n = (int)a.n;
    A x[kFewRows];
#pragma unroll
    for (int s = 0; s < kFewRows; ++s) {
      if (s >= n) break;
      const int i = a.upward ? n - 1 - s : s;
      A y = load(b[i * a.b_row]);
#pragma unroll
      for (int r = 0; r < s; ++r)
        y = fused(-load(matrix[i * a.a_row + (a.upward ? n - 1 - r : r) * a.a_column]), x[r], y);
      x[s] = a.unit ? y : y / load(matrix[i * (a.a_row + a.a_column)]);
      to[i * a.k] = x[s];
    }
  }
}

}  // namespace ebb::cuda
