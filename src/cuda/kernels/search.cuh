// SPDX-License-Identifier: MIT
// searchsorted: a thread bisects for a few values, in the line of each, or in shared memory where all have one short
// line: lanes that look at as many places of memory take turns.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/rises.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kRight = false;
#endif

// The number of elements of each line that come before its value.
template <class Element>
EBB void bisect(i64 length, const A (&value)[kSearchEach], i64 (&place)[kSearchEach], Element element) {
  const auto is_before = [&](int e, i64 k) {
    const A x = element(e, k);
    return kRight ? !rises(value[e], x) : rises(x, value[e]);
  };
#pragma unroll
  for (int e = 0; e < kSearchEach; ++e) place[e] = 0;
  for (i64 left = length; left > 1;) {
    const i64 half = left >> 1;
#pragma unroll
    for (int e = 0; e < kSearchEach; ++e) {
      if (is_before(e, place[e] + half - 1)) place[e] += half;
    }
    left -= half;
  }
#pragma unroll
  for (int e = 0; e < kSearchEach; ++e) place[e] += is_before(e, place[e]);
}

// As many values at a time as a block has threads, times kSearchEach.
#define EACH_OF_MANY(first, count)                                                        \
  for (i64 first = (i64)blockIdx.x * kThreads * kSearchEach + threadIdx.x; first < count; \
       first += (i64)gridDim.x * kThreads * kSearchEach)

extern "C" __global__ void __launch_bounds__(kThreads) search(const SearchArgs a) {
  const i64 n = a.values.n;
  EACH_OF_MANY(first, n) {
    A value[kSearchEach];
    const T* line[kSearchEach];
    i64 place[kSearchEach];
#pragma unroll
    for (int e = 0; e < kSearchEach; ++e) {
      const i64 i = first + e * kThreads < n ? first + e * kThreads : first;
      value[e] = load(((const T*)a.values.data)[at(a.values, i)]);
      line[e] = (const T*)a.sorted.data + at(a.sorted, quotient(i, a.count));
    }
    bisect(a.length, value, place, [&](int e, i64 k) { return load(line[e][k * a.step]); });
#pragma unroll
    for (int e = 0; e < kSearchEach; ++e) {
      if (first + e * kThreads < n) a.out[first + e * kThreads] = place[e];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) search_in_shared(const SearchArgs a) {
  DYNAMIC_SHARED(memory);
  A* const line = (A*)memory;
  for (i64 k = threadIdx.x; k < a.length; k += kThreads) line[k] = load(((const T*)a.sorted.data)[k * a.step]);
  __syncthreads();
  const i64 n = a.values.n;
  EACH_OF_MANY(first, n) {
    A value[kSearchEach];
    i64 place[kSearchEach];
#pragma unroll
    for (int e = 0; e < kSearchEach; ++e) {
      const i64 i = first + e * kThreads < n ? first + e * kThreads : first;
      value[e] = load(((const T*)a.values.data)[at(a.values, i)]);
    }
    bisect(a.length, value, place, [&](int, i64 k) { return line[k]; });
#pragma unroll
    for (int e = 0; e < kSearchEach; ++e) {
      if (first + e * kThreads < n) a.out[first + e * kThreads] = place[e];
    }
  }
}

}  // namespace ebb::cuda
