// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/tensor_map.h"

namespace ebb::cuda {

// Two warpgroups multiply 64 rows each, and one copies.
struct WideTile {
  static constexpr int kRows = 128, kColumns = 256;  // of a block
  static constexpr int kBlockK = 64;                 // elements of k that are copied at a time
  static constexpr int kThreads = 384;
  static constexpr u32 kXBytes = kRows * kBlockK * 2, kStageBytes = kXBytes + kColumns * kBlockK * 2;
};

// x [rows, width], W [classes, width].
struct WideProductArgs {
  TensorMap x, w;
  i64 rows, classes, width, unused[5];  // maps begin at multiples of 64 bytes
};
EBB_ARGS(40, WideProductArgs);

}  // namespace ebb::cuda
