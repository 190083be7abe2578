// SPDX-License-Identifier: MIT
// cumsum and cumprod of lines whose elements lie side by side, in one pass: a block adds the elements of a piece,
// leaves its total, and waits for those of all pieces before it in the line. 256 pieces are a group, whose last piece
// leaves their total as well: a block then reads as many numbers as there are groups before its own and pieces before
// it there, and adds them in an order that depends on its place alone. Blocks take pieces in the order in which they
// begin, so that whatever a block waits for is being made.
#pragma once
#include "cuda/kernels/parts/scan_step.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kScanThreads = kThreads;  // of a block
constexpr bool kForward = true;         // elements follow each other in memory
#endif

using Args = ScanOnceArgs;

constexpr int kWarps = kThreads / 32;

// A block's elements, where its threads exchange them: neighbours of a thread, without conflicts of banks.
EBB int place_of(int e) { return e + e / kSumEach; }

// Numbers that others wait for are two halves with a bit above each that says that it is there: none needs a fence.
EBB void leave_total(const Args& a, i64 at, S total) {
  volatile u64* const to = a.totals + 2 * at;
  const u64 bits = bits_of(total);
  to[0] = (u64)1 << 32 | (u32)bits;
  to[1] = (u64)1 << 32 | bits >> 32;
}
EBB S total_at(const Args& a, i64 at, S nothing) {
  const volatile u64* const from = a.totals + 2 * at;
  u64 low = from[0], high = from[1];
  while (!(low >> 32)) low = from[0];
  while (!(high >> 32)) high = from[1];
  return from_bits(nothing, high << 32 | (u32)low);
}

// Of all threads' numbers, in the order of a butterfly and then of warps. `warps`: read until the next barrier.
EBB S total_of_block(S x, u64* warps) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) x = next(x, other_lane(x, distance));
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = bits_of(x);
  __syncthreads();
  S total = from_bits(x, warps[0]);
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total = next(total, from_bits(x, warps[w]));
  return total;
}

// What comes before a piece of a line; its own total is left for those behind it.
EBB S before_piece(const Args& a, i64 line, i64 piece, S own, u64 (*warps)[kWarps]) {
  const i64 first = line * (a.pieces + a.groups), group = piece / kSumGroup, begin = group * kSumGroup;
  const S nothing = (S)a.start;
  if (threadIdx.x == 0) leave_total(a, first + piece, own);
  S mine = nothing;
  if (begin + threadIdx.x < piece) mine = total_at(a, first + begin + threadIdx.x, nothing);
  if (piece == begin + kSumGroup - 1) {
    const S others = total_of_block(mine, warps[0]);
    if (threadIdx.x == 0) leave_total(a, first + a.pieces + group, next(others, own));
  }
  S before = nothing;
  for (i64 g = threadIdx.x; g < group; g += kThreads) before = next(before, total_at(a, first + a.pieces + g, nothing));
  return total_of_block(next(before, mine), warps[1]);
}

extern "C" __global__ void __launch_bounds__(kScanThreads, 1024 / kScanThreads) scan_once(const Args a) {
  __shared__ T shared[kSumPiece + kThreads];
  __shared__ u64 totals[kWarps], warps[2][kWarps];
  __shared__ i64 taken;
  constexpr int threads = kScanThreads;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 x_step = kForward ? 1 : a.x_step, out_step = kForward ? 1 : a.out_step;
  const i64 tasks = a.x.n * a.pieces;
  const S nothing = (S)a.start;
  for (i64 task = blockIdx.x;; task += gridDim.x) {
    if (a.totals) {
      if (threadIdx.x == 0) taken = (i64)atomicAdd(a.next, 1u);
      __syncthreads();
      task = taken;
    }
    if (task >= tasks) return;
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces, begin = piece * kSumPiece;
    const int live = a.length - begin < kSumPiece ? (int)(a.length - begin) : kSumPiece;
    const T* from = (const T*)a.x.data + at(a.x, line) + (begin + threadIdx.x) * x_step;
    T part[kSumEach];
#pragma unroll
    for (int k = 0; k < kSumEach; ++k, from += threads * x_step) {
      if ((int)threadIdx.x + k * threads < live) part[k] = *from;
    }
#pragma unroll
    for (int k = 0; k < kSumEach; ++k) {
      const int e = threadIdx.x + k * threads;
      if (e < live) shared[place_of(e)] = part[k];
    }
    __syncthreads();
    const int first = threadIdx.x * kSumEach, mine = live - first < kSumEach ? live - first : kSumEach;
    const auto element = [&](int j) { return (S)load(shared[place_of(first + j)]); };
    S all = nothing;
#pragma unroll
    for (int j = 0; j < kSumEach; ++j) {
      if (j < mine) all = next(all, element(j));
    }
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const S left = from_lane(all, lane - distance);
      if (lane >= distance) all = next(left, all);
    }
    if (lane == 31) totals[warp] = bits_of(all);
    const S left = from_lane(all, lane - 1);
    __syncthreads();
    S before = nothing, own = nothing;
    if (a.totals) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) own = next(own, from_bits(nothing, totals[w]));
      before = before_piece(a, line, piece, own, warps);
    }
    for (int w = 0; w < warp; ++w) before = next(before, from_bits(nothing, totals[w]));
    if (lane > 0) before = next(before, left);
#pragma unroll
    for (int j = 0; j < kSumEach; ++j) {
      if (j >= mine) break;
      before = next(before, element(j));
      shared[place_of(first + j)] = narrow(before);
    }
    __syncthreads();
    T* out = (T*)a.out.data + at(a.out, line) + (begin + threadIdx.x) * out_step;
#pragma unroll
    for (int k = 0; k < kSumEach; ++k, out += threads * out_step) {
      const int e = threadIdx.x + k * threads;
      if (e < live) *out = shared[place_of(e)];
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
