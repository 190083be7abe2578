// SPDX-License-Identifier: MIT
#include "ebb/ops/grid_sample.h"

#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/formula.h"
#include "ops/build.h"
#include "ops/grid_sample_nodes.h"
#include "ops/index_nodes.h"

namespace ebb {

Tensor grid_sample_node(const Tensor& x, const Tensor& grid, const GridSampleCall& call) {
  return make_node(Op::grid_sample, x.dtype(), {x.size(0), x.size(1), grid.size(1)}, {x, grid}, with_options(call));
}
Tensor grid_sample_image_gradient_node(const Tensor& y, const Tensor& grid, const GridSampleCall& call,
                                       const Shape& image) {
  return make_node(Op::grid_sample_image_gradient, y.dtype(), image, {y, grid}, with_options(call), "grid_sample");
}
Tensor grid_sample_grid_gradient_node(const Tensor& y, const Tensor& x, const Tensor& grid,
                                      const GridSampleCall& call) {
  return make_node(Op::grid_sample_grid_gradient, grid.dtype(), grid.shape(), {y, x, grid}, with_options(call),
                   "grid_sample");
}

// ---- the formula ----------------------------------------------------------------------------------------------------

namespace {

struct Place {
  Tensor place, slope;
};

// Maps a place into the picture according to the padding; returns it with its derivative.
Place inside(const GridSampleCall& call, const GridAxis& axis, Tensor x) {
  Tensor slope = full({}, 1.0, x.dtype());
  const double last = axis.last(x.dtype());
  if (call.padding == GridSampleCall::reflection && axis.span == 0) return {x * 0.0, slope * 0.0};
  if (call.padding == GridSampleCall::reflection) {
    const Tensor from_low = x - axis.shift, far = abs(from_low), turns = floor(far / axis.span);
    const Tensor rest = far - turns * axis.span, odd = remainder(turns, 2.0) != 0;
    x = where(odd, axis.span - rest, rest) + axis.shift;
    slope = where(logical_xor(from_low < 0, odd), -slope, slope);
  }
  if (call.padding != GridSampleCall::zeros) {
    slope = where(logical_and(x > 0, x < last), slope, 0.0);
    x = clamp(x, 0.0, last);
  }
  return {x, slope};
}

Tensor numbers(std::vector<double> values, DType dtype) {
  const auto count = static_cast<std::int64_t>(values.size());
  return cast(numbers_of_formula(values, Shape{count}), dtype);
}

// Keys' kernel with a = −0.75: pieces for distances up to 1 and from there to 2, and their derivatives.
Tensor cubic(const Tensor& d, const Tensor& far, int order) {
  const double a = -0.75;
  if (order == 0) return where(far, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, ((a + 2) * d - (a + 3)) * d * d + 1);
  if (order == 1) return where(far, (3 * a * d - 10 * a) * d + 8 * a, (3 * (a + 2) * d - 2 * (a + 3)) * d);
  return where(far, 6 * a * d - 10 * a, 6 * (a + 2) * d - 2 * (a + 3));
}

}  // namespace

GridTaps::GridTaps(const GridSampleCall& call, const Shape& image, const Tensor& grid) : call_(call) {
  const int axes = image.rank() - 2;
  const DType dtype = grid.dtype();
  Tensor at, there;
  for (int a = 0; a < axes; ++a) {
    const GridAxis axis(call, image[a + 2]);
    Tensor x = (narrow(grid, 2, axes - 1 - a, 1) + 1.0) * axis.scale + axis.shift;
    if (call.padding != GridSampleCall::reflection)
      x = clamp(x, -GridAxis::kReach, axis.last(dtype) + GridAxis::kReach);
    Tensor slope = full({}, axis.scale, dtype), places;
    if (call.taps < 4) {
      const Place brought = inside(call, axis, x);
      x = brought.place;
      slope = slope * brought.slope;
    }
    const Tensor low = call.taps == 1 ? round(x) : floor(x);
    if (call.taps == 1) places = low;
    if (call.taps == 2) places = low + numbers({0, 1}, dtype);
    if (call.taps == 4) places = inside(call, axis, low + numbers({-1, 0, 1, 2}, dtype)).place;
    axes_.push_back({x - low, slope});

    Shape spread{grid.size(0), grid.size(1)};
    for (int k = 0; k < axes; ++k) spread = spread.inserted(k + 2, k == a ? call.taps : 1);
    places = reshape(places, spread);
    const double last = axis.last(dtype);
    const Tensor here = logical_and(places >= 0, places <= last);
    const Tensor place = cast(where(here, places, 0.0), DType::i64);  // f32 could not count them
    there = there.defined() ? logical_and(there, here) : here;
    at = at.defined() ? at * axis.size + place : place;
  }
  at_ = where(there, at, -1);
  at_ =
      reshape(at_, {grid.size(0), grid.size(1), at_.numel() / std::max<std::int64_t>(1, grid.size(0) * grid.size(1))});
}

Tensor GridTaps::weight_along(std::size_t axis, int order) const {
  const auto& [t, slope] = axes_[axis];
  const DType dtype = t.dtype();
  if (call_.taps == 1) return order == 0 ? t * 0.0 + 1.0 : Tensor();
  if (call_.taps == 2 && order > 1) return {};
  const Tensor scale = order == 0 ? full({}, 1.0, dtype) : order == 1 ? slope : slope * slope;
  if (call_.taps == 2) {
    const Tensor sign = numbers({-1, 1}, dtype);
    return order == 0 ? t * sign + numbers({1, 0}, dtype) : expand(sign * scale, t.shape().with(2, 2));
  }
  const Tensor sign = numbers({1, 1, -1, -1}, dtype), distance = t * sign + numbers({1, 0, 1, 2}, dtype);
  const Tensor w = cubic(distance, numbers({1, 0, 0, 1}, dtype) > 0.5, order);
  return order == 1 ? w * sign * scale : w * scale;
}

Tensor GridTaps::weight(const Orders& orders) const {
  const Tensor& t = axes_[0].distance;
  Tensor product;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const Tensor w = weight_along(a, orders[a]);
    if (!w.defined()) return {};
    Shape spread{t.size(0), t.size(1)};
    for (std::size_t k = 0; k < axes_.size(); ++k)
      spread = spread.inserted(static_cast<int>(k) + 2, k == a ? call_.taps : 1);
    product = product.defined() ? product * reshape(w, spread) : reshape(w, spread);
  }
  return reshape(product, at_.shape());
}

// ---- the function ---------------------------------------------------------------------------------------------------

namespace {

GridSampleCall checked_call(const GridSampleOptions& o) {
  GridSampleCall call;
  require(o.mode == "bilinear" || o.mode == "nearest" || o.mode == "bicubic",
          "grid_sample: mode is 'bilinear', 'nearest' or 'bicubic', got '{}'", o.mode);
  require(o.padding_mode == "zeros" || o.padding_mode == "border" || o.padding_mode == "reflection",
          "grid_sample: padding_mode is 'zeros', 'border' or 'reflection', got '{}'", o.padding_mode);
  call.taps = o.mode == "bilinear" ? 2 : o.mode == "nearest" ? 1 : 4;
  call.padding = o.padding_mode == "zeros"    ? GridSampleCall::zeros
                 : o.padding_mode == "border" ? GridSampleCall::border
                                              : GridSampleCall::reflection;
  call.align_corners = o.align_corners;
  return call;
}

// The kernels count in 32 bits: larger planes use the formula.
bool is_counted(const Tensor& x) {
  std::int64_t plane = 1;
  for (int d = 2; d < x.rank(); ++d) plane *= x.size(d);
  return plane <= std::numeric_limits<std::int32_t>::max();
}

Tensor grid_sample_formula(const Tensor& x, const Tensor& grid, const GridSampleCall& call) {
  const int axes = x.rank() - 2;
  require(
      (axes == 2 || axes == 3) && grid.rank() == x.rank() && grid.size(-1) == axes && grid.size(0) == x.size(0),
      "grid_sample: needs [N, C, H, W] and [N, H', W', 2], or [N, C, D, H, W] and [N, D', H', W', 3], got {} and {}",
      x.shape(), grid.shape());
  Shape result{x.size(0), x.size(1)};
  std::int64_t points = 1;
  for (int d = 0; d < axes; ++d) {
    require(x.size(d + 2) > 0, "grid_sample: axis {} of the input's shape {} has no elements to read", d + 2,
            x.shape());
    result = result.inserted(d + 2, grid.size(d + 1));
    points *= grid.size(d + 1);
  }
  const DType dtype = promote_real(is_floating(x.dtype()) ? promote(x.dtype(), grid.dtype()) : grid.dtype());
  const Tensor image = cast(x, dtype), at = cast(reshape(grid, {x.size(0), points, axes}), dtype);
  if (is_counted(x)) return reshape(grid_sample_node(image, at, call), result);
  const GridTaps taps(call, image.shape(), widen(at));
  const Tensor rows =
      reshape(image, {x.size(0), x.size(1), x.numel() / std::max<std::int64_t>(1, x.size(0) * x.size(1))});
  return reshape(weighted_gather_node(rows, taps.at(), taps.weight({})), result);
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  const GridSampleCall call = checked_call(options);
  return deferred(
      {&x, &grid}, {call.taps, call.padding, call.align_corners}, [](Formula::Operands in, Formula::Options o) {
        return grid_sample_formula(in[0], in[1], {.taps = o[0], .padding = o[1], .align_corners = o[2] != 0});
      });
}

}  // namespace ebb
