// SPDX-License-Identifier: MIT
// The places of cummax and cummin: the last of the best elements so far. The division into pieces and strips is that of
// scan.cuh; here a piece leaves the place of its best element.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f64 S;  // of comparisons
constexpr bool kFloating = true, kLargest = true;
constexpr int kStrip = 256;
#endif

struct Best {
  S value;
  i64 place;  // below 0: none yet
};

// The better of two, of which `b` comes later: it wins a tie, and NaN is better than any number.
EBB Best later(Best a, Best b) {
  const bool better = (kLargest ? b.value >= a.value : b.value <= a.value) || (kFloating && b.value != b.value);
  return b.place >= 0 && (a.place < 0 || better) ? b : a;
}

EBB u64 from_lane(u64 bits, int lane) {
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane & 31);
  const u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane & 31);
  return (u64)high << 32 | low;
}
EBB Best from_lane(Best x, int lane) {
  return {from_bits(x.value, from_lane(bits_of(x.value), lane)), (i64)from_lane((u64)x.place, lane)};
}

struct Totals {
  u64 values[kThreads / 32];
  i64 places[kThreads / 32];
};

// x[j] of every thread becomes the best up to its element, from `before` on.
EBB void scan_block(Best (&x)[kScanEach], Best before, Totals& totals) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int j = 1; j < kScanEach; ++j) x[j] = later(x[j - 1], x[j]);
  Best all = x[kScanEach - 1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Best left = from_lane(all, lane - distance);
    if (lane >= distance) all = later(left, all);
  }
  __syncthreads();  // totals of the scan before have been read
  if (lane == 31) totals.values[warp] = bits_of(all.value), totals.places[warp] = all.place;
  const Best left = from_lane(all, lane - 1);
  __syncthreads();
  for (int w = 0; w < warp; ++w)
    before = later(before, Best{from_bits(before.value, totals.values[w]), totals.places[w]});
  if (lane > 0) before = later(before, left);
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) x[j] = later(before, x[j]);
}

EBB Best at_place(const ScanArgs& a, const T* x, i64 place) {
  return {place >= 0 ? (S)load(x[place * a.x_step]) : (S)0, place};
}
EBB const T* line_of(const ScanArgs& a, i64 line) { return (const T*)a.x.data + at(a.x, line); }

EBB void load_piece(const ScanArgs& a, const T* x, i64 first, Best (&best)[kScanEach]) {
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) {
    const i64 e = first + (i64)threadIdx.x * kScanEach + j;
    best[j] = at_place(a, x, e < a.length ? e : -1);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_pieces(const ScanArgs a) {
  __shared__ Totals totals;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces;
    Best best[kScanEach];
    load_piece(a, line_of(a, line), piece * kScanPiece, best);
    scan_block(best, Best{(S)0, -1}, totals);
    if (threadIdx.x == kThreads - 1) a.sums[line * (a.pieces + 1) + piece + 1] = (u64)best[kScanEach - 1].place;
  }
}

// The best places of a line's pieces become those before each: by a block per line.
extern "C" __global__ void __launch_bounds__(kThreads) best_before_pieces(const ScanArgs a) {
  __shared__ Totals totals;
  __shared__ i64 last;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    u64* const places = a.sums + line * (a.pieces + 1);
    const T* const x = line_of(a, line);
    Best before{(S)0, -1};
    if (threadIdx.x == 0) places[0] = (u64)before.place;
    for (i64 first = 1; first <= a.pieces; first += kScanPiece) {
      const i64 mine = first + threadIdx.x * kScanEach;
      Best best[kScanEach];
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) best[j] = at_place(a, x, mine + j <= a.pieces ? (i64)places[mine + j] : -1);
      scan_block(best, before, totals);
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) {
        if (mine + j <= a.pieces) places[mine + j] = (u64)best[j].place;
      }
      if (threadIdx.x == kThreads - 1) last = best[kScanEach - 1].place;
      __syncthreads();
      before = at_place(a, x, last);
      __syncthreads();
    }
  }
}

// The same by a thread per line, of a few strips.
extern "C" __global__ void __launch_bounds__(kThreads) best_before_few(const ScanArgs a) {
  EACH(line, a.x.n) {
    u64* const places = a.sums + line * (a.pieces + 1);
    const T* const x = line_of(a, line);
    Best before{(S)0, -1};
    places[0] = (u64)before.place;
    for (i64 piece = 1; piece <= a.pieces; ++piece) {
      before = later(before, at_place(a, x, (i64)places[piece]));
      places[piece] = (u64)before.place;
    }
  }
}

EBB Best before_piece(const ScanArgs& a, const T* x, i64 line, i64 piece) {
  return at_place(a, x, a.sums ? (i64)a.sums[line * (a.pieces + 1) + piece] : -1);
}

extern "C" __global__ void __launch_bounds__(kThreads) places_of_pieces(const ScanArgs a) {
  __shared__ Totals totals;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces;
    const T* const x = line_of(a, line);
    Best best[kScanEach];
    load_piece(a, x, piece * kScanPiece, best);
    scan_block(best, before_piece(a, x, line, piece), totals);
    i64* const out = (i64*)a.out.data + at(a.out, line);
#pragma unroll
    for (int j = 0; j < kScanEach; ++j) {
      const i64 e = piece * kScanPiece + (i64)threadIdx.x * kScanEach + j;
      if (e < a.length) out[e * a.out_step] = best[j].place;
    }
  }
}

// Strips of lines whose elements are neighbours of other lines', loaded a few elements ahead.
struct Strip {
  i64 line, number, first, end;
};
EBB Strip strip_of(const ScanArgs& a, i64 task) {
  const i64 number = quotient(task, a.x.n), first = number * kStrip;
  return {task - number * a.x.n, number, first, first + kStrip < a.length ? first + kStrip : a.length};
}
EBB void load_ahead(const ScanArgs& a, const T* x, i64 first, i64 end, Best (&best)[kScanEach]) {
#pragma unroll
  for (int j = 0; j < kScanEach; ++j) best[j] = at_place(a, x, first + j < end ? first + j : -1);
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_strips(const ScanArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const T* const x = line_of(a, s.line);
    Best best{(S)0, -1}, ahead[kScanEach];
    for (i64 i = s.first; i < s.end; i += kScanEach) {
      load_ahead(a, x, i, s.end, ahead);
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) best = later(best, ahead[j]);
    }
    a.sums[s.line * (a.pieces + 1) + s.number + 1] = (u64)best.place;
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) places_of_strips(const ScanArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const T* const x = line_of(a, s.line);
    i64* const out = (i64*)a.out.data + at(a.out, s.line);
    Best best = before_piece(a, x, s.line, s.number), ahead[kScanEach];
    for (i64 i = s.first; i < s.end; i += kScanEach) {
      load_ahead(a, x, i, s.end, ahead);
#pragma unroll
      for (int j = 0; j < kScanEach; ++j) {
        best = later(best, ahead[j]);
        if (i + j < s.end) out[(i + j) * a.out_step] = best.place;
      }
    }
  }
}

}  // namespace ebb::cuda
