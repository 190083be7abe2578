// SPDX-License-Identifier: MIT
// x = a⁻¹·b with a triangular, `upward` if what lies above the diagonal counts. A block takes some columns of b, and 32
// rows at a time, a lane per row: its products with the rows before are taken from it, then the square on the diagonal
// is solved. Neither the columns of a block nor anything else decides the order of an element's terms. Of small
// matrices a thread has a column.
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

constexpr int kBefore = 512 / (int)sizeof(A);     // rows before, at a time
constexpr int kOfTile = kPanel * kBefore / kThreads;  // elements that a thread copies
constexpr int kOwn = kColumns / (kThreads / 32);  // columns of a warp

extern "C" __global__ void __launch_bounds__(kThreads) substitute(const Args a) {
  __shared__ A diagonal[kPanel][kPanel + 1], tile[kPanel][kBefore + 1], before[kBefore][kColumns];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool by_rows = a.a_column <= a.a_row;
  for (i64 task = blockIdx.x; task < a.a.n * a.tiles; task += gridDim.x) {
    const i64 m = quotient(task, a.tiles), first = (task - m * a.tiles) * kColumns;
    const int wide = a.k - first < kColumns ? (int)(a.k - first) : kColumns;
    const T* const matrix = (const T*)a.a.data + at(a.a, m);
    const T* const b = (const T*)a.b.data + at(a.b, m) + first * a.b_column;
    A* const x = a.x + m * a.n * a.k + first;
    for (i64 done = 0; done < a.n; done += kPanel) {
      const int rows = a.n - done < kPanel ? (int)(a.n - done) : kPanel;
      const i64 top = a.upward ? a.n - done - rows : done;
      A own[kOwn];
#pragma unroll
      for (int c = 0; c < kOwn; ++c) {
        const int column = warp * kOwn + c;
        own[c] = lane < rows && column < wide ? load(b[(top + lane) * a.b_row + column * a.b_column]) : (A)0;
      }
      for (int e = threadIdx.x; e < kPanel * kPanel; e += kThreads) {
        const int i = by_rows ? e / kPanel : e % kPanel, j = by_rows ? e % kPanel : e / kPanel;
        diagonal[i][j] = i < rows && j < rows ? load(matrix[(top + i) * a.a_row + (top + j) * a.a_column]) : (A)1;
      }
      // Panels before this one are whole. What a thread copies to the tile is on its way one tile ahead.
      const auto row = [&](i64 step) {
        const i64 panel = step / kPanel * kPanel;
        return a.upward ? a.n - panel - kPanel + (step - panel) : step;
      };
      T ahead[kOfTile];
      const auto fetch = [&](i64 start) {
#pragma unroll
        for (int k = 0; k < kOfTile; ++k) {
          const int e = threadIdx.x + k * kThreads;
          const int i = by_rows ? e / kBefore : e % kPanel, s = by_rows ? e % kBefore : e / kPanel;
          ahead[k] =
              i < rows && start + s < done ? matrix[(top + i) * a.a_row + row(start + s) * a.a_column] : (T)0;
        }
      };
      fetch(0);
      for (i64 start = 0; start < done; start += kBefore) {
        const int some = done - start < kBefore ? (int)(done - start) : kBefore;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kOfTile; ++k) {
          const int e = threadIdx.x + k * kThreads;
          const int i = by_rows ? e / kBefore : e % kPanel, s = by_rows ? e % kBefore : e / kPanel;
          tile[i][s] = load(ahead[k]);
        }
#pragma unroll
        for (int k = 0; k < kBefore * kColumns / kThreads; ++k) {
          const int e = threadIdx.x + k * kThreads, s = e / kColumns, c = e % kColumns;
          before[s][c] = s < some && c < wide ? x[row(start + s) * a.k + c] : (A)0;
        }
        fetch(start + kBefore);
        __syncthreads();
#pragma unroll 8
        for (int s = 0; s < some; ++s) {
          const A factor = -tile[lane][s];
#pragma unroll
          for (int c = 0; c < kOwn; ++c) own[c] = fused(factor, before[s][warp * kOwn + c], own[c]);
        }
      }
      __syncthreads();
      const A divisor = a.unit ? (A)1 : diagonal[lane][lane];
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
      for (int c = 0; c < kOwn; ++c) {
        if (lane < rows && warp * kOwn + c < wide) x[(top + lane) * a.k + warp * kOwn + c] = own[c];
      }
      __syncthreads();
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
