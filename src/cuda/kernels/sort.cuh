// SPDX-License-Identifier: MIT
// argsort of short lines: a block sorts one or several of them in shared memory, by merges of runs of doubling length.
// An element finds its place by bisection of the other run. Stable. Longer lines: see radix_sort.cuh.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/rises.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kDescending = false;
#endif

EBB bool before(A a, A b) { return kDescending ? rises(b, a) : rises(a, b); }

// How many of a run's first `count` keys come before this one: those that are less, and of a run that lies left of it
// also those that are equal. `step`: a power of two, more than half of the count.
EBB int count_before(T own, bool left, const T* run, int count, int step) {
  const A key = load(own);
  int n = 0;
  for (; step; step >>= 1) {
    if (n + step > count) continue;
    const A y = load(run[n + step - 1]);
    if (left ? !before(key, y) : before(y, key)) n += step;
  }
  return n;
}
extern "C" __global__ void __launch_bounds__(kThreads) sort_pieces(const SortArgs a) {
  constexpr int kEach = kSortPiece / kThreads;  // elements of a thread
  __shared__ T keys[2][kSortPiece];
  __shared__ u16 places[2][kSortPiece];  // in their line
  const int piece = (int)a.piece;
  const i64 of_block = kSortPiece / piece;
  for (i64 first = blockIdx.x * of_block; first < a.x.n; first += gridDim.x * of_block) {
    int live[kEach];  // elements of the line that this thread's are of
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = threadIdx.x + kThreads * k, mine = e & (piece - 1);
      const i64 line = first + e / piece;
      live[k] = line < a.x.n ? (int)a.length : 0;
      if (mine < live[k]) {
        keys[0][e] = ((const T*)a.x.data)[at(a.x, line) + mine * a.x_step];
        places[0][e] = (u16)mine;
      }
    }
    __syncthreads();
    int side = 0;
    for (int run = 1; run < piece; run <<= 1, side ^= 1) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int e = threadIdx.x + kThreads * k, mine = e & (piece - 1);
        if (mine >= live[k]) continue;
        const int other = (mine & -run) ^ run, left = live[k] - other;
        const T key = keys[side][e];
        const int n = count_before(key, other < mine, keys[side] + (e - mine + other), left < run ? left : run, run);
        const int to = e - mine + (mine & -2 * run) + (mine & (run - 1)) + n;
        keys[side ^ 1][to] = key;
        places[side ^ 1][to] = places[side][e];
      }
      __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = threadIdx.x + kThreads * k, mine = e & (piece - 1);
      const i64 to = mine - a.first;
      if (mine >= live[k] || to < 0 || to >= a.count) continue;
      const i64 offset = at(a.out, first + e / piece) + to * a.out_step;
      ((i64*)a.out.data)[offset] = places[side][e];
      if (a.values) ((T*)a.values)[offset] = keys[side][e];
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
