// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>
#include <span>

#include "ebb/ops.h"
#include "ops/banded_nodes.h"
#include "ops/build.h"
#include "ops/shape_nodes.h"

namespace ebb {

Band Band::identity(std::int64_t size) {
  Band band(size, size);
  for (std::int64_t i = 0; i < size; ++i) {
    band.begin_row();
    band.add(i, 1);
  }
  return band;
}

void Band::add(std::int64_t column, double weight) {
  Row& row = rows_.back();
  if (row.count > 0 && column == row.first + row.count - 1) {
    weights_.back() += weight;
    return;
  }
  if (row.count == 0) row.first = column;
  taps_ = std::max(taps_, ++row.count);
  weights_.push_back(weight);
}

Band Band::transposed() const {
  // Rows of neighbouring outputs begin and end later and later, so those that have a column are neighbours, too.
  std::vector<std::int64_t> begin(static_cast<std::size_t>(columns_), rows()), end(static_cast<std::size_t>(columns_));
  for (std::int64_t i = 0; i < rows(); ++i) {
    const Row& row = rows_[static_cast<std::size_t>(i)];
    for (auto j = static_cast<std::size_t>(row.first); j < static_cast<std::size_t>(row.first + row.count); ++j) {
      begin[j] = std::min(begin[j], i);
      end[j] = i + 1;
    }
  }
  Band result(columns_, rows());
  result.weights_.reserve(weights_.size());
  for (std::int64_t j = 0; j < columns_; ++j) {
    result.begin_row();
    for (std::int64_t i = begin[static_cast<std::size_t>(j)]; i < end[static_cast<std::size_t>(j)]; ++i) {
      const Row& row = rows_[static_cast<std::size_t>(i)];
      const std::int64_t k = j - row.first;
      result.add(i, k >= 0 && k < row.count ? weights_[row.at + static_cast<std::size_t>(k)] : 0);
    }
  }
  return result;
}

void Band::append_to(std::vector<std::int64_t>& index, std::vector<double>& weights) const {
  const std::int64_t room = taps();
  index.reserve(index.size() + 2 * rows_.size());
  weights.reserve(weights.size() + rows_.size() * static_cast<std::size_t>(room));
  for (const Row& row : rows_) {
    index.insert(index.end(), {row.first, row.count});
    const auto from = weights_.begin() + static_cast<std::ptrdiff_t>(row.at);
    weights.insert(weights.end(), from, from + row.count);
    weights.insert(weights.end(), static_cast<std::size_t>(room - row.count), 0.0);
  }
}

Tensor banded_node(const Tensor& x, const Tensor& index, const Tensor& weights, const BandedCall& call,
                   const Shape& shape) {
  return make_node(Op::weighted_gather, x.dtype(), shape, {x, index, weights}, with_options(call), "interpolate");
}

namespace {

// Terms per element, in either direction, up to which the axes are one call: one after the other they have the sum of
// their taps instead of the product, and go through memory. It decides the order of sums, so it is the same for all
// devices (chosen, not measured).
constexpr std::int64_t kMostTerms = 64;

struct Pair {
  Band band, back;
};

Tensor multiply_together(const Tensor& x, int axis, std::span<const Pair> bands) {
  BandedCall call{.axes = static_cast<std::int64_t>(bands.size())};
  std::vector<std::int64_t> index;
  std::vector<double> weights;
  std::int64_t before = 1, inner = 1;
  for (int d = 0; d < axis; ++d) before *= x.size(d);
  for (int d = axis + static_cast<int>(bands.size()); d < x.rank(); ++d) inner *= x.size(d);
  Shape from{before}, to{before}, result = x.shape();
  for (std::size_t a = 0; a < bands.size(); ++a) {
    const auto& [band, back] = bands[a];
    call.taps[a] = {band.taps(), back.taps()};
    band.append_to(index, weights);
    back.append_to(index, weights);
    const int d = static_cast<int>(a) + 1;
    from = from.inserted(d, band.columns());
    to = to.inserted(d, band.rows());
    result = result.with(axis + d - 1, band.rows());
  }
  from = from.inserted(from.rank(), inner);
  to = to.inserted(to.rank(), inner);
  const auto entries = static_cast<std::int64_t>(index.size()) / 2, numbers = static_cast<std::int64_t>(weights.size());
  const Tensor w = x.dtype() == DType::f64
                       ? numbers_of_formula(weights, Shape{numbers})
                       : numbers_of_formula(std::vector<float>(weights.begin(), weights.end()), Shape{numbers});
  return reshape(banded_node(reshape(x, from), numbers_of_formula(index, Shape{entries, 2}), w, call, to), result);
}

}  // namespace

Tensor multiply_by_bands(const Tensor& x, int axis, const std::vector<Band>& bands) {
  std::vector<Pair> pairs;
  std::int64_t terms = 1, terms_back = 1;
  for (const Band& band : bands) {
    const auto& [made, back] = pairs.emplace_back(Pair{band, band.transposed()});
    terms = checked_product("interpolate", terms, made.taps());
    terms_back = checked_product("interpolate", terms_back, back.taps());
  }
  if (pairs.size() < 2 || std::max(terms, terms_back) <= kMostTerms) return multiply_together(x, axis, pairs);
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Axes that become shorter come first.
  const auto growth = [&](std::size_t a) {
    return static_cast<double>(bands[a].rows()) / static_cast<double>(bands[a].columns());
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return growth(a) < growth(b); });
  Tensor y = widen(x);
  for (const std::size_t a : order) y = multiply_together(y, axis + static_cast<int>(a), {&pairs[a], 1});
  return cast(y, x.dtype());
}

}  // namespace ebb
