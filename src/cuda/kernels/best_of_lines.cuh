// SPDX-License-Identifier: MIT
// argmax and argmin: the first of a line's best. Lines whose elements lie close to each other have a group of lanes
// each, or a block per piece; others have a thread per piece. The best of several pieces is found by a block per line.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/packs.cuh"
#include "cuda/kernels/parts/reductions.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kFloating = true, kLargest = true;
#endif

// NaN is best.
EBB bool beats(A x, A best) {
  return kFloating && best != best ? false : kFloating && x != x ? true : kLargest ? x > best : x < best;
}

struct Best {
  A value;
  i64 place;  // below 0: none yet
  // A later element.
  __device__ __forceinline__ void see(A x, i64 at) {
    if (beats(x, value)) value = x, place = at;
  }
  // The best of any others.
  __device__ __forceinline__ void merge(A x, i64 at) {
    if (at < 0) return;
    const bool better = place < 0 || beats(x, value);
    if (better || (at < place && !beats(value, x))) value = x, place = at;
  }
};

// The best of the elements first, first + stride, ... of a line.
EBB Best best_of(const BestArgs& a, const T* x, i64 first, i64 end, int stride) {
  constexpr int kLoads = 8;  // in flight
  Best best{first < end ? load(x[first * a.step]) : (A)0, first < end ? first : -1};
  for (i64 i = first + stride; i < end; i += kLoads * stride) {
    A y[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (i + k * stride < end) y[k] = load(x[(i + k * stride) * a.step]);
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (i + k * stride < end) best.see(y[k], i + k * stride);
    }
  }
  return best;
}

// The best of a piece of neighbours, by a block: of packs, so that as many bytes are on their way.
EBB Best best_of_neighbours(const T* x, i64 begin, i64 end) {
  constexpr int kPack = 16 / (int)sizeof(T) < 8 ? 16 / (int)sizeof(T) : 8, kPacks = 4, kStep = kThreads * kPack;
  const bool aligned = ((u64)(x + begin) & 15) == 0;
  Best best{(A)0, -1};
  for (i64 first = begin + (i64)threadIdx.x * kPack; first < end; first += kPacks * kStep) {
    Pack<T, kPack> y[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const i64 i = first + k * kStep;
      if (i < end) y[k] = load_pack<kPack>(x + i, aligned, end - i < kPack ? (int)(end - i) : kPack);
    }
    if (best.place < 0) best = {load(y[0].at(0)), first};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const i64 i = first + k * kStep + j;
        if (i < end) best.see(load(y[k].at(j)), i);
      }
    }
  }
  return best;
}

EBB void leave(const BestArgs& a, i64 line, i64 piece, i64 place) {
  if (a.places) {
    a.places[line * a.pieces + piece] = place;
  } else {
    a.out[line] = place;
  }
}

// Lanes of a group: a power of two.
extern "C" __global__ void __launch_bounds__(kThreads) best_of_short_lines(const BestArgs a) {
  const int lanes = 1 << a.lane_bits, lane = threadIdx.x & (lanes - 1);
  const i64 threads = a.x.n << a.lane_bits;
  for (i64 i = (i64)blockIdx.x * kThreads + threadIdx.x; i - (threadIdx.x & 31) < threads;
       i += (i64)gridDim.x * kThreads) {
    const i64 line = i >> a.lane_bits;
    const bool live = line < a.x.n;
    Best best{(A)0, -1};
    if (live) best = best_of(a, (const T*)a.x.data + at(a.x, line), lane, a.length, lanes);
    for (int distance = 1; distance < lanes; distance *= 2)
      best.merge(other_lane(best.value, distance), other_lane(best.place, distance));
    if (live && lane == 0) a.out[line] = best.place;
  }
}

struct BestOfThreads {
  A values[kThreads];
  i64 places[kThreads];
};
// In the first thread.
EBB Best best_of_block(Best best, BestOfThreads& of) {
  __syncthreads();
  of.values[threadIdx.x] = best.value;
  of.places[threadIdx.x] = best.place;
  for (int half = kThreads / 2; half; half >>= 1) {
    __syncthreads();
    if ((int)threadIdx.x >= half) continue;
    best.merge(of.values[threadIdx.x + half], of.places[threadIdx.x + half]);
    of.values[threadIdx.x] = best.value;
    of.places[threadIdx.x] = best.place;
  }
  return best;
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_pieces(const BestArgs a) {
  __shared__ BestOfThreads of;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const T* const x = (const T*)a.x.data + at(a.x, line);
    const Best best = best_of_block(
        a.step == 1 ? best_of_neighbours(x, begin, end) : best_of(a, x, begin + threadIdx.x, end, kThreads), of);
    if (threadIdx.x == 0) leave(a, line, piece, best.place);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_strips(const BestArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const i64 piece = quotient(task, a.x.n), line = task - piece * a.x.n;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const T* const x = (const T*)a.x.data + at(a.x, line);
    leave(a, line, piece, best_of(a, x, begin, end, 1).place);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_few(const BestArgs a) {
  EACH(line, a.x.n) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    Best best{(A)0, -1};
    for (i64 p = 0; p < a.pieces; ++p) {
      const i64 place = a.places[line * a.pieces + p];
      best.merge(load(x[place * a.step]), place);
    }
    a.out[line] = best.place;
  }
}

// A warp per line took 24 of 60 us for 22,676,167 f32: its lanes wait for their pieces one after the other.
extern "C" __global__ void __launch_bounds__(kThreads) best_of_best(const BestArgs a) {
  __shared__ BestOfThreads of;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    const i64* const places = a.places + line * a.pieces;
    Best best{(A)0, -1};
#pragma unroll 4
    for (i64 p = threadIdx.x; p < a.pieces; p += kThreads) best.merge(load(x[places[p] * a.step]), places[p]);
    best = best_of_block(best, of);
    if (threadIdx.x == 0) a.out[line] = best.place;
  }
}

}  // namespace ebb::cuda
