// SPDX-License-Identifier: MIT
// nonzero: a block counts the true elements of its piece, one block adds the counts of all pieces, and each piece
// writes its coordinates where those before it end.
#pragma once
#include "cuda/kernels/args/compact.h"
#include "cuda/kernels/parts/block_sums.cuh"

namespace ebb::cuda {

using Args = TruePlacesArgs;

// A thread's elements, one bit each.
EBB u32 bits_at(const Args& a, i64 first) {
  u32 found = 0;
  if (first + kTrueEach <= a.n && ((u64)(a.bits + first) & 15) == 0) {
    const Words4 words = *(const Words4*)(a.bits + first);
#pragma unroll
    for (int k = 0; k < kTrueEach; ++k) found |= (u32)((words.x[k / 4] >> 8 * (k % 4) & 255u) != 0) << k;
    return found;
  }
#pragma unroll
  for (int k = 0; k < kTrueEach; ++k) {
    if (first + k < a.n) found |= (u32)(a.bits[first + k] != 0) << k;
  }
  return found;
}
EBB i64 first_of(i64 piece) { return piece * kTruePiece + threadIdx.x * kTrueEach; }

extern "C" __global__ void __launch_bounds__(kThreads) count_true(const Args a) {
  __shared__ u32 warps[kWarps];
  for (i64 piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
    u32 all;
    sum_before((u32)__popc(bits_at(a, first_of(piece))), warps, all);
    if (threadIdx.x == 0) a.counts[piece] = all;
    __syncthreads();
  }
}

// By one block: what comes before each piece, and behind the last how many there are.
extern "C" __global__ void __launch_bounds__(kThreads) add_counts(const Args a) {
  constexpr int kEach = 8;  // pieces of a thread
  __shared__ u64 warps[kWarps];
  u64 before = 0;
  for (i64 first = (i64)threadIdx.x * kEach; first - (i64)threadIdx.x * kEach < a.pieces; first += kEach * kThreads) {
    u64 counts[kEach], mine = 0, all;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      counts[k] = first + k < a.pieces ? a.counts[first + k] : 0;
      mine += counts[k];
    }
    u64 own = before + sum_before(mine, warps, all);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (first + k < a.pieces) a.counts[first + k] = own;
      own += counts[k];
    }
    before += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) a.counts[a.pieces] = before;
}

// Places are collected in shared memory, so that neighbouring threads store neighbouring coordinates.
extern "C" __global__ void __launch_bounds__(kThreads) write_true(const Args a) {
  __shared__ u32 warps[kWarps];
  __shared__ u16 places[kTruePiece];
  for (i64 piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
    const u32 bits = bits_at(a, first_of(piece));
    u32 all, to = sum_before((u32)__popc(bits), warps, all);
#pragma unroll
    for (int k = 0; k < kTrueEach; ++k) {
      if (bits >> k & 1u) places[to++] = (u16)(threadIdx.x * kTrueEach + k);
    }
    __syncthreads();
    i64* const out = a.out + (i64)a.counts[piece] * a.rank;
    for (u32 e = threadIdx.x; e < all * (u32)a.rank; e += kThreads) {
      const u32 found = a.rank == 1 ? e : e / (u32)a.rank;
      const int dimension = (int)(e - found * (u32)a.rank);
      i64 rest = piece * kTruePiece + places[found], inside = rest;
      for (int d = (int)a.rank - 1; d > 0 && d >= dimension; --d) {
        const i64 next = quotient(rest, a.size[d]);
        inside = rest - next * a.size[d];
        rest = next;
      }
      out[e] = dimension == 0 ? rest : inside;
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
