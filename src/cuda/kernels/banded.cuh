// SPDX-License-Identifier: MIT
// weighted_gather by banded matrices: see calls/banded.h. Elements have a thread for some planes each, which all have
// the same terms; an element of very many terms has some lanes.
#pragma once
#include "cuda/kernels/args/banded.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kAxes = 2, kRows = 4, kLanes = 32;
constexpr int kTaps[3] = {2, 2, 1};  // of the loops that are unrolled; 0: as many as there are
#endif

using Args = BandedArgs<T, A>;
constexpr int kBefore = kAxes > 1 ? kAxes - 2 : 0;  // the axis before the last

struct Span {
  i64 first;
  int count;
  const A* weights;
};
EBB Span span_of(const BandSide<A>& side, i64 row) {
  return {side.spans[2 * row], (int)side.spans[2 * row + 1], side.weights + row * side.taps};
}
EBB i64 divided(const Args& a, i64 i, i64 by, u32 factor, u32 shift) {
  if (by == 1) return i;
  return a.counts_narrow ? (i64)divided_by((u32)i, factor, shift) : quotient(i, by);
}

// Calls body(k) for k < count, unrolled for kMost.
template <int kMost, class Body>
EBB void each_tap(int count, const Body& body) {
  if constexpr (kMost > 0) {
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      if (k < count) body(k);
    }
  } else {
    for (int k = 0; k < count; ++k) body(k);
  }
}

// sum[r] += weight · Σ over the taps of the last axis, from `at` on.
EBB void add_line(const Args& a, const Span& span, const T* at, int live, A weight, A (&sum)[kRows]) {
  A line[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) line[r] = 0;
  each_tap<kTaps[kAxes - 1]>(span.count, [&](int k) {
    const A w = span.weights[k];
    A x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = r < live ? load(at[r * a.from + k * a.inner]) : (A)0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) line[r] = fused(w, x[r], line[r]);
  });
#pragma unroll
  for (int r = 0; r < kRows; ++r) sum[r] = kAxes == 1 ? line[r] : fused(weight, line[r], sum[r]);
}

extern "C" __global__ void __launch_bounds__(kThreads) multiply_bands(const Args a) {
  EACH(i, (a.planes + kRows - 1) / kRows * a.to) {
    i64 rest = divided(a, i, a.inner, a.by_inner, a.of_inner);
    i64 offset = i - rest * a.inner, to = offset, step = a.inner, to_step = a.inner;
    Span spans[kAxes];
#pragma unroll
    for (int d = kAxes - 1; d >= 0; --d) {
      const BandSide<A>& side = a.sides[d];
      const i64 next = divided(a, rest, side.rows, side.by_rows, side.of_rows), row = rest - next * side.rows;
      spans[d] = span_of(side, row);
      offset += spans[d].first * step;
      to += row * to_step;
      step *= side.columns;
      to_step *= side.rows;
      rest = next;
    }
    const i64 plane = rest * kRows;
    const int live = a.planes - plane < kRows ? (int)(a.planes - plane) : kRows;
    const T* const x = a.x + plane * a.from + offset;
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    const Span& last = spans[kAxes - 1];
    if constexpr (kAxes == 1) {
      add_line(a, last, x, live, (A)1, sum);
    } else {
      const i64 line = a.sides[kAxes - 1].columns * a.inner;
      each_tap<kTaps[kBefore]>(spans[kBefore].count, [&](int k) {
        const A w = spans[kBefore].weights[k];
        if constexpr (kAxes == 2) {
          add_line(a, last, x + k * line, live, w, sum);
        } else {
          const i64 sheet = a.sides[1].columns * line;
          each_tap<kTaps[0]>(spans[0].count, [&](int j) {
            add_line(a, last, x + k * line + j * sheet, live, w * spans[0].weights[j], sum);
          });
        }
      });
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < live) a.y[(plane + r) * a.to + to] = store(sum[r]);
    }
  }
}

// One axis: lane l of kLanes has the terms l, l + kLanes, ... of an element.
extern "C" __global__ void __launch_bounds__(kThreads) multiply_long_band(const Args a) {
  __shared__ A warps[kThreads / 32];
  const BandSide<A>& side = a.sides[0];
  const int lane = threadIdx.x % kLanes;
  constexpr int kTogether = kThreads / kLanes;  // elements of a block
  const i64 count = a.planes * a.to;
  for (i64 first = (i64)blockIdx.x * kTogether; first < count; first += (i64)gridDim.x * kTogether) {
    const i64 i = first + threadIdx.x / kLanes;
    A sum = 0;
    if (i < count) {
      const i64 line = quotient(i, a.inner), plane = quotient(line, side.rows);
      const Span span = span_of(side, line - plane * side.rows);
      const T* const x = a.x + plane * a.from + span.first * a.inner + (i - line * a.inner);
#pragma unroll 8
      for (int k = lane; k < span.count; k += kLanes) sum = fused(span.weights[k], load(x[k * a.inner]), sum);
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if constexpr (kLanes > 32) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
      __syncthreads();
      sum = 0;
#pragma unroll
      for (int w = 0; w < kThreads / 32; ++w) sum += warps[w];
    }
    if (lane == 0 && i < count) a.y[i] = store(sum);
  }
}

}  // namespace ebb::cuda
