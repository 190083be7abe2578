// SPDX-License-Identifier: MIT
// Rows of attention's scores, a block per row. Scores are of type A, weights of type T; where both are the same they
// share memory.
#pragma once
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = AttentionRowsArgs<T, A>;

// Columns that a position sees.
struct Seen {
  i64 first, end;
  __device__ __forceinline__ Seen(const Args& a, i64 batch, i64 position) : first(0), end(a.columns) {
    if (a.documents) {
      const i32* const bounds = a.documents + (batch + a.first_batch) / a.heads * 2 * a.all_positions + position;
      first = bounds[0];
      if (bounds[a.all_positions] < end) end = bounds[a.all_positions];
    }
    if (a.causal && position + 1 < end) end = position + 1;
  }
};
EBB A score_at(const Args& a, const A* row, const A* mask, const Seen& seen, i64 c) {
  if (c < seen.first || c >= seen.end) return -(A)infinity();
  const A s = (A)a.scale * row[c];
  return mask ? s + mask[c * a.mask_3] : s;
}
EBB const A* mask_of(const Args& a, i64 batch, i64 position) {
  if (!a.mask) return 0;
  batch += a.first_batch;
  return a.mask + batch / a.heads * a.mask_0 + batch % a.heads * a.mask_1 + position * a.mask_2;
}
extern "C" __global__ void __launch_bounds__(kThreads) softmax_rows(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const i64 batch = r / a.positions, position = a.first_position + r % a.positions;
    A* const row = a.scores + r * a.columns;
    const A* const mask = mask_of(a, batch, position);
    const Seen seen(a, batch, position);
    f64 top = -infinity();
    for (i64 c = threadIdx.x; c < a.columns; c += kThreads) {
      const A s = score_at(a, row, mask, seen, c);
      row[c] = s;
      top = larger(top, (f64)s);
    }
    top = over_block<Most>(top, shared);
    const A shift = top == -infinity() ? (A)0 : (A)top;
    f64 total = 0;
    for (i64 c = threadIdx.x; c < a.columns; c += kThreads) total += (f64)exp_of(row[c] - shift);
    total = over_block<Plus>(total, shared);
    const A inverse = total == 0 ? (A)0 : (A)(1 / total);
    for (i64 c = threadIdx.x; c < a.columns; c += kThreads)
      a.weights[r * a.columns + c] = store(exp_of(row[c] - shift) * inverse);
    if (threadIdx.x == 0) a.lse[batch * a.all_positions + position] = (A)(top + log(total));
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) differentiate_rows(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const i64 batch = r / a.positions, position = a.first_position + r % a.positions;
    const A* const row = a.scores + r * a.columns;
    const A* const mask = mask_of(a, batch, position);
    const Seen seen(a, batch, position);
    f64 delta = 0;
    for (i64 e = threadIdx.x; e < a.values; e += kThreads)
      delta += (f64)load(a.go[batch * a.go_batch + position * a.go_row + e * a.go_value]) *
               (f64)load(a.o[batch * a.o_batch + position * a.o_row + e * a.o_value]);
    const A all = (A)over_block<Plus>(delta, shared);
    const A lse = a.lse[batch * a.all_positions + position], shift = lse == -(A)infinity() ? (A)0 : lse;
    for (i64 c = threadIdx.x; c < a.columns; c += kThreads) {
      const i64 at = r * a.columns + c;
      const A p = exp_of(score_at(a, row, mask, seen, c) - shift);
      const A ds = (A)a.scale * p * (a.gradient[at] - all);
      a.weights[at] = store(p);
      a.weights_gradient[at] = store(ds);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
