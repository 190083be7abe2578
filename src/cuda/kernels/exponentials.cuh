// SPDX-License-Identifier: MIT
// A product of bf16 whose results leave as exponentials, for Hopper.
//
// Three warps turn a finished tile into exponentials while the next one is multiplied (parts/wide_product.cuh); their
// sums are over a tile's columns.
#pragma once
#include "cuda/kernels/args/exponentials.h"
#include "cuda/kernels/parts/wide_product.cuh"

namespace ebb::cuda {

constexpr u32 kLine = ExponentialTile::kLineBytes;

// Between the multiplying warps and those that exponentiate: 1: the finished tile has been read, 2: there is one.
template <int which>
EBB void barrier_sync() {
  asm volatile("bar.sync %0, 352;" ::"n"(which) : "memory");
}
template <int which>
EBB void barrier_arrive() {
  asm volatile("bar.arrive %0, 352;" ::"n"(which) : "memory");
}

// Eight rows at a time, eight columns a lane: all their loads first.
EBB void exponentiate(const ExponentialsArgs& a, int warp, int lane, u32 rank, const char* finished) {
  constexpr int kGroups = kRows / 8, kWarps = 3;
  const Walk walk(a.product);
  const int rows = (int)a.product.rows, classes = (int)a.product.classes, tiles = (classes + kColumns - 1) / kColumns;
  barrier_arrive<1>();
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    const int first_row = walk.row(t, rank), tile = walk.column_tile(t), column = tile * kColumns + 8 * lane;
    const int live = classes - column;  // of the lane's eight columns, those that there are
    // A lane has the numbers of one row of its group. They come a group ahead.
    f32 next_reference;
    int next_chosen;
    const auto look_ahead = [&](int group) {
      const int of = first_row + group * 8 + (lane & 7);
      const bool there = group < kGroups && of < rows;
      next_reference = there ? a.reference[of] * kToTwo : 0.0f;
      next_chosen = there && lane < 8 ? a.chosen[of] - tile * kColumns : -1;
    };
    look_ahead(warp);
    barrier_sync<2>();
#pragma unroll 1
    for (int group = warp; group < kGroups; group += kWarps) {
      const char* const lines = finished + group * 8 * (int)kLine;
      const int row = first_row + group * 8, mine = row + (lane & 7), chosen = next_chosen;
      const f32 reference = next_reference;
      look_ahead(group + kWarps);
      if ((u32)chosen < (u32)kColumns) a.own[mine] = from_bf16(*(const u16*)(lines + lane * (int)kLine + chosen * 2));
      Words4 z[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) z[r] = *(const Words4*)(lines + r * (int)kLine + lane * 16);
      f32 sum[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const f32 less = __shfl_sync(0xffffffffu, reference, r);
        f32 total = 0;
        u32 e[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const f32 low = power_of_two(fmaf(__uint_as_float(z[r].x[j] << 16), kToTwo, -less));
          const f32 high = power_of_two(fmaf(__uint_as_float(z[r].x[j] & 0xFFFF0000u), kToTwo, -less));
          total += low + high;
          e[j] = to_bf16x2(low, high);
        }
        if (live < 8) {
          total = 0;
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            if (j < live) total += power_of_two(fmaf(from_bf16((u16)(z[r].x[j >> 1] >> (j & 1) * 16)), kToTwo, -less));
            if (j >= live) e[j >> 1] &= j & 1 ? 0xFFFFu : 0xFFFF0000u;
          }
        }
        if (live > 0 && row + r < rows) store16(a.out + (i64)(row + r) * a.step + column, e[0], e[1], e[2], e[3]);
        sum[r] = total;
      }
      // Lanes exchange halves of their rows, so that each has the sum of one row over four lanes, then over all.
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool up = lane & 4;
        const f32 other = other_lane(up ? sum[j] : sum[j + 4], 4);
        sum[j] = (up ? sum[j + 4] : sum[j]) + other;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool up = lane & 2;
        const f32 other = other_lane(up ? sum[j] : sum[j + 2], 2);
        sum[j] = (up ? sum[j + 2] : sum[j]) + other;
      }
      const f32 other = other_lane(lane & 1 ? sum[0] : sum[1], 1);
      f32 total = (lane & 1 ? sum[1] : sum[0]) + other;
      total += other_lane(total, 8);
      total += other_lane(total, 16);
      if (lane < 8 && mine < rows) a.parts[(i64)mine * tiles + tile] = total;
    }
    barrier_arrive<1>();
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(ExponentialTile::kThreads, 1)
    exponentials(const __grid_constant__ ExponentialsArgs a) {
  DYNAMIC_SHARED(smem);
  const u32 unaligned = (u32)__cvta_generic_to_shared(smem), base = (unaligned + 1023) & ~1023u;
  const u32 finished = base + ExponentialTile::kStages * kStage;
  const Pipeline<ExponentialTile::kStages> pipeline(base, finished + kRows * kLine);
  const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
  if (group == 0) {
    leave_registers<120>();
    if (warp > 0) {
      exponentiate(a, warp - 1, lane, pipeline.rank, smem + (finished - unaligned));
    } else if (lane == 0) {
      pipeline.load_tiles(a.product);
    }
  } else {
    take_registers<192>();
    const u32 to = finished + ((group - 1) * 64 + warp * 16 + (lane & 15)) * kLine + (lane >> 4) * 16;
    pipeline.multiply(a.product, group - 1, [&](const f32(&d)[kColumns / 8][4], int, int) {
      barrier_sync<1>();
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        const u32 w0 = to_bf16x2(d[2 * j][0], d[2 * j][1]), w1 = to_bf16x2(d[2 * j][2], d[2 * j][3]);
        const u32 w2 = to_bf16x2(d[2 * j + 1][0], d[2 * j + 1][1]), w3 = to_bf16x2(d[2 * j + 1][2], d[2 * j + 1][3]);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + j * 32), "r"(w0),
                     "r"(w1), "r"(w2), "r"(w3)
                     : "memory");
      }
      barrier_arrive<2>();
    });
    barrier_sync<1>();  // as often as it is arrived at
  }
  cluster_sync();  // nobody leaves while copies may still come
}

}  // namespace ebb::cuda
