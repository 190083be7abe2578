// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "ebb/tensor.h"

namespace ebb {

struct GridSampleOptions {
  std::string mode = "bilinear";       // bilinear, nearest or bicubic; of volumes the same along three axes
  std::string padding_mode = "zeros";  // outside: zeros, border (the nearest element) or reflection
  bool align_corners = false;          // −1 and 1 are the centers of the outermost elements, not their edges
};
// x [N, C, H, W] read at the points of grid [N, H', W', 2], whose x and y go from −1 to 1; or x [N, C, D, H, W] at those
// of grid [N, D', H', W', 3]. A coordinate that is NaN gives NaN.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

}  // namespace ebb
