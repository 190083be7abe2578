// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>

#include "graph/node.h"

// Images x [N, C, (D,) H, W] read at points grid [N, P, axes] between their elements, y [N, C, P]. A grid has its last
// axis first (x, y, z), and −1 and 1 are the ends of an axis. With the weights w of the elements around a point,
//   grid_sample (x, grid) -> y = Σ_k w_k·x[k],  grid_sample_image_gradient (y, grid) -> x, its transpose, and
//   grid_sample_grid_gradient (y, x, grid) -> the gradient of Σ y·grid_sample(x, grid) to the grid.
// All of one floating dtype, computed in its compute dtype. A plane of an image has less than 2³¹ elements.
//
// A coordinate that is NaN makes the value NaN, whatever the padding, and gives no gradient to the image. Infinite ones
// count as far outside; their reflection is NaN.
namespace ebb {

struct GridSampleCall {
  enum Padding : std::int64_t { zeros, border, reflection };
  std::int64_t taps = 2;  // elements along an axis that a point reads: 1 nearest, 2 linear, 4 cubic
  std::int64_t padding = zeros;
  bool align_corners = false;  // the ends are the centers of the outermost elements, not their edges

  bool operator==(const GridSampleCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("taps", taps);
    visit("padding", padding);
    visit("align_corners", align_corners);
  }
};

// One axis: maps a coordinate of the grid to a place among `size` elements, exactly as kernels compute it.
//   place = (grid + 1)·scale + shift;  where points are reflected, from `shift` on by `span` elements and back
// Places more than kReach outside are clamped first, so that they fit an integer; this changes no value.
struct GridAxis {
  static constexpr double kReach = 4;
  std::int64_t size;
  double scale, shift, span;

  GridAxis(const GridSampleCall& call, std::int64_t size)
      : size(size),
        scale(static_cast<double>(call.align_corners ? size - 1 : size) / 2),
        shift(call.align_corners ? 0 : -0.5),
        span(static_cast<double>(call.align_corners ? size - 1 : size)) {}

  // The largest place representable in the compute dtype: f32 counts no more than 2²⁴ elements.
  double last(DType compute) const {
    if (compute == DType::f64) return static_cast<double>(size - 1);
    const auto rounded = static_cast<float>(size - 1);
    return static_cast<double>(rounded) > static_cast<double>(size - 1) ? std::nextafter(rounded, 0.0f) : rounded;
  }
};

}  // namespace ebb
