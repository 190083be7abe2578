// SPDX-License-Identifier: MIT
#pragma once
#include "calls/convolution.h"
#include "ebb/ops/pool.h"

// Shared by the pools and their gradient rules.
namespace ebb {

// Sums of the windows of x [N, C, H, W], in the compute dtype; and the transpose, with elements of `dtype`.
Tensor window_sum_node(const Tensor& x, const PoolCall& call, const Shape& output);
Tensor window_spread_node(const Tensor& y, const PoolCall& call, const Shape& image, DType dtype);

// Windows over images.
struct PoolWindows {
  PoolCall call;
  Shape image, output;  // [N, C, H, W], [N, C, P, Q]
  Shape result;         // returned to the caller
};
PoolWindows avg_pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                             const AvgPoolOptions& options);
// Not rounded to half precision.
Tensor avg_pool2d_widened(const Tensor& x, const SizePair& window, const AvgPoolOptions& o);
// Windows that cover the last axes, one or two of them, with so many outputs.
PoolWindows adaptive_windows(const char* op, int axes, const Shape& shape, const SizePair& output);
// Divisors of the windows' sums, [P, Q].
Tensor avg_pool_divisors(const PoolWindows& p, bool count_include_pad, DType dtype);

}  // namespace ebb
