// SPDX-License-Identifier: MIT
// The tiles of a product of bf16 x·Wᵀ, for Hopper, by blocks that stay and do something else with every finished tile
// than to store it.
//
// Two blocks of a cluster take 128 rows each and the same 256 columns. A thread loads tiles of x and of W, of W half,
// which both blocks get; two warpgroups multiply, 64 rows each. The blocks walk over all tiles, rows first: W is read
// from memory once.
//
// Sums are the same whatever the number of rows: along k in steps of 16 in order.
#pragma once
#include "cuda/kernels/args/wide_product.h"
#include "cuda/kernels/parts/mbarrier.cuh"
#include "cuda/kernels/parts/warpgroup.cuh"

namespace ebb::cuda {

using Tile = WideTile;
constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kBlockK = Tile::kBlockK;
constexpr u32 kXBytes = Tile::kXBytes, kStage = Tile::kStageBytes;
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

struct Walk {
  int rows, tiles, blocks, first, step;
  __device__ __forceinline__ Walk(const WideProductArgs& a)
      : rows((int)(a.rows + 2 * kRows - 1) / (2 * kRows)),
        tiles(rows * ((int)(a.classes + kColumns - 1) / kColumns)),
        blocks((int)(a.width + kBlockK - 1) / kBlockK),
        first(blockIdx.x >> 1),
        step(gridDim.x >> 1) {}
  __device__ __forceinline__ int row(int t, u32 rank) const { return (t % rows * 2 + (int)rank) * kRows; }
  __device__ __forceinline__ int column_tile(int t) const { return t / rows; }
};

// Columns from `live` on become −∞. A thread has two in every eight, of two rows.
EBB void hide_columns(f32 (&d)[kColumns / 8][4], int live) {
  if (live >= kColumns) return;
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (8 * j + 2 * (int)(threadIdx.x & 3) + (i & 1) >= live) d[j][i] = -(f32)infinity();
  }
}

// Tiles that are in shared memory at a time, and the barriers that say which are there and which have been used.
template <int stages>
struct Pipeline {
  u32 base, full, empty, rank;

  // By all threads of the block.
  __device__ __forceinline__ Pipeline(u32 base, u32 barriers) : base(base), full(barriers), empty(full + 8 * stages) {
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
      for (int s = 0; s < stages; ++s) {
        mbarrier_init(full + 8 * s, 1);
        mbarrier_init(empty + 8 * s, 4);
      }
      mbarriers_are_made();
    }
    cluster_sync();
  }

  __device__ __forceinline__ void load_tiles(const WideProductArgs& a) const {
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
        if (++s == stages) s = 0, phase ^= 1;
      }
    }
  }

  // 64 rows by a warpgroup: finish(sums, first row of the block's tile, number of the tile of columns). A stage is
  // empty when both warpgroups of both blocks say so: the copies come to both.
  template <class Finish>
  __device__ __forceinline__ void multiply(const WideProductArgs& a, int half, const Finish& finish) const {
    const Walk walk(a);
    const int in_group = threadIdx.x & 127;
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
        if (++s == stages) s = 0, phase ^= 1;
      }
      wait_for_products<0>();
      if (in_group < 2) mbarrier_arrive(empty + 8 * last, in_group);
      finish(d, walk.row(t, rank), walk.column_tile(t));
    }
  }
};

}  // namespace ebb::cuda
