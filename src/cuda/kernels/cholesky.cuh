// SPDX-License-Identifier: MIT
// a = L·Lᵀ, 32 columns at a time, a block per matrix: the square on the diagonal, the rows below it (a thread has a
// row), then their products are taken from what is left. Only the lower triangle of a is read. Of small matrices a
// thread has one.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = CholeskyArgs<T, A>;

constexpr int kRows = 128, kTile = kRows / 2, kSide = 16, kEach = kTile / kSide;
constexpr int kWarps = kThreads / 32, kOwn = kPanel / kWarps;
static_assert(kSide * kSide == kThreads);

EBB A root_of(A square) { return (A)sqrt((f64)square); }

extern "C" __global__ void __launch_bounds__(kThreads) cholesky(const Args a) {
  __shared__ A square[kPanel][kPanel + 1], rows[kRows][kPanel + 1];
  const i64 n = a.n;
  const int side = threadIdx.x % kSide, high = threadIdx.x / kSide, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    A* const work = a.work + m * n * n;
    for (i64 i = warp; i < n; i += kWarps) {
      for (i64 j = lane; j <= i; j += 32) work[i * n + j] = load(from[i * a.row + j * a.column]);
    }
    __syncthreads();
    i64 bad = 0;  // the minor that is not positive, from 1 on
    for (i64 top = 0; top < n && !bad; top += kPanel) {
      const int count = n - top < kPanel ? (int)(n - top) : kPanel;
      A own[kOwn];  // of the square: rows warp, warp + 8, ...
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        const int i = warp + k * kWarps;
        own[k] = i < count && lane <= i ? work[(top + i) * n + top + lane] : (A)0;
        square[i][lane] = own[k];
      }
      __syncthreads();
      // Columns are divided by their roots at the end, all at once.
      for (int r = 0; r < count; ++r) {
        const A pivot = square[r][r], factor = square[lane][r] / pivot;
        if (!(pivot > 0)) {
          bad = top + r + 1;
          break;
        }
        A x[kOwn];
#pragma unroll
        for (int k = 0; k < kOwn; ++k) x[k] = square[warp + k * kWarps][r];
#pragma unroll
        for (int k = 0; k < kOwn; ++k) {
          if (lane <= r || lane > warp + k * kWarps) continue;
          own[k] = fused(-x[k], factor, own[k]);
          square[warp + k * kWarps][lane] = own[k];
        }
        __syncthreads();
      }
      if (bad) break;
      const A root = root_of(square[lane][lane]);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        const int i = warp + k * kWarps;
        const A scaled = i == lane ? root : own[k] / root;
        square[i][lane] = scaled;
        if (i < count && lane <= i) work[(top + i) * n + top + lane] = scaled;
      }
      __syncthreads();
      for (i64 first = top + kPanel; first < n; first += kRows) {
        for (int e = threadIdx.x; e < kRows * kPanel; e += kThreads) {
          const int i = e / kPanel, j = e % kPanel;
          rows[i][j] = first + i < n ? work[(first + i) * n + top + j] : (A)0;
        }
        __syncthreads();
        if (threadIdx.x < kRows) {
          A x[kPanel];
#pragma unroll
          for (int r = 0; r < kPanel; ++r) x[r] = rows[threadIdx.x][r];
#pragma unroll
          for (int r = 0; r < kPanel; ++r) {
            x[r] /= square[r][r];
#pragma unroll
            for (int q = r + 1; q < kPanel; ++q) x[q] = fused(-square[q][r], x[r], x[q]);
          }
#pragma unroll
          for (int r = 0; r < kPanel; ++r) rows[threadIdx.x][r] = x[r];
        }
        __syncthreads();
        for (int e = threadIdx.x; e < kRows * kPanel; e += kThreads) {
          const int i = e / kPanel, j = e % kPanel;
          if (first + i < n) work[(first + i) * n + top + j] = rows[i][j];
        }
        __syncthreads();
      }
      for (i64 below = top + kPanel; below < n; below += kTile) {
        for (i64 left = top + kPanel; left <= below; left += kTile) {
          for (int e = threadIdx.x; e < kRows * kPanel; e += kThreads) {
            const int i = e / kPanel, j = e % kPanel;
            const i64 row = i < kTile ? below + i : left + i - kTile;
            rows[i][j] = row < n ? work[row * n + top + j] : (A)0;
          }
          A sums[kEach][kEach];
#pragma unroll
          for (int g = 0; g < kEach; ++g) {
#pragma unroll
            for (int h = 0; h < kEach; ++h) {
              const i64 i = below + high + g * kSide, j = left + side + h * kSide;
              sums[g][h] = i < n && j <= i ? work[i * n + j] : (A)0;
            }
          }
          __syncthreads();
#pragma unroll 4
          for (int r = 0; r < kPanel; ++r) {
            A x[kEach], y[kEach];
#pragma unroll
            for (int g = 0; g < kEach; ++g) x[g] = rows[high + g * kSide][r], y[g] = rows[kTile + side + g * kSide][r];
#pragma unroll
            for (int g = 0; g < kEach; ++g) {
#pragma unroll
              for (int h = 0; h < kEach; ++h) sums[g][h] = fused(-x[g], y[h], sums[g][h]);
            }
          }
#pragma unroll
          for (int g = 0; g < kEach; ++g) {
#pragma unroll
            for (int h = 0; h < kEach; ++h) {
              const i64 i = below + high + g * kSide, j = left + side + h * kSide;
              if (i < n && j <= i) work[i * n + j] = sums[g][h];
            }
          }
          __syncthreads();
        }
      }
    }
    if (bad && threadIdx.x == 0) complain(a.complaints, m, 0, bits_of(bad));
    __syncthreads();
    for (i64 i = warp; i < n; i += kWarps) {
      for (i64 j = lane; j < n; j += 32) a.out[(m * n + i) * n + j] = store(j <= i ? work[i * n + j] : (A)0);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) cholesky_few(const Args a) {
  EACH(m, a.a.n) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    T* const to = a.out + m * a.n * a.n;
    const int n = (int)a.n;
    i64 bad = 0;
    A lower[kFewRows][kFewRows];
#pragma unroll
    for (int i = 0; i < kFewRows; ++i) {
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        if (i >= n) continue;
        A s = load(from[i * a.row + j * a.column]);
#pragma unroll
        for (int r = 0; r < j; ++r) s = fused(-lower[i][r], lower[j][r], s);
        if (i == j && !(s > 0) && !bad) bad = j + 1;
        lower[i][j] = i == j ? root_of(s) : s / lower[j][j];
        to[i * n + j] = store(lower[i][j]);
        if (i != j) to[j * n + i] = store((A)0);
      }
    }
    if (bad) complain(a.complaints, m, 0, bits_of(bad));
  }
}

}  // namespace ebb::cuda
