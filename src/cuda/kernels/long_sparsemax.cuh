// SPDX-License-Identifier: MIT
// Thresholds τ with Σ max(0, x − τ) = 1 of long rows, a block per piece of a row: a launch per step of Michelot's, which
// adds what is above the threshold so far. A piece whose largest element is not above it is left unread. Rows that need
// more steps than were launched are finished by a block each.
#pragma once
#include "cuda/kernels/args/rows.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = LongSparsemaxArgs<T>;
constexpr int kAhead = 8;  // loads in flight

// `low` is relative to `top`, NaN if the row has NaN or an infinity at its top; count: of the elements above the low
// before; is_done: no fewer are above this one.
struct State {
  f64 top, low;
  i64 count;
  bool is_done;
};

EBB f64 top_of(const Args& a, i64 row, u64* shared) {
  f64 top = -infinity(), wrong = 0;
  for (i64 p = threadIdx.x; p < a.pieces; p += kThreads) {
    const f64 x = a.tops[row * a.pieces + p];
    top = x > top ? x : top;
    wrong = x != x ? 1 : wrong;
  }
  top = over_block<Most>(top, shared);
  wrong = over_block<Most>(wrong, shared);
  return wrong > 0 || fabs(top) == infinity() ? not_a_number() : top;
}

// After `a.step` steps.
EBB State state_of(const Args& a, i64 row, u64* shared) {
  State s{top_of(a, row, shared), -1, -1, false};
  if (s.top != s.top) return {s.top, s.top, 0, true};
  if (a.step == 0) return s;
  const i64 rows = a.x.n, from = ((a.step - 1) % 2 * rows + row) * a.pieces;
  f64 sum = 0;
  i64 count = 0;
  for (i64 p = threadIdx.x; p < a.pieces; p += kThreads) sum += a.sums[from + p], count += a.counts[from + p];
  sum = over_block<Plus>(sum, shared);
  s.count = over_block<Plus>(count, shared);
  s.low = (sum - 1) / (f64)s.count;
  s.is_done = a.step > 1 && s.count >= a.before[(a.step - 1) % 2 * rows + row];
  return s;
}

// Adds what is above `low` in a piece.
struct Above {
  f64 sum;
  i64 count;
};
EBB Above above(const Args& a, i64 row, i64 piece, const State& s) {
  const T* const x = (const T*)a.x.data + at(a.x, row);
  const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
  Above r{0, 0};
  for (i64 first = begin + threadIdx.x; first < end; first += kAhead * kThreads) {
    T loaded[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 i = first + k * kThreads;
      loaded[k] = x[(i < end ? i : first) * a.column];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const f64 d = (f64)loaded[k] - s.top;
      if (first + k * kThreads < end && d > s.low) r.sum += d, ++r.count;
    }
  }
  return r;
}

extern "C" __global__ void __launch_bounds__(kThreads) tops_of_pieces(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const i64 row = quotient(task, a.pieces), piece = task - row * a.pieces;
    const T* const x = (const T*)a.x.data + at(a.x, row);
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    f64 top = -infinity(), wrong = 0;
    for (i64 first = begin + threadIdx.x; first < end; first += kAhead * kThreads) {
      T loaded[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const i64 i = first + k * kThreads;
        loaded[k] = x[(i < end ? i : first) * a.column];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const f64 y = (f64)loaded[k];
        top = y > top ? y : top;
        wrong = y != y ? 1 : wrong;
      }
    }
    top = over_block<Most>(top, shared);
    wrong = over_block<Most>(wrong, shared);
    if (threadIdx.x == 0) a.tops[task] = wrong > 0 ? not_a_number() : top;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) add_above(const Args a) {
  __shared__ u64 shared[kThreads];
  const i64 rows = a.x.n;
  for (i64 task = blockIdx.x; task < rows * a.pieces; task += gridDim.x) {
    const i64 row = quotient(task, a.pieces), piece = task - row * a.pieces;
    const State s = state_of(a, row, shared);
    const i64 to = a.step % 2 * rows * a.pieces + task;
    Above r{0, 0};
    if (s.is_done) {  // the next step shall find the same
      const i64 from = (a.step + 1) % 2 * rows * a.pieces + task;
      if (a.step > 0 && s.top == s.top) r = {a.sums[from], a.counts[from]};
    } else if (a.tops[task] - s.top > s.low) {
      r = above(a, row, piece, s);
      r.sum = over_block<Plus>(r.sum, shared);
      r.count = over_block<Plus>(r.count, shared);
    }
    if (threadIdx.x != 0) continue;
    a.sums[to] = r.sum, a.counts[to] = r.count;
    if (piece == 0) a.before[a.step % 2 * rows + row] = s.count;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) finish_thresholds(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 row = blockIdx.x; row < a.x.n; row += gridDim.x) {
    State s = state_of(a, row, shared);
    while (!s.is_done) {
      Above all{0, 0};
      for (i64 piece = 0; piece < a.pieces; ++piece) {
        if (!(a.tops[row * a.pieces + piece] - s.top > s.low)) continue;
        const Above r = above(a, row, piece, s);
        all.sum += r.sum, all.count += r.count;
      }
      all.sum = over_block<Plus>(all.sum, shared);
      all.count = over_block<Plus>(all.count, shared);
      s.is_done = all.count >= s.count;  // more: of an element at the threshold, up to rounding
      s.count = all.count;
      s.low = (all.sum - 1) / (f64)all.count;
    }
    if (threadIdx.x == 0) a.out[row] = (T)(s.low + s.top);
  }
}

}  // namespace ebb::cuda
