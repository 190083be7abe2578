// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

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
