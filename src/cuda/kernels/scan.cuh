// SPDX-License-Identifier: MIT
// cumsum and cumprod. Floats are accumulated in f64 and each result is rounded once; integers wrap. A line of more than
// one piece is read twice: the pieces' sums, a scan of those, and a scan of each piece from what comes before it.
// Lines whose elements lie side by side have a block per piece, others a thread per piece.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f64 S;  // of sums
constexpr bool kAdds = true, kFloating = true, kHalf = true;
#endif

template <class X>
EBB X next(X a, X b) {
  if constexpr (kFloating) {
    return kAdds ? a + b : a * b;
  } else {
    return kAdds ? sum(a, b) : product(a, b);
  }
}
EBB T narrow(S x) { return store(kHalf ? (A)to_odd((f64)x) : (A)x); }

EBB S from_lane(S x, int lane) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane & 31);
  const u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane & 31);
  return from_bits(x, (u64)high << 32 | low);
}

// A block's elements, where its threads exchange them: neighbours of a thread, without conflicts of banks.
EBB int place_of(int e) { return e + (e >> 3); }
constexpr int kPlaces = kScanPiece + kScanPiece / 8;

// x[j] of every thread becomes the scan up to its element, from `before` on. `totals`: one per warp, read until the
// next barrier.
EBB void scan_block(S (&x)[kScanEach], S before, u64* totals) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int j = 1; j < kScanEach; ++j) x[j] = next(x[j - 1], x[j]);
  S all = x[kScanEach - 1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const S left = from_lane(all, lane - distance);
    if (lane >= distance) all = next(left, all);
  }
  if (lane == 31) totals[warp] = bits_of(all);
  const S left = from_lane(all, lane - 1);
  __syncthreads();
  for (int w = 0; w < warp; ++w) before = next(before, from_bits(before, totals[w]));
  if (lane > 0) before = next(before, left);
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) x[j] = next(before, x[j]);
}

// The elements of a piece, each thread's side by side; those behind the line's end are what it is not changed by.
EBB void load_piece(const ScanArgs& a, i64 line, i64 piece, u64* shared, S nothing, S (&x)[kScanEach]) {
  const T* const from = (const T*)a.x.data + at(a.x, line);
  const i64 first = piece * kScanPiece;
#pragma unroll
  for (int k = 0; k < kScanEach; ++k) {
    const int e = threadIdx.x + k * kThreads;
    shared[place_of(e)] = bits_of(first + e < a.length ? (S)load(from[(first + e) * a.x_step]) : nothing);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) x[j] = from_bits(nothing, shared[place_of(threadIdx.x * kScanEach + j)]);
}

extern "C" __global__ void __launch_bounds__(kThreads) sum_pieces(const ScanArgs a) {
  __shared__ u64 shared[kPlaces], totals[kThreads / 32];
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces;
    S x[kScanEach];
    load_piece(a, line, piece, shared, (S)a.start, x);
    scan_block(x, (S)a.start, totals);
    if (threadIdx.x == kThreads - 1) a.sums[line * (a.pieces + 1) + piece + 1] = bits_of(x[kScanEach - 1]);
    __syncthreads();
  }
}

// The sums of a line's pieces become what comes before each: by a block per line.
extern "C" __global__ void __launch_bounds__(kThreads) scan_sums(const ScanArgs a) {
  __shared__ u64 totals[kThreads / 32], last;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    u64* const sums = a.sums + line * (a.pieces + 1);
    S before = (S)a.start;
    if (threadIdx.x == 0) sums[0] = bits_of(before);
    for (i64 first = 1; first <= a.pieces; first += kScanPiece) {
      const i64 mine = first + threadIdx.x * kScanEach;
      S x[kScanEach];
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) x[j] = mine + j <= a.pieces ? from_bits(before, sums[mine + j]) : (S)a.start;
      scan_block(x, before, totals);
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) {
        if (mine + j <= a.pieces) sums[mine + j] = bits_of(x[j]);
      }
      if (threadIdx.x == kThreads - 1) last = bits_of(x[kScanEach - 1]);
      __syncthreads();
      before = from_bits(before, last);
      __syncthreads();
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) scan_pieces(const ScanArgs a) {
  __shared__ u64 shared[kPlaces], totals[kThreads / 32];
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces, first = piece * kScanPiece;
    const S nothing = (S)a.start;
    S x[kScanEach];
    load_piece(a, line, piece, shared, nothing, x);
    scan_block(x, a.sums ? from_bits(nothing, a.sums[line * (a.pieces + 1) + piece]) : nothing, totals);
#pragma unroll
    for (int j = 0; j < kScanEach; ++j) shared[place_of(threadIdx.x * kScanEach + j)] = bits_of(x[j]);
    __syncthreads();
    T* const out = (T*)a.out.data + at(a.out, line);
#pragma unroll
    for (int k = 0; k < kScanEach; ++k) {
      const int e = threadIdx.x + k * kThreads;
      if (first + e < a.length) out[(first + e) * a.out_step] = narrow(from_bits(nothing, shared[place_of(e)]));
    }
    __syncthreads();
  }
}

// Strips of lines whose elements are neighbours of other lines'.
extern "C" __global__ void __launch_bounds__(kThreads) sum_strips(const ScanArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const i64 piece = quotient(task, a.x.n), line = task - piece * a.x.n;
    const i64 left = a.length - piece * kScanStrip;
    const T* const x = (const T*)a.x.data + at(a.x, line) + piece * kScanStrip * a.x_step;
    S value = (S)a.start;
    for (i64 i = 0; i < (left < kScanStrip ? left : kScanStrip); ++i) value = next(value, (S)load(x[i * a.x_step]));
    a.sums[line * (a.pieces + 1) + piece + 1] = bits_of(value);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) scan_strips(const ScanArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const i64 piece = quotient(task, a.x.n), line = task - piece * a.x.n;
    const i64 left = a.length - piece * kScanStrip;
    const T* const x = (const T*)a.x.data + at(a.x, line) + piece * kScanStrip * a.x_step;
    T* const out = (T*)a.out.data + at(a.out, line) + piece * kScanStrip * a.out_step;
    S value = (S)a.start;
    if (a.sums) value = from_bits(value, a.sums[line * (a.pieces + 1) + piece]);
    for (i64 i = 0; i < (left < kScanStrip ? left : kScanStrip); ++i) {
      value = next(value, (S)load(x[i * a.x_step]));
      out[i * a.out_step] = narrow(value);
    }
  }
}

}  // namespace ebb::cuda
