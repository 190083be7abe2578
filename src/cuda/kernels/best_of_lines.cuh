// SPDX-License-Identifier: MIT
// argmax and argmin: the first of a line's best. Lines whose elements lie side by side have a block per piece, others a
// thread per piece; the best of several pieces is found by one thread per line.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kFloating = true, kLargest = true;
#endif

// NaN is best.
EBB bool beats(A x, A best) {
  return kFloating && best != best ? false : kFloating && x != x ? true : kLargest ? x > best : x < best;
}

// Combines a first element with a later one.
struct Best {
  A value;
  i64 place;
  __device__ __forceinline__ void see(A x, i64 at) {
    if (beats(x, value)) value = x, place = at;
  }
};

EBB void leave(const BestArgs& a, i64 line, i64 piece, i64 place) {
  if (a.places) {
    a.places[line * a.pieces + piece] = place;
  } else {
    a.out[line] = place;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_pieces(const BestArgs a) {
  __shared__ A values[kThreads];
  __shared__ i64 places[kThreads];
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const T* const x = (const T*)a.x.data + at(a.x, line);
    i64 i = begin + threadIdx.x;
    Best best{i < end ? load(x[i * a.step]) : (A)0, i < end ? i : -1};
    constexpr int kLoads = 4;  // in flight
    for (i += kThreads; i < end; i += kLoads * kThreads) {
      A y[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (i + k * kThreads < end) y[k] = load(x[(i + k * kThreads) * a.step]);
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (i + k * kThreads < end) best.see(y[k], i + k * kThreads);
      }
    }
    __syncthreads();
    values[threadIdx.x] = best.value;
    places[threadIdx.x] = best.place;
    for (int half = kThreads / 2; half; half >>= 1) {
      __syncthreads();
      if ((int)threadIdx.x < half && places[threadIdx.x + half] >= 0) {
        const A y = values[threadIdx.x + half];
        const i64 other = places[threadIdx.x + half], mine = places[threadIdx.x];
        const bool better = mine < 0 || beats(y, values[threadIdx.x]);
        if (better || (!beats(values[threadIdx.x], y) && other < mine))
          values[threadIdx.x] = y, places[threadIdx.x] = other;
      }
    }
    if (threadIdx.x == 0) leave(a, line, piece, places[0]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_strips(const BestArgs a) {
  EACH(task, a.x.n * a.pieces) {
    const i64 piece = quotient(task, a.x.n), line = task - piece * a.x.n;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const T* const x = (const T*)a.x.data + at(a.x, line);
    Best best{load(x[begin * a.step]), begin};
    for (i64 i = begin + 1; i < end; ++i) best.see(load(x[i * a.step]), i);
    leave(a, line, piece, best.place);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) best_of_best(const BestArgs a) {
  EACH(line, a.x.n) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    const i64* const places = a.places + line * a.pieces;
    Best best{load(x[places[0] * a.step]), places[0]};
    for (i64 p = 1; p < a.pieces; ++p) best.see(load(x[places[p] * a.step]), places[p]);
    a.out[line] = best.place;
  }
}

}  // namespace ebb::cuda
