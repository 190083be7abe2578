// SPDX-License-Identifier: MIT
#pragma once
#include "calls/convolution.h"
#include "ebb/ops/pool.h"

// Shared by the pools and their gradient rules.
namespace ebb {

// Windows over images: a sum of each is a convolution of every channel with ones.
struct PoolWindows {
  ConvCall call;  // groups: the channels
  ConvCall::Pair window{1, 1};
  Shape image, output;  // [N, C, H, W], [N, C, P, Q]
  Shape result;         // what the caller gets
  Tensor ones(DType dtype) const;
};
PoolWindows avg_pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                             const AvgPoolOptions& options);
// Divisors of the windows' sums, [P, Q].
Tensor avg_pool_divisors(const PoolWindows& p, bool count_include_pad, DType dtype);

// Row i averages elements [⌊i·size/outputs⌋, ⌈(i + 1)·size/outputs⌉): [outputs, size].
Tensor averaging_matrix(std::int64_t size, std::int64_t outputs, DType dtype);

}  // namespace ebb
