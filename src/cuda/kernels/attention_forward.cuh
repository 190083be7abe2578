// SPDX-License-Identifier: MIT
// Attention of halves by warpgroups, forward: o = softmax(scale·q·kᵀ)·v and lse. A row keeps its largest score m and
// its share of Σ e^(s − m); a larger score scales what was added before. Scores of the next step are multiplied before
// the weights of this one meet v, so that tensor cores work while weights are made:
//   s(j + 1) = q·k(j + 1)ᵀ,   o += p(j)·v(j)   |   p(j + 1) of s(j + 1) as soon as that is there, beside o's product
// Weights are rounded to the dtype of the inputs for products, everything else is f32. A row's results depend on its
// own columns alone, in an order that no other size changes.
#pragma once
#include "cuda/kernels/parts/attention_row_tiles.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kTurns = true;  // warpgroups take turns with their products, so that one exponentiates meanwhile
#endif

// Weights from their scores, and the factor of what was added before; 1 where the largest score is the same.
EBB void online_softmax(f32 (&p)[kStep / 8][4], f32 (&top)[2], f32 (&total)[2], f32 (&rescale)[2], f32 factor) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    f32 most = larger(p[0][2 * h], p[0][2 * h + 1]);
#pragma unroll
    for (int n = 1; n < kStep / 8; ++n) most = larger(larger(most, p[n][2 * h]), p[n][2 * h + 1]);
    most = larger(top[h], largest_of_quad(most));
    const f32 shift = most == neg_inf() ? 0 : most * factor;
    rescale[h] = power_of_two(top[h] * factor - shift);
    top[h] = most;
    f32 sum = 0;
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
      p[n][2 * h] = power_of_two(fmaf(p[n][2 * h], factor, -shift));
      p[n][2 * h + 1] = power_of_two(fmaf(p[n][2 * h + 1], factor, -shift));
      sum += p[n][2 * h] + p[n][2 * h + 1];
    }
    total[h] = fmaf(total[h], rescale[h], sum);
  }
}

EBB void attend_to_tiles(const Args& a, Memory<false, false>& m) {
  const RowTiles walk(a);
  const int heads = (int)a.heads, lane = lane_of(), group = group_of() - 1;
  const int in_tile = group * 64 + (threadIdx.x >> 5 & 3) * 16;  // the warp's first row
  const u16* const q = m.own + group * 64 * 64;
  const f32 factor = (f32)(a.scale * kToTwo);  // powers of two
  int phase = 0;
  if (kTurns && group == 0) give_turn(0);
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x, phase ^= 1) {
    const int batch = walk.batch(t), warp = walk.first(t) + in_tile, row = warp + (lane >> 2), seen = walk.seen(t);
    const int begin = walk.begin(t);
    const Bounds bounds(a, batch / heads, row);
    f32 o[wide(kValues) / 8][4], top[2] = {neg_inf(), neg_inf()}, total[2] = {0, 0}, rescale[2];
    u32 weights[kStep / 16][4];
    clear(o);
    wait_at(m.own_full, phase);
    {
      f32 p[kStep / 8][4];
      m.first.wait_full();
      multiply_own<deep(kWidth)>(p, q, m.first.tile());
      wait_for_products<0>();
      keep(p);
      leave_stage(m.first.empty + m.first.stage);
      m.first.next();
      if (kMasked) add_mask<false>(p, a, batch / heads, batch % heads, row, begin);
      if (begin + kStep > walk.columns || (walk.causal && begin + kStep > warp + 1))
        apply_mask(p, walk.causal, row - begin, walk.columns - begin);
      if (kDocuments) bounds.apply(p, begin);
      online_softmax(p, top, total, rescale, factor);
      pack(weights, p);
    }
    for (int j = begin + kStep; j < seen; j += kStep) {
      f32 p[kStep / 8][4];
      m.first.wait_full();
      if (kTurns) wait_for_turn(group);
      multiply_own<deep(kWidth)>(p, q, m.first.tile());
      m.second.wait_full();
      add_step(o, weights, m.second.tile());
      if (kTurns) give_turn(group + 1 < kConsumers ? group + 1 : 0);
      wait_for_products<1>();
      keep(p);
      leave_stage(m.first.empty + m.first.stage);
      m.first.next();
      if (kMasked) add_mask<false>(p, a, batch / heads, batch % heads, row, j);
      if (j + kStep > walk.columns || (walk.causal && j + kStep > warp + 1))
        apply_mask(p, walk.causal, row - j, walk.columns - j);
      if (kDocuments) bounds.apply(p, j);
      online_softmax(p, top, total, rescale, factor);
      wait_for_products<0>();
      keep(o);
      keep(weights);
      leave_stage(m.second.empty + m.second.stage);
      m.second.next();
      if (__ballot_sync(0xffffffffu, !(rescale[0] == 1 && rescale[1] == 1))) {
#pragma unroll
        for (int n = 0; n < wide(kValues) / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) o[n][i] *= rescale[i / 2];
        }
      }
      pack(weights, p);
    }
    leave_stage(m.own_empty);
    m.second.wait_full();
    add_step(o, weights, m.second.tile());
    wait_for_products<0>();
    keep(o);
    leave_stage(m.second.empty + m.second.stage);
    m.second.next();
    f32 inverse[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const f32 all = sum_of_quad(total[h]);
      inverse[h] = all == 0 ? 0 : 1 / all;
      if ((lane & 3) == 0 && row + h * 8 < walk.rows)
        a.lse[(i64)batch * walk.rows + row + h * 8] = all == 0 ? neg_inf() : top[h] * (f32)a.scale + logf(all);
    }
    write_rows<kValues>(matrix_of(a.o, batch / heads, batch % heads), a.o.row, row, walk.rows, o, inverse);
  }
}

extern "C" __global__ void __launch_bounds__(kThreadsOfBlock, kTiling.blocks)
    attend(const __grid_constant__ PipelinedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  Memory<false, false> m(memory);
  m.begin(0);
  if (group_of() == 0) {
    leave_registers<kProducerRegisters>();
    if (threadIdx.x == 0) load_row_tiles<false>(a, m);
  } else {
    take_registers<kTiling.registers>();
    attend_to_tiles(a, m);
  }
}

}  // namespace ebb::cuda
