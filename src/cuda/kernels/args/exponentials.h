// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/tensor_map.h"

namespace ebb::cuda {

struct ExponentialTile {
  // Two warpgroups multiply 64 rows each and one copies; three stages of 48 KB and the finished rows fill a
  // multiprocessor (others were not measured).
  static constexpr int kRows = 128, kColumns = 256;  // of a block
  static constexpr int kBlockK = 64, kStages = 3;    // elements of k that are copied at a time, and how often ahead
  static constexpr int kThreads = 384;
  static constexpr u32 kXBytes = kRows * kBlockK * 2, kStageBytes = kXBytes + kColumns * kBlockK * 2;
  static constexpr u32 kLineBytes = kColumns * 2 + 16;  // of a finished row: 16 more spread it over the banks
  static constexpr u32 kSharedBytes = 1024 + kStages * kStageBytes + kRows * kLineBytes + 16 * kStages;
};

struct ExponentialsArgs {
  TensorMap x, w;
  u16* out;
  const f32* reference;
  const i32* chosen;
  f32 *own, *parts;
  i64 rows, classes, step, width;  // rows of `out` are `step` apart
};
EBB_ARGS(48, ExponentialsArgs);

}  // namespace ebb::cuda
