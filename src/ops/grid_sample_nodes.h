// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <vector>

#include "calls/grid_sample.h"
#include "ebb/tensor.h"

// Shared by grid_sample and its gradient rules; shapes and dtypes as in calls/grid_sample.h.
namespace ebb {

Tensor grid_sample_node(const Tensor& x, const Tensor& grid, const GridSampleCall& call);
Tensor grid_sample_image_gradient_node(const Tensor& y, const Tensor& grid, const GridSampleCall& call,
                                       const Shape& image);
Tensor grid_sample_grid_gradient_node(const Tensor& y, const Tensor& x, const Tensor& grid, const GridSampleCall& call);

// The elements around every point and their weights, as formulas of the grid.
class GridTaps {
 public:
  using Orders = std::array<int, 3>;  // of derivatives, by the axes of the image
  GridTaps(const GridSampleCall& call, const Shape& image, const Tensor& grid);
  const Tensor& at() const { return at_; }  // [N, P, taps] i64: places in a plane, −1 outside
  // Derivatives of their weights with respect to the coordinates, [N, P, taps]; undefined where they are zero.
  Tensor weight(const Orders& orders) const;

 private:
  struct Axis {
    Tensor distance, slope;  // from the element below, and its derivative by the coordinate: [N, P, 1]
  };
  Tensor weight_along(std::size_t axis, int order) const;  // [N, P, taps of an axis]

  GridSampleCall call_;
  std::vector<Axis> axes_;
  Tensor at_;
};

}  // namespace ebb
