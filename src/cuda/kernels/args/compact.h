// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// One load of 16 bytes (other sizes were not measured). On an H200 nonzero of 3 million takes 38 µs,
// PyTorch 42.
constexpr int kTrueEach = 16;                     // elements of a thread
constexpr int kTruePiece = kTrueEach * kThreads;  // of a block

struct TruePlacesArgs {
  const u8* bits;
  i64 n, pieces;
  u64* counts;  // [pieces + 1]: true elements of each, then of those before it
  i64* out;     // [count][rank]
  i64 rank, size[8];
};
EBB_ARGS(14, TruePlacesArgs);

}  // namespace ebb::cuda
