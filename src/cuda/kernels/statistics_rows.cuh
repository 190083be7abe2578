// SPDX-License-Identifier: MIT
// Statistics of rows of logits: parts of them from products in memory, and rows from their parts.
#pragma once
#include "cuda/kernels/args/token_statistics.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

// A warp per row and part, eight columns per lane.
extern "C" __global__ void __launch_bounds__(kThreads) parts_of_products(const StatisticsRowsArgs a) {
  constexpr int kEach = 8;
  static_assert(32 * kEach == WideTile::kColumns, "a warp has the columns of a part");
  const int lane = threadIdx.x & 31;
  for (i64 at = (i64)blockIdx.x * kPartsOfBlock + (threadIdx.x >> 5); at < a.rows * a.tiles;
       at += (i64)gridDim.x * kPartsOfBlock) {
    const i64 row = quotient(at, a.tiles), first = (at - row * a.tiles) * WideTile::kColumns + lane * kEach;
    const f32* const z = a.products + row * a.step + first;
    const int live = (int)(a.classes - first < kEach ? a.classes - first : kEach);  // may be negative
    f32 top = -(f32)infinity(), total = 0, weighted = 0;
    for (int i = 0; i < live; ++i) top = larger(top, z[i]);
    top = over_lanes<Most>(top);
    const f32 base = is_finite(top) ? top * a.factor : 0.0f;
    i64 column = a.classes;
    for (int i = live - 1; i >= 0; --i) {
      const f32 less = fmaf(z[i], a.factor, -base), e = power_of_two(less);
      total += e;
      weighted = fmaf(e, fmaxf(less, -1000.0f), weighted);  // of −∞ it is 0
      if (z[i] == top) column = first + i;
    }
    total = over_lanes<Plus>(total);
    weighted = over_lanes<Plus>(weighted);
    if (top != top) {  // the first NaN, not the first of the others
      column = a.classes;
      for (int i = live - 1; i >= 0; --i)
        if (z[i] != z[i]) column = first + i;
    }
    column = over_lanes<Least>(column);
    if (lane == 0) a.parts[at] = {top * a.factor, total, weighted, (i32)column};
    const i64 chosen = a.target[row * a.target_step] - first;
    if (chosen >= 0 && chosen < live) a.own[row] = z[chosen];
  }
}

EBB f64 base_of(f64 top) { return is_finite(top) ? top : 0.0; }

// Sums with one base, as with another. Sums of nothing stay 0, whatever the bases.
EBB void move_base(f64& total, f64& weighted, f64 from, f64 to) {
  if (from == to || total == 0) return;
  const f64 factor = exp2(from - to);
  weighted = (weighted + (from - to) * total) * factor;
  total *= factor;
}

// A block per row.
extern "C" __global__ void __launch_bounds__(kThreads) statistics_of_parts(const StatisticsRowsArgs a) {
  __shared__ u64 shared[kThreads];
  constexpr f64 kLog2 = 0.69314718055994530942;
  for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const StatisticsPart* const parts = a.parts + row * a.tiles;
    f64 top = -infinity(), total = 0, weighted = 0;
    for (i64 i = threadIdx.x; i < a.tiles; i += kThreads) top = larger(top, (f64)parts[i].top);
    top = over_block<Most>(top, shared);
    i64 column = a.classes;
    for (i64 i = threadIdx.x; i < a.tiles; i += kThreads) {
      const f64 mine = (f64)parts[i].top;
      f64 part = (f64)parts[i].total, part_weighted = (f64)parts[i].weighted;
      move_base(part, part_weighted, base_of(mine), base_of(top));
      total += part;
      weighted += part_weighted;
      if (mine == top || (mine != mine && top != top)) column = smaller(column, (i64)parts[i].column);
    }
    total = over_block<Plus>(total, shared);
    weighted = over_block<Plus>(weighted, shared);
    column = over_block<Least>(column, shared);
    if (threadIdx.x != 0) continue;
    const f64 log_total = log2(total), sum = base_of(top) + log_total;
    f32* out = a.out + row * (2 + a.entropy + a.argmax);
    *out++ = (f32)(((f64)a.own[row] * (f64)a.factor - sum) * kLog2);
    *out++ = (f32)(sum * kLog2);
    if (a.entropy) *out++ = (f32)((log_total - weighted / total) * kLog2);
    if (a.argmax) *out = (f32)column;
  }
}

}  // namespace ebb::cuda
