// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/ops/conv.h"

// Windows as columns, and resizing.
namespace ebb {

struct UnfoldOptions {
  SizePair dilation = 1;
  SizePair padding = 0;
  SizePair stride = 1;
};
// The windows of [N, C, H, W] as columns: [N, C·kh·kw, number of windows].
Tensor unfold(const Tensor& x, SizePair window, const UnfoldOptions& options = {});
// The inverse: columns are added where their windows overlap, [N, C, H, W].
Tensor fold(const Tensor& x, SizePair output, SizePair window, const UnfoldOptions& options = {});

// [..., C·r², H, W] as [..., C, H·r, W·r], and the inverse.
Tensor pixel_shuffle(const Tensor& x, std::int64_t factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor);

struct InterpolateOptions {
  std::vector<std::int64_t> size = {};    // of the axes after the channels, one for all or one per axis
  std::vector<double> scale_factor = {};  // instead of sizes
  std::string mode = "nearest";           // nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area
  bool align_corners = false;             // the first and last elements keep their positions (linear and cubic)
  bool recompute_scale_factor = false;    // false: positions come from scale_factor itself where it is given
  bool antialias = false;  // bilinear and bicubic: the filter grows with the step, so that a smaller picture is smooth
};
// Resizes the axes after the channels of [N, C, ...], by torch.nn.functional.interpolate's formulas.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

// Whole channels of [N, C, ...] are dropped with probability p, the others are scaled by 1/(1 − p).
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace ebb
