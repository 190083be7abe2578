// SPDX-License-Identifier: MIT
// cumsum and cumprod of lines whose elements are neighbours of other lines', or of a few elements: a thread per strip.
// A line of more than one strip is read twice: the strips' sums, a scan of those, and a scan of each strip from what
// comes before it. Other lines: see scan_once.cuh.
#pragma once
#include "cuda/kernels/parts/scan_step.cuh"

namespace ebb::cuda {

// x[j] of every thread becomes the scan up to its element, from `before` on. `totals`: one per warp, read until the
// next barrier.
EBB void scan_block(S (&x)[kScanEach], S before, u64* totals) {
#pragma unroll
  for (int j = 1; j < kScanEach; ++j) x[j] = next(x[j - 1], x[j]);
  before = before_thread(before, scan_lanes(x[kScanEach - 1], totals), totals);
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) x[j] = next(before, x[j]);
}

// The sums of a line's strips become what comes before each: by a block per line.
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

// The same by a thread per line, of a few strips.
extern "C" __global__ void __launch_bounds__(kThreads) scan_few_sums(const ScanArgs a) {
  EACH(line, a.x.n) {
    u64* const sums = a.sums + line * (a.pieces + 1);
    S before = (S)a.start;
    sums[0] = bits_of(before);
    for (i64 piece = 1; piece <= a.pieces; ++piece) {
      before = next(before, from_bits(before, sums[piece]));
      sums[piece] = bits_of(before);
    }
  }
}

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
