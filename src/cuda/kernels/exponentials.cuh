// SPDX-License-Identifier: MIT
// A product of bf16 whose results leave as exponentials, for Hopper.
//
// Two blocks of a cluster take 128 rows each and the same 256 columns. A thread loads tiles of x and of W, of W half,
// which both blocks get; two warpgroups multiply, 64 rows each; three warps turn the finished tile into exponentials
// while the next one is multiplied. The blocks stay, and walk over all tiles, rows first: W is read from memory once.
//
// Sums are the same whatever the number of rows: along k in steps of 16 in order, and over a tile's columns.
#pragma once
#include "cuda/kernels/args/exponentials.h"
#include "cuda/kernels/parts/mbarrier.cuh"
#include "cuda/kernels/parts/warpgroup.cuh"

namespace ebb::cuda {

using Tile = ExponentialTile;
constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kBlockK = Tile::kBlockK, kStages = Tile::kStages;
constexpr u32 kXBytes = Tile::kXBytes, kStage = Tile::kStageBytes, kLine = Tile::kLineBytes;
constexpr f32 kToTwo = 1.4426950408889634f;

constexpr u32 kOneTile = 16;  // no columns behind it
EBB void multiply_add(f32 (&d)[32][4], u64 x, u64 w, int add) {
  asm volatile(WGMMA("%130", "256", "bf16", WGMMA_SUMS_128, "%128", "%129", "0, 0")
               : WGMMA_32("+", d, 0), WGMMA_32("+", d, 8), WGMMA_32("+", d, 16), WGMMA_32("+", d, 24)
               : "l"(x), "l"(w), "r"(add));
}

// In a block of the cluster. Without an order of memory: what it is about is read by tensor cores and written by
// copies.
EBB void mbarrier_arrive(u32 barrier, u32 block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}
EBB void copy_tile(u32 to, const TensorMap& map, u32 barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
EBB void copy_tile_to_both(u32 to, const TensorMap& map, u32 barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"((u16)3)
      : "memory");
}
EBB void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
// Between the multiplying warps and those that exponentiate: 1: the finished tile has been read, 2: there is one.
template <int which>
EBB void barrier_sync() {
  asm volatile("bar.sync %0, 352;" ::"n"(which) : "memory");
}
template <int which>
EBB void barrier_arrive() {
  asm volatile("bar.arrive %0, 352;" ::"n"(which) : "memory");
}

struct Walk {
  int rows, tiles, blocks, first, step;
  __device__ __forceinline__ Walk(const ExponentialsArgs& a)
      : rows((int)(a.rows + 2 * kRows - 1) / (2 * kRows)),
        tiles(rows * ((int)(a.classes + kColumns - 1) / kColumns)),
        blocks((int)(a.width + kBlockK - 1) / kBlockK),
        first(blockIdx.x >> 1),
        step(gridDim.x >> 1) {}
  __device__ __forceinline__ int row(int t, u32 rank) const { return (t % rows * 2 + (int)rank) * kRows; }
  __device__ __forceinline__ int column_tile(int t) const { return t / rows; }
};

EBB void load_tiles(const ExponentialsArgs& a, u32 rank, u32 base, u32 full, u32 empty) {
  const Walk walk(a);
  int s = 0, phase = 0;
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    const int row = walk.row(t, rank), column = walk.column_tile(t) * kColumns + (int)rank * (kColumns / 2);
    for (int k = 0; k < walk.blocks; ++k) {
      mbarrier_wait(empty + 8 * s, phase ^ 1);
      const u32 at = base + s * kStage;
      mbarrier_expect(full + 8 * s, kStage);
      copy_tile(at, a.x, full + 8 * s, k * kBlockK, row);
      copy_tile_to_both(at + kXBytes + rank * (kColumns / 2 * kBlockK * 2), a.w, full + 8 * s, k * kBlockK, column);
      if (++s == kStages) s = 0, phase ^= 1;
    }
  }
}

// 64 rows by a warpgroup. A stage is empty when both warpgroups of both blocks say so: the copies come to both.
EBB void multiply(const ExponentialsArgs& a, int half, u32 base, u32 full, u32 empty, u32 finished) {
  const Walk walk(a);
  const int warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31, in_group = threadIdx.x & 127;
  f32 d[kColumns / 8][4];
  int s = 0, phase = 0;
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    int last = 0;
    for (int k = 0; k < walk.blocks; ++k) {
      mbarrier_wait(full + 8 * s, phase);
      const u32 at = base + s * kStage;
      const u64 x = tile_at(at + half * (kXBytes / 2), kOneTile), w = tile_at(at + kXBytes, kOneTile);
      products_begin();
#pragma unroll
      for (int i = 0; i < kBlockK / 16; ++i) multiply_add(d, x + 2 * i, w + 2 * i, k | i);
      products_end();
      if (k > 0) {
        wait_for_products<1>();
        if (in_group < 2) mbarrier_arrive(empty + 8 * last, in_group);
      }
      last = s;
      if (++s == kStages) s = 0, phase ^= 1;
    }
    wait_for_products<0>();
    if (in_group < 2) mbarrier_arrive(empty + 8 * last, in_group);
    barrier_sync<1>();
    const u32 to = finished + (half * 64 + warp * 16 + (lane & 15)) * kLine + (lane >> 4) * 16;
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      const u32 w0 = to_bf16x2(d[2 * j][0], d[2 * j][1]), w1 = to_bf16x2(d[2 * j][2], d[2 * j][3]);
      const u32 w2 = to_bf16x2(d[2 * j + 1][0], d[2 * j + 1][1]), w3 = to_bf16x2(d[2 * j + 1][2], d[2 * j + 1][3]);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + j * 32), "r"(w0),
                   "r"(w1), "r"(w2), "r"(w3)
                   : "memory");
    }
    barrier_arrive<2>();
  }
  barrier_sync<1>();  // as often as it is arrived at
}

// Eight rows at a time, eight columns a lane: all their loads first.
EBB void exponentiate(const ExponentialsArgs& a, int warp, int lane, u32 rank, const char* finished) {
  constexpr int kGroups = kRows / 8, kWarps = 3;
  const Walk walk(a);
  const int rows = (int)a.rows, classes = (int)a.classes, tiles = (classes + kColumns - 1) / kColumns;
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

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(Tile::kThreads, 1)
    exponentials(const __grid_constant__ ExponentialsArgs a) {
  DYNAMIC_SHARED(smem);
  const u32 unaligned = (u32)__cvta_generic_to_shared(smem), base = (unaligned + 1023) & ~1023u;
  const u32 finished = base + kStages * kStage, full = finished + kRows * kLine, empty = full + 8 * kStages;
  const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(full + 8 * s, 1);
      mbarrier_init(empty + 8 * s, 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 120;");
    if (warp > 0) {
      exponentiate(a, warp - 1, lane, rank, smem + (finished - unaligned));
    } else if (lane == 0) {
      load_tiles(a, rank, base, full, empty);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
    multiply(a, group - 1, base, full, empty, finished);
  }
  cluster_sync();  // nobody leaves while copies may still come
}

}  // namespace ebb::cuda
