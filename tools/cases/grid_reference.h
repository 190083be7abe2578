// SPDX-License-Identifier: MIT
#pragma once
#include "cases/array.h"
#include "ops/grid_sample_nodes.h"

// grid_sample and its gradients in plain loops, for x [N, C, (D,) H, W], grid [N, P, axes] and y [N, C, P].
namespace ebb::table {

// Elements along one axis read for a coordinate of the grid: places (−1 outside), weights and their slopes.
struct GridLine {
  std::vector<std::int64_t> place;
  std::vector<double> weight, slope;
};

inline GridLine grid_line(const GridSampleCall& call, std::int64_t size, double g) {
  const double last = static_cast<double>(size - 1), low = call.align_corners ? 0 : -0.5, high = last - low;
  const double scale = (high - low) / 2;
  double slope = scale;
  const auto inside = [&](double x) {
    if (call.padding == GridSampleCall::reflection) {
      if (low == high) slope = 0, x = 0;
      while (low < high && (x < low || x > high)) {
        x = x < low ? 2 * low - x : 2 * high - x;
        slope = -slope;
      }
    }
    if (call.padding != GridSampleCall::zeros && (x < 0 || x > last)) slope = 0, x = std::clamp(x, 0.0, last);
    return x;
  };
  const auto element = [&](double x) { return x < 0 || x > last ? -1 : static_cast<std::int64_t>(x); };
  double x = (g + 1) * scale + low;
  if (call.taps == 1) return {{element(std::nearbyint(inside(x)))}, {1}, {0}};
  if (call.taps == 2) {
    x = inside(x);
    const double below = std::floor(x), t = x - below;
    return {{element(below), element(below + 1)}, {1 - t, t}, {-slope, slope}};
  }
  GridLine line;
  const double below = std::floor(x);
  for (int k = -1; k <= 2; ++k) {
    // Keys' kernel with a = −0.75, as a function of the distance.
    const double a = -0.75, d = std::fabs(x - below - k), sign = x < below + k ? -scale : scale;
    line.weight.push_back(d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                                 : a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a);
    line.slope.push_back(sign * (d <= 1 ? 3 * (a + 2) * d * d - 2 * (a + 3) * d : 3 * a * d * d - 10 * a * d + 8 * a));
    line.place.push_back(element(inside(below + k)));
  }
  return line;
}

// Calls body(image, point, element's place along the axes, weight, derivatives of the weight by the coordinates).
template <class Body>
void each_grid_tap(const GridSampleCall& call, const Index& image, const Array& grid, Body body) {
  const std::size_t axes = image.size() - 2;
  each_index({grid.shape[0], grid.shape[1]}, [&](const Index& point) {
    std::vector<GridLine> lines;  // in the order of the image
    Index taps;
    for (std::size_t a = 0; a < axes; ++a) {
      lines.push_back(
          grid_line(call, image[a + 2], grid.at({point[0], point[1], static_cast<std::int64_t>(axes - 1 - a)})));
      taps.push_back(call.taps);
    }
    each_index(taps, [&](const Index& tap) {
      Index place;
      double weight = 1;
      std::vector<double> slopes(axes, 1);
      for (std::size_t a = 0; a < axes; ++a) {
        const auto k = static_cast<std::size_t>(tap[a]);
        place.push_back(lines[a].place[k]);
        weight *= lines[a].weight[k];
        for (std::size_t b = 0; b < axes; ++b) slopes[axes - 1 - b] *= a == b ? lines[a].slope[k] : lines[a].weight[k];
        if (place.back() < 0) return;
      }
      body(point[0], point[1], place, weight, slopes);
    });
  });
}

inline Index with_channel(std::int64_t image, std::int64_t channel, const Index& place) {
  Index i{image, channel};
  i.insert(i.end(), place.begin(), place.end());
  return i;
}

inline Array grid_sample_reference(const GridSampleCall& call, const Array& x, const Array& grid) {
  Array y({x.shape[0], x.shape[1], grid.shape[1]});
  each_grid_tap(call, x.shape, grid, [&](auto n, auto p, const Index& place, double weight, const auto&) {
    for (std::int64_t c = 0; c < x.shape[1]; ++c) y.at({n, c, p}) += weight * x.at(with_channel(n, c, place));
  });
  return y;
}
inline Array grid_sample_image_gradient_reference(const GridSampleCall& call, const Array& y, const Array& grid,
                                                  const Index& image) {
  Array x(image);
  each_grid_tap(call, image, grid, [&](auto n, auto p, const Index& place, double weight, const auto&) {
    for (std::int64_t c = 0; c < image[1]; ++c) x.at(with_channel(n, c, place)) += weight * y.at({n, c, p});
  });
  return x;
}
inline Array grid_sample_grid_gradient_reference(const GridSampleCall& call, const Array& y, const Array& x,
                                                 const Array& grid) {
  Array out(grid.shape);
  each_grid_tap(call, x.shape, grid, [&](auto n, auto p, const Index& place, double, const auto& slopes) {
    for (std::int64_t c = 0; c < x.shape[1]; ++c) {
      for (std::size_t a = 0; a < slopes.size(); ++a)
        out.at({n, p, static_cast<std::int64_t>(a)}) += slopes[a] * y.at({n, c, p}) * x.at(with_channel(n, c, place));
    }
  });
  return out;
}

}  // namespace ebb::table
