// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

template <class T, class A>
struct AttentionRowsArgs {
  A* scores;
  A* gradient;  // do·vᵀ
  T* weights;
  T* weights_gradient;
  A* lse;
  const A* mask;
  i64 rows, columns;  // of this part; a row of the part is (batch, position)
  i64 positions, first_position, all_positions, causal, first_batch, heads;
  i64 mask_0, mask_1, mask_2, mask_3;
  const T* go;
  const T* o;
  i64 values, go_batch, go_row, go_value, o_batch, o_row, o_value;
  f64 scale;
};
EBB_ARGS(28, AttentionRowsArgs<u8, u8>);

constexpr int kAttentionStep = 64;  // columns, or rows, that a block of a fused kernel goes through at a time
constexpr int kAttentionOwn = 64;   // rows, or columns, that a block has itself, times its slices
constexpr int kAttentionThreads = 128;

struct AttentionMatrix {
  u16* data;
  i64 outer, inner, row;  // strides
};
struct FusedAttentionArgs {
  AttentionMatrix q, k, v, o, g, dq, dk, dv;
  f32* lse;
  f32* delta;
  i64 rows, columns, batches, heads, causal;
  f64 scale;
};
EBB_ARGS(40, FusedAttentionArgs);

}  // namespace ebb::cuda
