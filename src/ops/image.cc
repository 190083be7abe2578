// SPDX-License-Identifier: MIT
#include "ebb/ops/image.h"

#include <algorithm>
#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

// ---- windows as columns ---------------------------------------------------------------------------------------------

// Where the windows of a padded plane begin and how far they reach.
struct Windows {
  std::int64_t padded[2], count[2];
};

Windows windows_of(const char* op, SizePair size, SizePair window, const UnfoldOptions& o) {
  Windows w{};
  for (int d : {0, 1}) {
    require(window[d] >= 1 && o.stride[d] >= 1 && o.dilation[d] >= 1 && o.padding[d] >= 0,
            "{}: window, stride and dilation must be positive and padding not negative, got {}, {}, {} and {}", op,
            window[d], o.stride[d], o.dilation[d], o.padding[d]);
    const std::int64_t reach = checked_sum(op, checked_product(op, o.dilation[d], window[d] - 1), 1);
    require(size[d] >= 0, "{}: a plane of [{}, {}] elements has a negative size", op, size[0], size[1]);
    w.padded[d] = checked_sum(op, size[d], checked_product(op, 2, o.padding[d]));
    require(w.padded[d] >= reach, "{}: a window of {} elements is larger than the padded input ({})", op, reach,
            w.padded[d]);
    w.count[d] = (w.padded[d] - reach) / o.stride[d] + 1;
  }
  for (const auto* pair : {w.padded, w.count}) checked_product(op, pair[0], pair[1]);
  return w;
}

// [kh, kw, windows down, windows across]: the position in the padded plane that each element of each window has.
Tensor positions(const Windows& w, SizePair window, const UnfoldOptions& o) {
  Tensor along[2];
  for (int d : {0, 1}) {
    const Tensor start = arange(w.count[d]) * o.stride[d], offset = arange(window[d]) * o.dilation[d];
    along[d] = d == 0 ? reshape(offset, {-1, 1, 1, 1}) + reshape(start, {1, 1, -1, 1})
                      : reshape(offset, {1, -1, 1, 1}) + reshape(start, {1, 1, 1, -1});
  }
  return along[0] * w.padded[1] + along[1];
}

}  // namespace

Tensor unfold(const Tensor& x, SizePair window, const UnfoldOptions& o) {
  if (x.rank() == 3) return select(unfold(unsqueeze(x, 0), window, o), 0, 0);
  require(x.rank() == 4, "unfold: needs [N, C, H, W] or [C, H, W], got shape {}", x.shape());
  const Windows w = windows_of("unfold", {x.shape()[2], x.shape()[3]}, window, o);
  const std::int64_t n = x.shape()[0], channels = x.shape()[1];
  const Tensor padded = pad(x, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]});
  const Tensor plane = reshape(padded, {n, channels, w.padded[0] * w.padded[1]});
  const Tensor at = positions(w, window, o);
  const std::int64_t rows = checked_product("unfold", channels, checked_product("unfold", window[0], window[1]));
  return reshape(index_select(plane, 2, reshape(at, {at.numel()})), {n, rows, w.count[0] * w.count[1]});
}

Tensor fold(const Tensor& x, SizePair output, SizePair window, const UnfoldOptions& o) {
  if (x.rank() == 2) return select(fold(unsqueeze(x, 0), output, window, o), 0, 0);
  const Windows w = windows_of("fold", output, window, o);
  const std::int64_t taps = checked_product("fold", window[0], window[1]);
  require(x.rank() == 3 && x.shape()[1] % taps == 0 && x.shape()[2] == w.count[0] * w.count[1],
          "fold: needs [N, C·{}, {}], got shape {}", taps, w.count[0] * w.count[1], x.shape());
  const std::int64_t n = x.shape()[0], channels = x.shape()[1] / taps;
  if (o.stride == window && o.dilation == SizePair(1) && w.count[0] * window[0] == w.padded[0] &&
      w.count[1] * window[1] == w.padded[1]) {  // windows that lie side by side: elements only move
    const Tensor parts = reshape(x, {n, channels, window[0], window[1], w.count[0], w.count[1]});
    return pad(reshape(permute(parts, {0, 1, 4, 2, 5, 3}), {n, channels, w.padded[0], w.padded[1]}),
               {-o.padding[1], -o.padding[1], -o.padding[0], -o.padding[0]});
  }
  const Tensor at = positions(w, window, o);
  const Tensor plane = index_add(zeros({n, channels, w.padded[0] * w.padded[1]}, x.dtype()), 2,
                                 reshape(at, {at.numel()}), reshape(x, {n, channels, at.numel()}));
  return pad(reshape(plane, {n, channels, w.padded[0], w.padded[1]}),
             {-o.padding[1], -o.padding[1], -o.padding[0], -o.padding[0]});
}

// ---- channels and pixels --------------------------------------------------------------------------------------------

namespace {

// The number of pictures [C, H, W]; -1 would be ambiguous if one is empty.
std::int64_t pictures_in(const Tensor& x) {
  std::int64_t count = 1;
  for (int d = 0; d < x.rank() - 3; ++d) count *= x.size(d);
  return count;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  const std::int64_t square = checked_product("pixel_shuffle", r, r);
  require(r >= 1 && x.rank() >= 3 && x.size(-3) % square == 0,
          "pixel_shuffle: {}² does not divide the channels of shape {}", r, x.shape());
  const std::int64_t c = x.size(-3) / square, h = x.size(-2), w = x.size(-1);
  const Tensor parts = permute(reshape(x, {pictures_in(x), c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  Shape shape = x.shape().with(x.rank() - 3, c);
  return reshape(parts, shape.with(x.rank() - 2, checked_product("pixel_shuffle", h, r))
                            .with(x.rank() - 1, checked_product("pixel_shuffle", w, r)));
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  require(r >= 1 && x.rank() >= 3 && x.size(-2) % r == 0 && x.size(-1) % r == 0,
          "pixel_unshuffle: {} does not divide the last two sizes of shape {}", r, x.shape());
  const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  const Tensor parts = permute(reshape(x, {pictures_in(x), c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  const std::int64_t channels = checked_product("pixel_unshuffle", c, checked_product("pixel_unshuffle", r, r));
  Shape shape = x.shape().with(x.rank() - 3, channels);
  return reshape(parts, shape.with(x.rank() - 2, h).with(x.rank() - 1, w));
}

// ---- other sizes ----------------------------------------------------------------------------------------------------

namespace {

struct Resize {
  int axis;
  std::int64_t from, to;
  double step;  // elements of the input for one of the output, as positions are computed
  bool align_corners;

  // The position of output i in the input, before it is clamped.
  double position(std::int64_t i) const {
    if (align_corners) return static_cast<double>(i) * step;
    return (static_cast<double>(i) + 0.5) * step - 0.5;
  }
  Tensor taken(const Tensor& x, const std::vector<std::int64_t>& at) const {
    return index_select_node(x, axis, numbers_of_formula(at, Shape{to}), IndexLines::ascending);
  }
  Tensor weights(const Tensor& x, const std::vector<double>& w) const {
    Shape along;
    for (int k = 0; k < x.rank(); ++k) along = along.inserted(k, k == axis ? to : 1);
    return reshape(cast(numbers_of_formula(w, Shape{to}), x.dtype()), along);
  }
  std::int64_t inside(std::int64_t i) const { return std::clamp<std::int64_t>(i, 0, from - 1); }
};

Tensor nearest(const Tensor& x, const Resize& r, bool exact) {
  std::vector<std::int64_t> at;
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double position = (static_cast<double>(i) + (exact ? 0.5 : 0.0)) * r.step;
    at.push_back(r.inside(static_cast<std::int64_t>(std::floor(position))));
  }
  return r.taken(x, at);
}

Tensor linearly(const Tensor& x, const Resize& r) {
  std::vector<std::int64_t> low, high;
  std::vector<double> weight;
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double position = std::max(r.position(i), 0.0);
    const std::int64_t below = r.inside(static_cast<std::int64_t>(position));
    low.push_back(below);
    high.push_back(r.inside(below + 1));
    weight.push_back(std::clamp(position - static_cast<double>(below), 0.0, 1.0));
  }
  const Tensor w = r.weights(x, weight);
  return r.taken(x, low) * (1 - w) + r.taken(x, high) * w;
}

// Keys' kernel with a = −0.75, over the four neighbours.
Tensor cubically(const Tensor& x, const Resize& r) {
  const double a = -0.75;
  const auto near = [a](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [a](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  Tensor y;
  for (std::int64_t k = -1; k <= 2; ++k) {
    std::vector<std::int64_t> at;
    std::vector<double> weight;
    for (std::int64_t i = 0; i < r.to; ++i) {
      const double position = r.position(i), below = std::floor(position), t = position - below;
      at.push_back(r.inside(static_cast<std::int64_t>(below) + k));
      weight.push_back(k == -1 ? far(t + 1) : k == 0 ? near(t) : k == 1 ? near(1 - t) : far(2 - t));
    }
    const Tensor part = r.taken(x, at) * r.weights(x, weight);
    y = y.defined() ? y + part : part;
  }
  return y;
}

// Every output is a weighted mean of the inputs under a filter, a triangle or Keys' kernel with a = −0.5, which is as
// wide as the step where the output is smaller.
Tensor filtered(const Tensor& x, const Resize& r, bool cubic) {
  const double widening = std::max(r.step, 1.0), reach = (cubic ? 2 : 1) * widening;
  const auto filter = [cubic](double t) {
    t = std::fabs(t);
    if (!cubic) return std::max(1 - t, 0.0);
    return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0.0;
  };
  require_memory_for("interpolate", checked_product("interpolate", r.to, r.from));
  const Shape matrix{r.to, r.from};
  std::vector<double> weights(static_cast<std::size_t>(matrix.numel()), 0.0);
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * r.step;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(std::trunc(center - reach + 0.5)), 0);
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(std::trunc(center + reach + 0.5)), r.from);
    double* row = weights.data() + i * r.from;
    double total = 0;
    for (std::int64_t j = first; j < last; ++j)
      total += row[j] = filter((static_cast<double>(j) - center + 0.5) / widening);
    for (std::int64_t j = first; j < last && total != 0; ++j) row[j] /= total;
  }
  const Tensor w = cast(numbers_of_formula(weights, matrix), x.dtype());
  return transpose(matmul(transpose(x, r.axis, -1), t(w)), r.axis, -1);
}

// Means of windows, one axis after the other.
Tensor areas(const Tensor& x, const Resize& r) {
  const Tensor last = transpose(x, r.axis, -1);
  const Tensor rows = adaptive_avg_pool1d(reshape(last, {1, -1, r.from}), r.to);
  return transpose(reshape(rows, last.shape().with(x.rank() - 1, r.to)), r.axis, -1);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const int axes = x.rank() - 2;
  require(axes >= 1, "interpolate: needs [N, C, ...] with something after the channels, got shape {}", x.shape());
  require(is_floating(x.dtype()), Error::Kind::type, "interpolate: needs floating elements, got {}", name(x.dtype()));
  require(o.size.empty() != o.scale_factor.empty(), "interpolate: give either sizes or scale factors");
  const std::size_t given = std::max(o.size.size(), o.scale_factor.size());
  require(given == 1 || given == static_cast<std::size_t>(axes),
          "interpolate: {} sizes or factors were given for the {} axes after the channels of shape {}", given, axes,
          x.shape());
  const bool exact = o.mode == "nearest-exact", nearby = o.mode == "nearest" || exact, area = o.mode == "area";
  const bool cubic = o.mode == "bicubic" && axes == 2;
  const bool linear =
      (o.mode == "linear" && axes == 1) || (o.mode == "bilinear" && axes == 2) || (o.mode == "trilinear" && axes == 3);
  require(nearby || area || cubic || linear,
          "interpolate: the mode '{}' does not exist for an input of shape {}; there are nearest, nearest-exact, area, "
          "linear (3 axes), bilinear and bicubic (4) and trilinear (5)",
          o.mode, x.shape());
  require(!o.antialias || (axes == 2 && (cubic || linear)),
          "interpolate: antialias is for the modes bilinear and bicubic, not for '{}' and an input of shape {}", o.mode,
          x.shape());
  require(!o.align_corners || cubic || linear, "interpolate: align_corners has no meaning for the mode '{}'", o.mode);
  Tensor y = widen(x);
  std::vector<std::int64_t> planes;  // their sizes, where both axes are pooled at once
  for (int k = 0; k < axes; ++k) {
    const std::size_t at = given == 1 ? 0 : static_cast<std::size_t>(k);
    Resize r{k + 2, x.shape()[k + 2], 0, 0, o.align_corners};
    const double factor = o.scale_factor.empty() ? 0 : o.scale_factor[at];
    const double scaled = std::floor(static_cast<double>(r.from) * factor);
    require(std::fabs(scaled) < 0x1p62, "interpolate: axis {} of shape {} cannot have {} times its size", k + 2,
            x.shape(), factor);  // and not if the factor is not a number
    r.to = o.size.empty() ? static_cast<std::int64_t>(scaled) : o.size[at];
    require(r.to >= 1 && r.from >= 1, "interpolate: axis {} of shape {} cannot have size {}", k + 2, x.shape(), r.to);
    require_memory_for("interpolate", y.shape().with(k + 2, r.to).numel());
    if (o.align_corners) {
      r.step = r.to > 1 ? static_cast<double>(r.from - 1) / static_cast<double>(r.to - 1) : 0;
    } else if (factor > 0 && !o.recompute_scale_factor) {
      r.step = 1 / factor;
    } else {
      r.step = static_cast<double>(r.from) / static_cast<double>(r.to);
    }
    if (area && axes == 2) {
      planes.push_back(r.to);
      continue;
    }
    if (r.from == r.to && r.step == 1) continue;
    if (o.antialias) {
      y = filtered(y, r, cubic);
      continue;
    }
    y = nearby ? nearest(y, r, exact) : area ? areas(y, r) : cubic ? cubically(y, r) : linearly(y, r);
  }
  if (!planes.empty()) return adaptive_avg_pool2d(x, {planes[0], planes[1]});
  return cast(y, x.dtype());
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  require(p >= 0 && p <= 1, "dropout2d: p must be a probability in [0, 1], got {}", p);
  require(x.rank() >= 3, "dropout2d: needs [N, C, H, W] or [C, H, W], got shape {}", x.shape());
  if (!training || p == 0) return x;
  const Tensor v = as_real(x);
  std::vector<std::int64_t> channels(static_cast<std::size_t>(x.rank()), 1);
  for (int k = 0; k < std::max(1, x.rank() - 2); ++k) channels[static_cast<std::size_t>(k)] = x.shape()[k];
  return where(rand(channels) >= p, v * (p < 1 ? 1 / (1 - p) : 0.0), 0);
}

}  // namespace ebb
