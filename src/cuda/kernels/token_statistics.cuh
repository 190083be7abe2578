// SPDX-License-Identifier: MIT
// A product of bf16, rows of logits, of which only sums over 256 columns leave: for Hopper (parts/wide_product.cuh).
// The warpgroups that multiplied a tile make its sums in their registers, while tiles of the next one are copied.
// kEntropy, kArgmax: what is wanted beside Σ 2^z.
#pragma once
#include "cuda/kernels/args/token_statistics.h"
#include "cuda/kernels/parts/wide_product.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kEntropy = true, kArgmax = true;
#endif

// A thread has two columns in every eight of a row; four threads have the row.
EBB f32 over_four(f32 x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Finishes the thread's row `h` of two. Columns that do not exist are −∞.
template <int h>
EBB void finish_row(const f32 (&d)[kColumns / 8][4], const TokenStatisticsArgs& a, int row, int tile) {
  const int lane = threadIdx.x & 31, first = 2 * (lane & 3), rows = (int)a.product.rows;
  f32 top = -(f32)infinity();
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) top = larger(top, larger(d[j][2 * h], d[j][2 * h + 1]));
  top = larger(top, __shfl_xor_sync(0xffffffffu, top, 1));
  top = larger(top, __shfl_xor_sync(0xffffffffu, top, 2));
  const f32 base = is_finite(top) ? top * a.factor : 0.0f;
  f32 total[2] = {0, 0}, weighted[2] = {0, 0};
  int column = kColumns;
#pragma unroll
  for (int j = kColumns / 8 - 1; j >= 0; --j) {
#pragma unroll
    for (int i = 1; i >= 0; --i) {
      const f32 z = d[j][2 * h + i], less = fmaf(z, a.factor, -base), e = power_of_two(less);
      total[i] += e;
      if (kEntropy) weighted[i] = fmaf(e, fmaxf(less, -1000.0f), weighted[i]);  // of −∞ it is 0
      if (kArgmax && z == top) column = 8 * j + first + i;
    }
  }
  if (kArgmax && top != top) {
#pragma unroll
    for (int j = kColumns / 8 - 1; j >= 0; --j) {
#pragma unroll
      for (int i = 1; i >= 0; --i)
        if (d[j][2 * h + i] != d[j][2 * h + i]) column = 8 * j + first + i;
    }
  }
  total[0] = over_four(total[0] + total[1]);
  if (kEntropy) weighted[0] = over_four(weighted[0] + weighted[1]);
  if (kArgmax) {
    column = min(column, __shfl_xor_sync(0xffffffffu, column, 1));
    column = min(column, __shfl_xor_sync(0xffffffffu, column, 2));
  }
  const int tiles = (int)(a.product.classes + kColumns - 1) / kColumns;
  if ((lane & 3) == 0 && row < rows)
    a.parts[(i64)row * tiles + tile] = {top * a.factor, total[0], weighted[0], tile * kColumns + column};
  // Few tiles have the product of a row's target.
  const int chosen = row < rows ? (int)a.target[row * a.target_step] - tile * kColumns : -1;
  if (!__any_sync(0xffffffffu, (u32)chosen < (u32)kColumns)) return;
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (chosen == 8 * j + first + i) a.own[row] = d[j][2 * h + i];
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(StatisticsTile::kThreads, 1)
    token_statistics(const __grid_constant__ TokenStatisticsArgs a) {
  DYNAMIC_SHARED(smem);
  const u32 base = ((u32)__cvta_generic_to_shared(smem) + 1023) & ~1023u;
  const Pipeline<StatisticsTile::kStages> pipeline(base, base + StatisticsTile::kStages * kStage);
  const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
  if (group == 0) {
    leave_registers<40>();
    if (threadIdx.x == 0) pipeline.load_tiles(a.product);
  } else {
    take_registers<232>();
    pipeline.multiply(a.product, group - 1, [&](f32(&d)[kColumns / 8][4], int first_row, int tile) {
      hide_columns(d, (int)a.product.classes - tile * kColumns);
      const int row = first_row + (group - 1) * 64 + warp * 16 + (lane >> 2);
      finish_row<0>(d, a, row, tile);
      finish_row<1>(d, a, row + 8, tile);
    });
  }
  cluster_sync();  // nobody leaves while copies may still come
}

}  // namespace ebb::cuda
