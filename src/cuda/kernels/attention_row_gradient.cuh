// SPDX-License-Identifier: MIT
// Attention of halves by warpgroups, backward for rows: δ = Σ do·o and dq = scale·ds·k, where P = e^(s − lse) is made
// again and ds = P∘(do·vᵀ − δ). Both products of the next step are begun before ds of this one meets k:
//   s(j + 1) = q·k(j + 1)ᵀ,   dp(j + 1) = do·v(j + 1)ᵀ,   dq += ds(j)·k(j)   |   ds(j + 1) beside the last of them
#pragma once
#include "cuda/kernels/parts/attention_row_tiles.cuh"

namespace ebb::cuda {

// δ of a row by the four lanes that have it.
EBB f32 delta_of(const u16* g, const u16* o, bool live) {
  f32 sum = 0;
#pragma unroll
  for (int n = 0; n < (kValues / 8 + 3) / 4; ++n) {
    const int piece = 4 * n + (lane_of() & 3);
    if (!live || piece >= kValues / 8) continue;
    const Words4 x = *(const Words4*)(g + piece * 8), y = *(const Words4*)(o + piece * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(half_of(x.x[i / 2], i & 1), half_of(y.x[i / 2], i & 1), sum);
  }
  return sum_of_quad(sum);
}

EBB void weights_of(f32 (&p)[kStep / 8][4], const f32 (&shift)[2], f32 factor) {
#pragma unroll
  for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[n][i] = power_of_two(fmaf(p[n][i], factor, -shift[i / 2]));
  }
}
// P becomes ds.
EBB void differentiate(f32 (&p)[kStep / 8][4], const f32 (&dp)[kStep / 8][4], const f32 (&delta)[2]) {
#pragma unroll
  for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[n][i] *= dp[n][i] - delta[i / 2];
  }
}

EBB void differentiate_tiles(const Args& a, Memory<true, false>& m) {
  const RowTiles walk(a);
  const int heads = (int)a.heads, lane = lane_of(), group = group_of() - 1;
  const int in_tile = group * 64 + (threadIdx.x >> 5 & 3) * 16;  // the warp's first row
  const u16 *const q = m.own + group * 64 * 64, *const g = m.more_own + group * 64 * 64;
  const f32 factor = (f32)(a.scale * kToTwo);
  int phase = 0;
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x, phase ^= 1) {
    const int batch = walk.batch(t), outer = batch / heads, head = batch % heads;
    const int warp = walk.first(t) + in_tile, row = warp + (lane >> 2), seen = walk.seen(t);
    const int begin = walk.begin(t);
    const Bounds bounds(a, outer, row);
    f32 shift[2], delta[2], dq[wide(kWidth) / 8][4];
    u32 ds[kStep / 16][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + h * 8;
      const bool live = i < walk.rows;
      shift[h] = live ? shift_of(a.lse[(i64)batch * walk.rows + i]) : -neg_inf();
      delta[h] = delta_of(matrix_of(a.g, outer, head) + (i64)i * a.g.row,
                          matrix_of(a.o, outer, head) + (i64)i * a.o.row, live);
      if ((lane & 3) == 0 && live) a.delta[(i64)batch * walk.rows + i] = delta[h];
    }
    clear(dq);
    wait_at(m.own_full, phase);
    {
      f32 p[kStep / 8][4], dp[kStep / 8][4];
      m.first.wait_full();
      multiply_own<deep(kWidth)>(p, q, m.first.tile());
      m.second.wait_full();
      multiply_own<deep(kValues)>(dp, g, m.second.tile());
      wait_for_products<1>();
      keep(p);
      if (kMasked) add_mask<false>(p, a, outer, head, row, begin);
      if (begin + kStep > walk.columns || (walk.causal && begin + kStep > warp + 1))
        apply_mask(p, walk.causal, row - begin, walk.columns - begin);
      if (kDocuments) bounds.apply(p, begin);
      weights_of(p, shift, factor);
      wait_for_products<0>();
      keep(dp);
      leave_stage(m.second.empty + m.second.stage);
      m.second.next();
      differentiate(p, dp, delta);
      pack(ds, p);
    }
    for (int j = begin + kStep; j < seen; j += kStep) {
      const u16* const last = m.first.tile();  // what ds is to be multiplied by
      u64* const last_empty = m.first.empty + m.first.stage;
      m.first.next();
      f32 p[kStep / 8][4], dp[kStep / 8][4];
      m.first.wait_full();
      multiply_own<deep(kWidth)>(p, q, m.first.tile());
      m.second.wait_full();
      multiply_own<deep(kValues)>(dp, g, m.second.tile());
      add_step(dq, ds, last);
      wait_for_products<2>();
      keep(p);
      if (kMasked) add_mask<false>(p, a, outer, head, row, j);
      if (j + kStep > walk.columns || (walk.causal && j + kStep > warp + 1))
        apply_mask(p, walk.causal, row - j, walk.columns - j);
      if (kDocuments) bounds.apply(p, j);
      weights_of(p, shift, factor);
      wait_for_products<1>();
      keep(dp);
      leave_stage(m.second.empty + m.second.stage);
      m.second.next();
      differentiate(p, dp, delta);
      wait_for_products<0>();
      keep(dq);
      keep(ds);
      leave_stage(last_empty);
      pack(ds, p);
    }
    leave_stage(m.own_empty);
    add_step(dq, ds, m.first.tile());
    wait_for_products<0>();
    keep(dq);
    leave_stage(m.first.empty + m.first.stage);
    m.first.next();
    const f32 scale[2] = {(f32)a.scale, (f32)a.scale};
    write_rows<kWidth>(matrix_of(a.dq, outer, head), a.dq.row, row, walk.rows, dq, scale);
  }
}

extern "C" __global__ void __launch_bounds__(kThreadsOfBlock, kTiling.blocks)
    differentiate_rows(const __grid_constant__ PipelinedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  Memory<true, false> m(memory);
  m.begin(0);
  if (group_of() == 0) {
    leave_registers<kProducerRegisters>();
    if (threadIdx.x == 0) load_row_tiles<true>(a, m);
  } else {
    take_registers<kTiling.registers>();
    differentiate_tiles(a, m);
  }
}

}  // namespace ebb::cuda
