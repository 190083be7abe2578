// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/wide_product.h"

namespace ebb::cuda {

struct StatisticsTile : WideTile {
  static constexpr int kStages = 4;
  static constexpr u32 kSharedBytes = 1024 + kStages * kStageBytes + 16 * kStages;
};

// Some of a row's logits z, in units of log 2. Where the largest is not finite, the sums are those with m = 0.
struct StatisticsPart {
  f32 top, total, weighted;  // m = max z, Σ 2^(z − m), Σ 2^(z − m)·(z − m)
  i32 column;                // the first one with m, or with NaN where m is
};

struct TokenStatisticsArgs {
  WideProductArgs product;
  StatisticsPart* parts;  // [rows, tiles of columns]
  f32* own;               // of each row, the product of its target
  const i64* target;
  i64 target_step;
  f32 factor;  // of a product, for the logit in units of log 2
  u32 unused;
  i64 further[3];
};
EBB_ARGS(48, TokenStatisticsArgs);

constexpr int kPartsOfBlock = kThreads / 32;  // that a block of parts_of_products makes

struct StatisticsRowsArgs {
  StatisticsPart* parts;
  f32* own;
  const f32* products;  // rows `step` apart
  const i64* target;
  f32* out;  // rows of {log p, log Σ e^z} and, where they are wanted, {−Σ p·log p} and {the first class with max z}
  i64 rows, classes, step, tiles, target_step, entropy, argmax;
  f32 factor;
  u32 unused;
};
EBB_ARGS(13, StatisticsRowsArgs);

}  // namespace ebb::cuda
