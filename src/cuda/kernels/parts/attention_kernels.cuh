// SPDX-License-Identifier: MIT
// The kernels of the fused attention, after its products.
#pragma once
#include "cuda/kernels/parts/attention_tiles.cuh"
#if defined(EBB_EDITOR) && !defined(ATTENTION_PRODUCTS)
#include "attention_by_groups.cuh"  // to be read alone
#endif

namespace ebb::cuda {

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocks) attend(const FusedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  u16* const own = tiles_in(memory);
  u16* const ring = own + kOwnD;
  // Rows that see most columns first: what is left at the end is short.
  const int tiles = gridDim.x / (int)a.batches, batch = blockIdx.x % (int)a.batches;
  const int first = (tiles - 1 - (int)(blockIdx.x / (int)a.batches)) * kOwn, rows = (int)a.rows,
            columns = (int)a.columns;
  const bool causal = a.causal;
  const int seen = causal && first + kOwn < columns ? first + kOwn : columns;
  const int groups = (int)a.groups;
  SourceD k(a.k, a, batch / groups, 0, groups);
  SourceE v(a.v, a, batch / groups, 0, groups);
  const auto fetch_step = [&](int j) {
    u16* const to = ring + (j / kStep & 1) * kStepBoth;
    k.fetch<kStep>(to, columns - j);
    v.fetch<kStep>(to + kStepD, columns - j);
    copies_begun();
  };
  SourceD(a.q, a, batch, first).fetch<kOwn>(own, rows - first);
  fetch_step(0);
  const f32 factor = (f32)(a.scale * 1.4426950408889634);  // powers of two
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 o[kSlices][kE / 8][4], top[kSlices][2], total[kSlices][2];
  clear<kE>(o);
#pragma unroll
  for (int s = 0; s < kSlices; ++s) top[s][0] = top[s][1] = neg_inf(), total[s][0] = total[s][1] = 0;
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> q = own_rows<kD>(own);
  for (int j = 0; j < seen; j += kStep) {
    if (j > 0) {
      wait_for_copies<0>();
      copies_are_seen();
    }
    __syncthreads();
    if (j + kStep < seen) fetch_step(j + kStep);
    if (causal && j >= first_of_unit + kUnit) continue;
    const u16 *const keys = ring + (j / kStep & 1) * kStepBoth, *const values = keys + kStepD;
    f32 p[kSlices][kStep / 8][4];
    multiply_transposed<kStep, kD>(p, q, keys);
    wait_for(p);
    if (j + kStep > columns || (causal && j + kStep > mine + 1)) apply_mask<kStep>(p, causal, mine - j, columns - j);
    online_softmax<kStep>(p, o, top, total, factor);
    add_product<kStep, kE>(o, p, values);
    wait_for(o);
  }
  f32 inverse[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const f32 all = sum_of_quad(total[s][h]);
      inverse[s][h] = all == 0 ? 0 : 1 / all;
      const int row = mine + s * 16 + h * 8 + (lane >> 2);
      if ((lane & 3) == 0 && row < rows)
        a.lse[(i64)batch * rows + row] = all == 0 ? neg_inf() : top[s][h] * (f32)a.scale + logf(all);
    }
  }
  // Rows of another length are not where the warp's own were; a group has read its rows together.
  if (kE != kD || kGroups) __syncthreads();
  write<kValues, kE>(matrix_of(a.o, a, batch) + first * a.o.row, a.o.row, kE > kD ? ring : own, o, inverse,
                     rows - first);
}

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocksOfRows)
    differentiate_rows(const FusedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  u16 *const own_q = tiles_in(memory), *const own_g = own_q + kOwnD, *const ring = own_g + kOwnE;
  u16* const own_o = ring + kStepBoth;  // until the second step's columns come there
  const int tiles = gridDim.x / (int)a.batches, batch = blockIdx.x % (int)a.batches;
  const int first = (tiles - 1 - (int)(blockIdx.x / (int)a.batches)) * kOwn, rows = (int)a.rows,
            columns = (int)a.columns;
  const bool causal = a.causal;
  const int seen = causal && first + kOwn < columns ? first + kOwn : columns;
  const int groups = (int)a.groups;
  SourceD k(a.k, a, batch / groups, 0, groups);
  SourceE v(a.v, a, batch / groups, 0, groups);
  const auto fetch_step = [&](int j) {
    u16* const to = ring + (j / kStep & 1) * kStepBoth;
    k.fetch<kStep>(to, columns - j);
    v.fetch<kStep>(to + kStepD, columns - j);
    copies_begun();
  };
  SourceD(a.q, a, batch, first).fetch<kOwn>(own_q, rows - first);
  SourceE(a.g, a, batch, first).fetch<kOwn>(own_g, rows - first);
  SourceE(a.o, a, batch, first).fetch<kOwn>(own_o, rows - first);
  fetch_step(0);
  const f32 factor = (f32)(a.scale * 1.4426950408889634);
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 shift[kSlices][2], delta[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mine + s * 16 + h * 8 + (lane >> 2);
      shift[s][h] = row < rows ? shift_of(a.lse[(i64)batch * rows + row]) : -neg_inf();
    }
  }
  f32 dq[kSlices][kD / 8][4];
  clear<kD>(dq);
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> q = own_rows<kD>(own_q);
  const Own<kE> g = own_rows<kE>(own_g);
  {
    u32 dy[kSlices][kE / 16][4], o[kSlices][kE / 16][4];
    load_rows<kE>(dy, own_g);
    load_rows<kE>(o, own_o);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        f32 sum = 0;
#pragma unroll
        for (int n = 0; n < kE / 16; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sum = fmaf(half_of(dy[s][n][h + (i & 2)], i & 1), half_of(o[s][n][h + (i & 2)], i & 1), sum);
        }
        delta[s][h] = sum_of_quad(sum);
        const int row = mine + s * 16 + h * 8 + (lane >> 2);
        if ((lane & 3) == 0 && row < rows) a.delta[(i64)batch * rows + row] = delta[s][h];
      }
    }
  }
  for (int j = 0; j < seen; j += kStep) {
    if (j > 0) {
      wait_for_copies<0>();
      copies_are_seen();
    }
    __syncthreads();
    if (j + kStep < seen) fetch_step(j + kStep);
    const u16* const tile = ring + (j / kStep & 1) * kStepBoth;
    constexpr int kPart = kPartOfRows;
#pragma unroll
    for (int part = 0; part < kStep; part += kPart) {
      const int column = j + part;
      if (column >= columns || (causal && column >= first_of_unit + kUnit)) continue;
      f32 p[kSlices][kPart / 8][4], dp[kSlices][kPart / 8][4];
      multiply_transposed<kPart, kD>(p, q, tile + part * stride_of(kD));
      multiply_transposed<kPart, kE>(dp, g, tile + kStepD + part * stride_of(kE));
      wait_for(p, dp);
      if (column + kPart > columns || (causal && column + kPart > mine + 1))
        apply_mask<kPart>(p, causal, mine - column, columns - column);
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const f32 w = power_of_two(fmaf(p[s][n][i], factor, -shift[s][i / 2]));
            p[s][n][i] = w * (dp[s][n][i] - delta[s][i / 2]);
          }
        }
      }
      add_product<kPart, kD>(dq, p, tile + part * stride_of(kD));
      wait_for(dq);
    }
  }
  f32 scale[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) scale[s][0] = scale[s][1] = (f32)a.scale;
  if (kGroups) __syncthreads();
  write<kWidth, kD>(matrix_of(a.dq, a, batch) + first * a.dq.row, a.dq.row, own_q, dq, scale, rows - first);
}

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocksOfColumns)
    differentiate_columns(const FusedAttentionArgs a) {
  DYNAMIC_SHARED(memory);
  u16 *const own_k = tiles_in(memory), *const own_v = own_k + kOwnD, *const ring = own_v + kOwnE;
  f32* const numbers = (f32*)(ring + 2 * kStepBoth);  // shifts and δ of a step's rows, and of the next
  const int groups = (int)a.groups, batches = (int)a.batches / groups, batch = blockIdx.x % batches;  // of k and v
  const int first = (int)(blockIdx.x / batches) * kOwn;
  const int rows = (int)a.rows, columns = (int)a.columns;
  const bool causal = a.causal;
  const int begin = causal ? first / kStep * kStep : 0;  // rows before it see nothing of this
  // Steps of one head of q after the other.
  const int steps = begin < rows ? (rows - begin + kStep - 1) / kStep : 0, all_steps = steps * groups;
  SourceD q(a.q, a, batch * groups, begin);
  SourceE g(a.g, a, batch * groups, begin);
  int head = batch * groups, row_of_step = begin;  // of the step that is fetched
  // Threads up to 63 take the lse of a row, the others its δ. A row that is not there has weights of 0.
  f32 next = 0;
  const auto fetch_step = [&](int step) {
    u16* const to = ring + (step & 1) * kStepBoth;
    q.fetch<kStep>(to, rows - row_of_step);
    g.fetch<kStep>(to + kStepD, rows - row_of_step);
    copies_begun();
    const int i = row_of_step + (threadIdx.x & 63);
    next = i < rows ? (threadIdx.x < 64 ? a.lse : a.delta)[(i64)head * rows + i] : threadIdx.x < 64 ? -neg_inf() : 0.0f;
    row_of_step += kStep;
    if (row_of_step >= rows && step + 1 < all_steps) {
      row_of_step = begin;
      q = SourceD(a.q, a, ++head, begin);
      g = SourceE(a.g, a, head, begin);
    }
  };
  if (all_steps > 0) {
    SourceD(a.k, a, batch, first, groups).fetch<kOwn>(own_k, columns - first);
    SourceE(a.v, a, batch, first, groups).fetch<kOwn>(own_v, columns - first);
    fetch_step(0);
  }
  const f32 factor = (f32)(a.scale * 1.4426950408889634);
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 dk[kSlices][kD / 8][4], dv[kSlices][kE / 8][4];
  clear<kD>(dk);
  clear<kE>(dv);
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> k = own_rows<kD>(own_k);
  const Own<kE> v = own_rows<kE>(own_v);
  for (int step = 0, i = begin; step < all_steps; ++step, i = i + kStep < rows ? i + kStep : begin) {
    f32* const shifts = numbers + (step & 1) * 128;
    shifts[threadIdx.x] = threadIdx.x < 64 ? shift_of(next) : next;
    wait_for_copies<0>();
    copies_are_seen();
    __syncthreads();
    if (step + 1 < all_steps) fetch_step(step + 1);
    const u16* const tile = ring + (step & 1) * kStepBoth;
    constexpr int kPart = kPartOfColumns;
#pragma unroll
    for (int part = 0; part < kStep; part += kPart) {
      const int row = i + part;
      if (row >= rows || (causal && row + kPart <= first_of_unit)) continue;
      f32 p[kSlices][kPart / 8][4], dp[kSlices][kPart / 8][4];  // a column's weights lie along a row here
      multiply_transposed<kPart, kD>(p, k, tile + part * stride_of(kD));
      multiply_transposed<kPart, kE>(dp, v, tile + kStepD + part * stride_of(kE));
      wait_for(p, dp);
      if (causal && row < mine + 16 * kSlices - 1) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              if (mine + s * 16 + e / 2 * 8 + (lane >> 2) > row + n * 8 + (lane & 3) * 2 + (e & 1))
                p[s][n][e] = neg_inf();
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
        const int at = part + n * 8 + (lane & 3) * 2;
        const f32 shift[2] = {shifts[at], shifts[at + 1]}, delta[2] = {shifts[64 + at], shifts[65 + at]};
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            p[s][n][e] = power_of_two(fmaf(p[s][n][e], factor, -shift[e & 1]));
            dp[s][n][e] = p[s][n][e] * (dp[s][n][e] - delta[e & 1]);
          }
        }
      }
      add_product<kPart, kE>(dv, p, tile + kStepD + part * stride_of(kE));
      add_product<kPart, kD>(dk, dp, tile + part * stride_of(kD));
      wait_for(dk, dv);
    }
  }
  f32 scale[kSlices][2], one[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    scale[s][0] = scale[s][1] = (f32)a.scale;
    one[s][0] = one[s][1] = 1;
  }
  if (kGroups) __syncthreads();
  write<kWidth, kD>(matrix_of(a.dk, a, batch, groups) + first * a.dk.row, a.dk.row, own_k, dk, scale, columns - first);
  write<kValues, kE>(matrix_of(a.dv, a, batch, groups) + first * a.dv.row, a.dv.row, own_v, dv, one, columns - first);
}

}  // namespace ebb::cuda
