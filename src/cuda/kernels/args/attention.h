// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/tensor_map.h"

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
  const i32* documents;  // bounds [all batches / heads, 2, all_positions]
  const T* go;
  const T* o;
  i64 values, go_batch, go_row, go_value, o_batch, o_row, o_value;
  f64 scale;
};
EBB_ARGS(29, AttentionRowsArgs<u8, u8>);

// 64 rows are what a product of a warpgroup, 128 threads, has; 64 columns were chosen, not measured.
constexpr int kAttentionStep = 64;  // columns, or rows, that a block of a fused kernel goes through at a time
constexpr int kAttentionOwn = 64;   // rows, or columns, that a block has itself, times its slices
constexpr int kAttentionThreads = 128;

struct AttentionMatrix {
  u16* data;  // of f32, too
  i64 outer, inner, row;  // strides
};
struct FusedAttentionArgs {
  AttentionMatrix q, k, v, o, g, dq, dk, dv;
  f32* lse;
  f32* delta;
  i64 rows, columns, batches, heads, causal;
  i64 groups;  // heads of q for one of k and v, whose gradients are their sums
  f64 scale;
  // By threads alone:
  i64 wide;         // whether rows can be read 16 bytes at a time
  const f32* mask;  // added to scores
  i64 mask_outer, mask_head, mask_row, mask_column;
  const i32* documents;  // bounds [outer, 2, rows]: the first position of a row's document, and the first behind it
};
EBB_ARGS(48, FusedAttentionArgs);

// The kernels of warpgroups: how they divide their work and shared memory.
struct AttentionTiling {
  int width, values;  // of a row of q and k, and of v: multiples of 8 up to 256
  int consumers;      // warpgroups that multiply, 64 rows (or columns) each; one more copies
  int step;           // columns (or rows) that they go through at a time: a multiple of 16
  int stages;         // of the first matrix that they go through (k forward, else the one that is multiplied twice)
  int more_stages;    // of the second
  int registers;      // of a consumer's thread; producers have what is left
  int blocks;         // of a multiprocessor
};
struct PipelinedAttentionArgs {
  TensorMap q_map, k_map, v_map, g_map;
  AttentionMatrix q, k, v, o, g, dq, dk, dv;
  f32* lse;
  f32* delta;
  i64 rows, columns, batches, heads;  // batches: of all heads
  i64 groups;                         // heads of q for one of k and v, whose gradients are their sums
  i64 shared;                         // heads of k and v that are one in memory
  i64 causal;
  const f32* mask;  // added to scores
  i64 mask_outer, mask_head, mask_row, mask_column;
  const i32* documents;  // bounds [outer, 2, rows]: the first position of a row's document, and the first behind it
  f64 scale;
};
EBB_ARGS(112, PipelinedAttentionArgs);

}  // namespace ebb::cuda
