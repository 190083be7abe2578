// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"

namespace ebb::cuda {

// Rows of a chunk among those of the whole: rows of a side lie together, sides lie `side` rows apart.
struct ChunkRows {
  i64 first, begin, per_side, side;
};

template <class T>
struct TakeRowsArgs {
  T* x;
  T* block;
  i64 n, width, x_width, x_row, x_column;  // rows of the block are `width` long, with zeros behind those of x
  const i64* target;
  i64 target_step, ignore, put;
  ChunkRows rows;
};
EBB_ARGS(15, TakeRowsArgs<u8>);

template <class T, class A>
struct FinishRowsArgs {
  A* logits;  // rows `step` apart, as those of `narrow`
  T* narrow;
  f64* seen;  // per row of the chunk: peak, total, sum of weights
  A* losses;
  const i64* target;
  const A* cotangent;
  const A* bias;
  const A* weight;
  i64 count, classes, step, target_step, cotangent_step, bias_step, weight_step, ignore, look, differentiate, keep;
  f64 smoothing, z_loss, softcap;
  ChunkRows rows;
  i64 cotangent_by_chunk;
  Complaints complaints;
};
EBB_ARGS(29, FinishRowsArgs<u8, u8>);

template <class L>
struct UsualRowsArgs {
  L* logits;    // rows `step` apart, a multiple of eight
  u16* narrow;  // the gradient, rows `narrow_step` apart; it may take the place of the logits, from the front of a row
  f64* seen;    // per row of the chunk: peak, total
  f32* losses;
  const i64* target;
  const f32* cotangent;
  const f32* weight;
  i64 count, classes, step, narrow_step, target_step, cotangent_step, weight_step, ignore, look, differentiate;
  f64 z_loss;
  ChunkRows rows;
  i64 cotangent_by_chunk;
  Complaints complaints;
};
EBB_ARGS(25, UsualRowsArgs<u8>);

// Threads of a block that keeps a row in shared memory, two blocks on a multiprocessor or one: 1,024 either way.
constexpr int kShortRowsThreads = 512, kLongRowsThreads = 1024;
// Packs of eight logits that a thread of longest_rows has in registers: 24 of its 64 (chosen, not measured).
constexpr int kLongRowsHeld = 3;

constexpr int kReferenceRows = kThreads / 32;  // that a block of `references` makes

struct ScaledRowsArgs {
  u16* e;            // rows `step` apart
  const f32* parts;  // of S
  f32* reference;
  i32* chosen;
  const f32* own;  // the target's logit
  f32* scale;      // s
  u16* x;
  const u16* head;
  f32* losses;
  const i64* target;
  const f32* cotangent;
  const f32* weight;
  i64 count, classes, step, width, tiles, target_step, cotangent_step, weight_step, ignore, differentiate, all;
  ChunkRows rows;
  Complaints complaints;
};
EBB_ARGS(29, ScaledRowsArgs);

struct PutScaledArgs {
  u16* dx;
  const f32 *block, *scale;
  i64 n, width, x_width, row_step, column_step;
  ChunkRows rows;
};
EBB_ARGS(12, PutScaledArgs);

template <class T, class A>
struct AddColumnsArgs {
  const A* z;
  f64* totals;
  T* out;
  i64 count, classes, step, first;
};
EBB_ARGS(7, AddColumnsArgs<u8, u8>);

}  // namespace ebb::cuda
