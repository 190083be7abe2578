// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/wide_product.h"

namespace ebb::cuda {

struct ExponentialTile : WideTile {
  static constexpr int kStages = 3;  // with the finished rows they fill a multiprocessor (others were not measured)
  static constexpr u32 kLineBytes = kColumns * 2 + 16;  // of a finished row: 16 more spread it over the banks
  static constexpr u32 kSharedBytes = 1024 + kStages * kStageBytes + kRows * kLineBytes + 16 * kStages;
};

struct ExponentialsArgs {
  WideProductArgs product;
  u16* out;  // rows `step` apart
  const f32* reference;
  const i32* chosen;
  f32 *own, *parts;
  i64 step, unused[2];
};
EBB_ARGS(48, ExponentialsArgs);

}  // namespace ebb::cuda
