// SPDX-License-Identifier: MIT
// Attention of halves by warpgroups, backward for columns: dv = Pᵀ·do and dk = scale·dsᵀ·q, summed over the heads of q
// that share them, where P = e^(s − lse) is made again, transposed, and ds = P∘(do·vᵀ − δ). Where both sums do not fit
// registers a launch each makes one of them.
#pragma once
#include "cuda/kernels/parts/attention_pipeline.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kMakesK = true, kMakesV = true;
constexpr bool kAhead = true;  // scores of a step are multiplied before the weights of the last one meet q and do
#endif
using ColumnMemory = Memory<kMakesK, true>;

// Columns that most rows see come first.
struct ColumnTiles {
  int heads, groups, batches, tiles, rows, columns;
  bool causal;
  const i32* documents;
  __device__ __forceinline__ ColumnTiles(const Args& a)
      : heads((int)(a.heads / a.groups)),
        groups((int)a.groups),
        batches((int)(a.batches / a.groups)),
        tiles(((int)a.columns + kOwn - 1) / kOwn),
        rows((int)a.rows),
        columns((int)a.columns),
        causal(a.causal),
        documents(a.documents) {}
  __device__ __forceinline__ int all() const { return tiles * batches; }
  __device__ __forceinline__ int outer(int t) const { return t % batches / heads; }
  __device__ __forceinline__ int head(int t) const { return t % batches % heads; }  // of k and v
  __device__ __forceinline__ int first(int t) const { return t / batches * kOwn; }
  // Rows before it, and from `end` on, see nothing of this. With documents there are as many rows as columns, and those
  // of a column's document see it.
  __device__ __forceinline__ int begin(int t) const {
    if (causal) return first(t) / kStep * kStep;
    return kDocuments ? documents[(i64)outer(t) * 2 * rows + first(t)] / kStep * kStep : 0;
  }
  __device__ __forceinline__ int end(int t) const {
    const int last = (first(t) + kOwn < columns ? first(t) + kOwn : columns) - 1;
    return kDocuments ? documents[((i64)outer(t) * 2 + 1) * rows + last] : rows;
  }
};

EBB void load_column_tiles(const Args& a, ColumnMemory& m) {
  const ColumnTiles walk(a);
  int phase = 1;
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x) {
    if (walk.begin(t) >= walk.rows) continue;
    const int outer = walk.outer(t), head = walk.head(t), key = head / (int)a.shared, first = walk.first(t);
    wait_at(m.own_empty, phase);
    phase ^= 1;
    expect_at(m.own_full, (kOwnD + (kMakesK ? kOwnE : 0)) * 2);
    copy_rows<kOwn, kWidth>(m.own, a.k_map, a.k, m.own_full, first, a.columns, key, outer);
    if (kMakesK) copy_rows<kOwn, kValues>(m.more_own, a.v_map, a.v, m.own_full, first, a.columns, key, outer);
    const int begin = walk.begin(t), end = walk.end(t);
    for (int h = head * walk.groups; h < (head + 1) * walk.groups; ++h) {
      for (int i = begin; i < end; i += kStep) {
        u64* const full = m.first.begin(kStepD);
        copy_rows<kStep, kWidth>(m.first.tile(), a.q_map, a.q, full, i, a.rows, h, outer);
        m.first.next();
        u64* const also_full = m.second.begin(kStepE);
        copy_rows<kStep, kValues>(m.second.tile(), a.g_map, a.g, also_full, i, a.rows, h, outer);
        m.second.next();
      }
    }
  }
}
// By a warp of the producer: shifts and δ of each step's rows. A row that is not there has weights of 0.
EBB void load_numbers(const Args& a, ColumnMemory& m) {
  const ColumnTiles walk(a);
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x) {
    const int begin = walk.begin(t), end = walk.end(t);
    for (int h = walk.head(t) * walk.groups; h < (walk.head(t) + 1) * walk.groups; ++h) {
      const i64 batch = (i64)walk.outer(t) * a.heads + h;
      for (int i = begin; i < end; i += kStep) {
        f32* const to = m.numbers + m.first.stage * 2 * kStep;
        m.first.wait_empty();
#pragma unroll 1
        for (int r = lane_of(); r < kStep; r += 32) {
          const bool live = i + r < walk.rows;
          to[r] = live ? shift_of(a.lse[batch * walk.rows + i + r]) : -neg_inf();
          if (kMakesK) to[kStep + r] = live ? a.delta[batch * walk.rows + i + r] : 0;
        }
        arrive_at(m.first.full + m.first.stage);
        m.first.next();
      }
    }
  }
}

// P from scores, transposed; `row` of the first, and the thread's first column.
EBB void weights_of(f32 (&p)[kStep / 8][4], const f32* shifts, f32 factor, bool causal, int row, int column) {
  const int lane = lane_of();
  if (causal && row < (column - (lane >> 2)) + 15) {
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (column + e / 2 * 8 > row + n * 8 + (lane & 3) * 2 + (e & 1)) p[n][e] = neg_inf();
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kStep / 8; ++n) {
    const f32 shift[2] = {shifts[n * 8], shifts[n * 8 + 1]};
#pragma unroll
    for (int e = 0; e < 4; ++e) p[n][e] = power_of_two(fmaf(p[n][e], factor, -shift[e & 1]));
  }
}
// dp becomes ds.
EBB void differentiate(f32 (&dp)[kStep / 8][4], const f32 (&p)[kStep / 8][4], const f32* deltas) {
#pragma unroll
  for (int n = 0; n < kStep / 8; ++n) {
    const f32 delta[2] = {deltas[n * 8], deltas[n * 8 + 1]};
#pragma unroll
    for (int e = 0; e < 4; ++e) dp[n][e] = p[n][e] * (dp[n][e] - delta[e & 1]);
  }
}

EBB void differentiate_tiles(const Args& a, ColumnMemory& m) {
  constexpr int kSums = kMakesK + kMakesV;  // groups of products on their way, of sums
  const ColumnTiles walk(a);
  const int lane = lane_of(), group = group_of() - 1;
  const int in_tile = group * 64 + (threadIdx.x >> 5 & 3) * 16;  // the warp's first column
  const u16 *const k = m.own + group * 64 * 64, *const v = m.more_own + group * 64 * 64;
  const f32 factor = (f32)(a.scale * kToTwo);
  int phase = 0;
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x) {
    const int begin = walk.begin(t), end = walk.end(t), column = walk.first(t) + in_tile + (lane >> 2);
    const Bounds bounds(a, walk.outer(t), column);
    f32 dk[wide(kWidth) / 8][4], dv[wide(kValues) / 8][4];
    u32 weights[kStep / 16][4], ds[kStep / 16][4];
    clear(dk);
    clear(dv);
    const auto add_sums = [&](const u16* q, const u16* g) {
      if (kMakesV) add_step(dv, weights, g);
      if (kMakesK) add_step(dk, ds, q);
    };
    const auto keep_sums = [&] {
      if (kMakesV) keep(dv), keep(weights);
      if (kMakesK) keep(dk), keep(ds);
    };
    // A stage is left when its last product is done: that of a sum, where this launch makes it.
    const auto leave_q = [&] {
      leave_stage(m.first.empty + m.first.stage);
      m.first.next();
    };
    const auto leave_g = [&] {
      leave_stage(m.second.empty + m.second.stage);
      m.second.next();
    };
    if (begin < walk.rows) {
      wait_at(m.own_full, phase);
      phase ^= 1;
      {
        f32 p[kStep / 8][4], dp[kStep / 8][4];
        const f32* const numbers = m.numbers + m.first.stage * 2 * kStep + (lane & 3) * 2;
        m.first.wait_full();
        multiply_own<deep(kWidth)>(p, k, m.first.tile());
        m.second.wait_full();
        if (kMakesK) multiply_own<deep(kValues)>(dp, v, m.second.tile());
        wait_for_products<kMakesK ? 1 : 0>();
        keep(p);
        if (kMasked) add_mask<true>(p, a, walk.outer(t), walk.head(t) * walk.groups, begin, column);
        if (kDocuments) bounds.apply(p, begin);
        weights_of(p, numbers, factor, walk.causal, begin, column);
        if (!kMakesK) leave_q();
        if (kMakesK) {
          wait_for_products<0>();
          keep(dp);
          if (!kMakesV) leave_g();
          differentiate(dp, p, numbers + kStep);
          pack(ds, dp);
        }
        if (kMakesV) pack(weights, p);
      }
      int row = begin + kStep, head = walk.head(t) * walk.groups;  // of q
      for (int left = ((end - begin + kStep - 1) / kStep) * walk.groups - 1; left > 0; --left, row += kStep) {
        if (row >= end) row = begin, ++head;
        const u16 *const q = m.first.tile(), *const g = m.second.tile();  // of the step before
        u64 *const q_empty = m.first.empty + m.first.stage, *const g_empty = m.second.empty + m.second.stage;
        if (kMakesK) m.first.next();
        if (kMakesV) m.second.next();
        const auto end_sums = [&] {
          wait_for_products<0>();
          keep_sums();
          if (kMakesK) leave_stage(q_empty);
          if (kMakesV) leave_stage(g_empty);
        };
        f32 p[kStep / 8][4], dp[kStep / 8][4];
        const f32* const numbers = m.numbers + m.first.stage * 2 * kStep + (lane & 3) * 2;
        if (!kAhead) {
          add_sums(q, g);
          end_sums();
        }
        m.first.wait_full();
        multiply_own<deep(kWidth)>(p, k, m.first.tile());
        m.second.wait_full();
        if (kMakesK) multiply_own<deep(kValues)>(dp, v, m.second.tile());
        if (kAhead) add_sums(q, g);
        wait_for_products<(kMakesK ? 1 : 0) + (kAhead ? kSums : 0)>();
        keep(p);
        if (kMasked) add_mask<true>(p, a, walk.outer(t), head, row, column);
        if (kDocuments) bounds.apply(p, row);
        weights_of(p, numbers, factor, walk.causal, row, column);
        if (!kMakesK) leave_q();
        if (kMakesK) {
          wait_for_products<kAhead ? kSums : 0>();
          keep(dp);
          if (!kMakesV) leave_g();
          differentiate(dp, p, numbers + kStep);
        }
        if (kAhead) end_sums();
        if (kMakesV) pack(weights, p);
        if (kMakesK) pack(ds, dp);
      }
      leave_stage(m.own_empty);
      add_sums(m.first.tile(), m.second.tile());
      wait_for_products<0>();
      keep_sums();
      if (kMakesK) leave_q();
      if (kMakesV) leave_g();
    }
    const f32 scale[2] = {(f32)a.scale, (f32)a.scale}, one[2] = {1, 1};
    if (kMakesK)
      write_rows<kWidth>(matrix_of(a.dk, walk.outer(t), walk.head(t)), a.dk.row, column, walk.columns, dk, scale);
    if (kMakesV)
      write_rows<kValues>(matrix_of(a.dv, walk.outer(t), walk.head(t)), a.dv.row, column, walk.columns, dv, one);
  }
}

extern "C" __global__ void __launch_bounds__(kThreadsOfBlock, kTiling.blocks)
    differentiate_columns(const __grid_constant__ PipelinedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  ColumnMemory m(memory);
  m.begin(32);
  if (group_of() == 0) {
    leave_registers<kProducerRegisters>();
    if (threadIdx.x == 0) load_column_tiles(a, m);
    if (threadIdx.x / 32 == 1) load_numbers(a, m);
  } else {
    take_registers<kTiling.registers>();
    differentiate_tiles(a, m);
  }
}

}  // namespace ebb::cuda
