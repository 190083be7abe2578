// SPDX-License-Identifier: MIT
// Other sizes of the axes after the channels: a banded matrix per axis, but for means of windows, which are pools.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/banded_nodes.h"
#include "ops/build.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

struct Resize {
  int axis;
  std::int64_t from, to;
  double step;  // elements of the input for one of the output, as positions are computed
  bool align_corners;

  bool is_identity() const { return from == to && step == 1; }
  // The position of output i in the input, before it is clamped.
  double position(std::int64_t i) const {
    if (align_corners) return static_cast<double>(i) * step;
    return (static_cast<double>(i) + 0.5) * step - 0.5;
  }
  std::int64_t inside(std::int64_t i) const { return std::clamp<std::int64_t>(i, 0, from - 1); }
};

Band nearest(const Resize& r, bool exact) {
  Band band(r.to, r.from);
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double position = (static_cast<double>(i) + (exact ? 0.5 : 0.0)) * r.step;
    band.begin_row();
    band.add(r.inside(static_cast<std::int64_t>(std::floor(position))), 1);
  }
  return band;
}

Band linear(const Resize& r) {
  Band band(r.to, r.from);
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double position = std::max(r.position(i), 0.0);
    const std::int64_t below = r.inside(static_cast<std::int64_t>(position));
    const double weight = std::clamp(position - static_cast<double>(below), 0.0, 1.0);
    band.begin_row();
    band.add(below, 1 - weight);
    band.add(r.inside(below + 1), weight);
  }
  return band;
}

// Keys' kernel with a = −0.75, over the four neighbours.
Band cubic(const Resize& r) {
  const double a = -0.75;
  const auto near = [a](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [a](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  Band band(r.to, r.from);
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double position = r.position(i), below = std::floor(position), t = position - below;
    band.begin_row();
    for (std::int64_t k = -1; k <= 2; ++k)
      band.add(r.inside(static_cast<std::int64_t>(below) + k), k == -1  ? far(t + 1)
                                                               : k == 0 ? near(t)
                                                               : k == 1 ? near(1 - t)
                                                                        : far(2 - t));
  }
  return band;
}

// Every output is a weighted mean of the inputs under a filter, a triangle or Keys' kernel with a = −0.5, which is as
// wide as the step where the output is smaller.
Band filtered(const Resize& r, bool cubic) {
  const double widening = std::max(r.step, 1.0), reach = (cubic ? 2 : 1) * widening;
  const auto filter = [cubic](double t) {
    t = std::fabs(t);
    if (!cubic) return std::max(1 - t, 0.0);
    return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0.0;
  };
  Band band(r.to, r.from);
  std::vector<double> weights;
  for (std::int64_t i = 0; i < r.to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * r.step;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(std::trunc(center - reach + 0.5)), 0);
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(std::trunc(center + reach + 0.5)), r.from);
    weights.clear();
    double total = 0;
    for (std::int64_t j = first; j < last; ++j) {
      weights.push_back(filter((static_cast<double>(j) - center + 0.5) / widening));
      total += weights.back();
    }
    band.begin_row();
    for (std::int64_t j = first; j < last; ++j)
      band.add(j, total != 0 ? weights[static_cast<std::size_t>(j - first)] / total : 0);
  }
  return band;
}

enum class Kind : std::int64_t { nearest, nearest_exact, linear, cubic };

Band band_of(const Resize& r, Kind kind, bool antialias) {
  if (r.is_identity()) return Band::identity(r.from);
  if (antialias) return filtered(r, kind == Kind::cubic);
  if (kind == Kind::linear) return linear(r);
  return kind == Kind::cubic ? cubic(r) : nearest(r, kind == Kind::nearest_exact);
}

// Tables of one call after the other: those made last are kept, because making them takes longer than using them (for a
// line of 100,001 elements six times as long).
class Products {
 public:
  using Product = std::shared_ptr<const BandedProduct>;
  using Key = std::vector<std::int64_t>;

  template <class Make>
  Product find_or_make(const Key& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return e.key == key; });
      if (at != kept_.end()) {
        std::rotate(kept_.begin(), at, at + 1);
        return kept_.front().product;
      }
    }
    const Product made = std::make_shared<const BandedProduct>(make());
    const std::size_t bytes = made->bytes();
    if (bytes > kMostBytes) return made;
    std::vector<Entry> dropped;  // freed without the lock
    const std::lock_guard lock(mutex_);
    kept_.insert(kept_.begin(), {key, made, bytes});
    bytes_ += bytes;
    while (bytes_ > kMostBytes || kept_.size() > kMost) {
      bytes_ -= kept_.back().bytes;
      dropped.push_back(std::move(kept_.back()));
      kept_.pop_back();
    }
    return made;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20, kMost = 32;  // chosen, not measured
  struct Entry {
    Key key;
    Product product;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::vector<Entry> kept_;  // the one used last comes first
  std::size_t bytes_ = 0;
};

Products::Product product_of(const std::vector<Resize>& sizes, Kind kind, bool antialias, bool in_f64) {
  static Products& products = *new Products;  // outlives every thread
  Products::Key key{static_cast<std::int64_t>(kind), antialias, in_f64};
  for (const Resize& r : sizes)
    key.insert(key.end(), {r.from, r.to, std::bit_cast<std::int64_t>(r.step), r.align_corners});
  return products.find_or_make(key, [&] {
    std::vector<Band> bands;
    for (const Resize& r : sizes) bands.push_back(band_of(r, kind, antialias));
    return BandedProduct(bands, in_f64);
  });
}

// Means of windows, along one axis.
Tensor areas(const Tensor& x, const Resize& r) {
  const Tensor last = transpose(x, r.axis, -1);
  const Tensor rows = adaptive_avg_pool1d(reshape(last, {1, -1, r.from}), r.to);
  return transpose(reshape(rows, last.shape().with(x.rank() - 1, r.to)), r.axis, -1);
}
Tensor all_areas(const Tensor& x, const std::vector<Resize>& axes) {
  if (axes.size() == 2) return adaptive_avg_pool2d(x, {axes[0].to, axes[1].to});
  Tensor y = widen(x);
  for (const Resize& r : axes) {
    if (!r.is_identity()) y = areas(y, r);
  }
  return cast(y, x.dtype());
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
  const bool cubically = o.mode == "bicubic" && axes == 2;
  const bool linearly =
      (o.mode == "linear" && axes == 1) || (o.mode == "bilinear" && axes == 2) || (o.mode == "trilinear" && axes == 3);
  require(nearby || area || cubically || linearly,
          "interpolate: the mode '{}' does not exist for an input of shape {}; there are nearest, nearest-exact, area, "
          "linear (3 axes), bilinear and bicubic (4) and trilinear (5)",
          o.mode, x.shape());
  require(!o.antialias || (axes == 2 && (cubically || linearly)),
          "interpolate: antialias is for the modes bilinear and bicubic, not for '{}' and an input of shape {}", o.mode,
          x.shape());
  require(!o.align_corners || cubically || linearly, "interpolate: align_corners has no meaning for the mode '{}'",
          o.mode);
  std::vector<Resize> sizes;
  Shape result = x.shape();
  for (int k = 0; k < axes; ++k) {
    const std::size_t at = given == 1 ? 0 : static_cast<std::size_t>(k);
    Resize r{k + 2, x.shape()[k + 2], 0, 0, o.align_corners};
    const double factor = o.scale_factor.empty() ? 0 : o.scale_factor[at];
    const double scaled = std::floor(static_cast<double>(r.from) * factor);
    require(std::fabs(scaled) < 0x1p62, "interpolate: axis {} of shape {} cannot have {} times its size", k + 2,
            x.shape(), factor);  // and not if the factor is not a number
    r.to = o.size.empty() ? static_cast<std::int64_t>(scaled) : o.size[at];
    require(r.to >= 1 && r.from >= 1, "interpolate: axis {} of shape {} cannot have size {}", k + 2, x.shape(), r.to);
    result = result.with(k + 2, r.to);
    require_memory_for("interpolate", result.numel());
    require_memory_for("interpolate", checked_product("interpolate", 8, r.to));  // of the matrix
    if (o.align_corners) {
      r.step = r.to > 1 ? static_cast<double>(r.from - 1) / static_cast<double>(r.to - 1) : 0;
    } else if (factor > 0 && !o.recompute_scale_factor) {
      r.step = 1 / factor;
    } else {
      r.step = static_cast<double>(r.from) / static_cast<double>(r.to);
    }
    sizes.push_back(r);
  }
  if (area) return all_areas(x, sizes);
  while (!sizes.empty() && sizes.back().is_identity()) sizes.pop_back();
  while (!sizes.empty() && sizes.front().is_identity()) sizes.erase(sizes.begin());
  if (sizes.empty()) return x;
  return product_of(sizes,
                    nearby      ? exact ? Kind::nearest_exact : Kind::nearest
                    : cubically ? Kind::cubic
                                : Kind::linear,
                    o.antialias, x.dtype() == DType::f64)
      ->of(x, sizes.front().axis);
}

}  // namespace ebb
