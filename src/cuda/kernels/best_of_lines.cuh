// argmax and argmin: a block per line finds the first of the best.
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

extern "C" __global__ void __launch_bounds__(kThreads) best_of_lines(const BestArgs a) {
  __shared__ A values[kThreads];
  __shared__ i64 places[kThreads];
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    i64 place = threadIdx.x < a.length ? (i64)threadIdx.x : -1;
    A best = place < 0 ? (A)0 : load(x[place * a.step]);
    for (i64 i = (i64)threadIdx.x + kThreads; i < a.length; i += kThreads) {
      const A y = load(x[i * a.step]);
      if (beats(y, best)) best = y, place = i;
    }
    __syncthreads();
    values[threadIdx.x] = best;
    places[threadIdx.x] = place;
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
    if (threadIdx.x == 0) a.out[line] = places[0];
  }
}

}  // namespace ebb::cuda
