// argsort: blocks sort pieces of lines in shared memory, by merges of runs of doubling length; sorted runs in memory
// are then merged several at a time. An element finds its place by bisection of the other runs. Stable.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u32 P;  // a place in a line
constexpr bool kDescending = false, kFloating = true;
#endif

using Args = SortArgs<T, P>;

// NaN is above all numbers, and -0 is 0.
EBB bool rises(A a, A b) { return a < b || (kFloating && b != b && a == a); }
EBB bool before(A a, A b) { return kDescending ? rises(b, a) : rises(a, b); }

EBB void leave(const Args& a, i64 line, i64 at_line, T key, i64 place) {
  if (a.keys_to) {
    a.keys_to[line * a.length + at_line] = key;
    a.places_to[line * a.length + at_line] = (P)place;
  } else {
    ((i64*)a.out.data)[at(a.out, line) + at_line * a.out_step] = place;
  }
}
// How many of a run's first `count` keys come before this one: those that are less, and of a run that lies left of it
// also those that are equal. `step`: a power of two, more than half of the count.
template <class N>
EBB N count_before(T own, bool left, const T* run, N count, N step) {
  const A key = load(own);
  N n = 0;
  for (; step; step >>= 1) {
    if (n + step > count) continue;
    const A y = load(run[n + step - 1]);
    if (left ? !before(key, y) : before(y, key)) n += step;
  }
  return n;
}
extern "C" __global__ void __launch_bounds__(kThreads) sort_pieces(const Args a) {
  constexpr int kEach = kSortPiece / kThreads;  // elements of a thread
  __shared__ T keys[2][kSortPiece];
  __shared__ u16 places[2][kSortPiece];  // in their piece
  const int piece = (int)a.piece;
  const i64 all = a.x.n * a.pieces, of_block = kSortPiece / piece;
  for (i64 first = blockIdx.x * of_block; first < all; first += gridDim.x * of_block) {
    i64 line[kEach], begin[kEach];  // of this thread's elements, and where in the line their piece begins
    int live[kEach];                // elements of the piece
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = threadIdx.x + kThreads * k, mine = e & (piece - 1);
      const i64 which = first + e / piece;
      line[k] = a.pieces == 1 ? which : quotient(which, a.pieces);
      begin[k] = (which - line[k] * a.pieces) * piece;
      const i64 left = which < all ? a.length - begin[k] : 0;
      live[k] = left < piece ? (int)left : piece;
      if (mine < live[k]) {
        keys[0][e] = ((const T*)a.x.data)[at(a.x, line[k]) + (begin[k] + mine) * a.x_step];
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
      if (mine < live[k]) leave(a, line[k], begin[k] + mine, keys[side][e], begin[k] + places[side][e]);
    }
    __syncthreads();
  }
}
// A block has 32 elements, and each of its warps looks for them in one of the runs: neighbours look for almost the
// same.
extern "C" __global__ void __launch_bounds__(32 * kSortWays) merge_runs(const Args a) {
  __shared__ P counts[kSortWays][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, ways = blockDim.x >> 5;
  const i64 all = a.x.n * a.length, run = (i64)1 << a.run_bits;
  for (i64 first = (i64)blockIdx.x * 32; first < all; first += (i64)gridDim.x * 32) {
    const i64 i = first + lane, line = a.x.n == 1 ? 0 : quotient(i, a.length), mine = i - line * a.length;
    const i64 own = mine >> a.run_bits, group = own & -(i64)ways, other = group + warp;
    if (i < all) {
      const i64 start = other << a.run_bits, left = a.length - start;
      counts[warp][lane] = (P)(other == own ? mine - start
                                            : count_before(a.keys[i], other < own, a.keys + line * a.length + start,
                                                           left < run ? left : run, run));
    }
    __syncthreads();
    if (warp == 0 && i < all) {
      i64 to = group << a.run_bits;
      for (int w = 0; w < ways; ++w) to += counts[w][lane];
      leave(a, line, to, a.keys[i], a.places[i]);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
