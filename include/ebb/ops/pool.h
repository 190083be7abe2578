// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "ebb/ops/conv.h"
#include "ebb/tensor.h"

namespace ebb {

// Windows of [N, C, H, W] (2d) or [N, C, L] (1d); N may be omitted. In 1d the number for W is used.

struct MaxPoolOptions {
  std::optional<SizePair> stride = {};  // default: the window's size
  SizePair padding = 0;                 // at most half the window; padding is never the largest
  SizePair dilation = 1;
  bool ceil_mode = false;  // also use a last window that extends past the end
};
// The largest element of each window; of equal ones the first, which alone gets the gradient. NaN is the largest.
Tensor max_pool2d(const Tensor& x, SizePair window, const MaxPoolOptions& options = {});
Tensor max_pool1d(const Tensor& x, std::int64_t window, const MaxPoolOptions& options = {});
// The values and where in its plane (i64, row-major) each was found.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, SizePair window, const MaxPoolOptions& options = {});
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, std::int64_t window,
                                                  const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<SizePair> stride = {};
  SizePair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // false: a mean of the elements that exist
};
Tensor avg_pool2d(const Tensor& x, SizePair window, const AvgPoolOptions& options = {});
Tensor avg_pool1d(const Tensor& x, std::int64_t window, const AvgPoolOptions& options = {});

// Means and maxima of windows [⌊i·size/output⌋, ⌈(i + 1)·size/output⌉).
Tensor adaptive_avg_pool2d(const Tensor& x, SizePair output);
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output);
Tensor adaptive_max_pool2d(const Tensor& x, SizePair output);
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output);
// The values and where in its plane (i64, row-major) each was found.
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, SizePair output);
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x, std::int64_t output);

// Over all axes after the channels, which are kept with size 1: [N, C, 1, ...].
Tensor global_avg_pool(const Tensor& x);
Tensor global_max_pool(const Tensor& x);  // the gradient is split among equal elements, as for max

}  // namespace ebb
