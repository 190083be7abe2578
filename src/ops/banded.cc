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

}  // namespace

BandedProduct::BandedProduct(const std::vector<Band>& bands, bool in_f64) {
  std::vector<Band> backs;
  std::int64_t terms = 1, terms_back = 1;
  for (const Band& band : bands) {
    backs.push_back(band.transposed());
    terms = checked_product("interpolate", terms, band.taps());
    terms_back = checked_product("interpolate", terms_back, backs.back().taps());
  }
  std::vector<std::size_t> order(bands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool together = bands.size() < 2 || std::max(terms, terms_back) <= kMostTerms;
  if (!together) {  // axes that become shorter come first
    const auto growth = [&](std::size_t a) {
      return static_cast<double>(bands[a].rows()) / static_cast<double>(bands[a].columns());
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return growth(a) < growth(b); });
  }
  const auto add_call = [&](std::span<const std::size_t> axes) {
    Call& call = calls_.emplace_back();
    call.first = static_cast<int>(axes.front());
    call.options.axes = static_cast<std::int64_t>(axes.size());
    std::vector<std::int64_t> index;
    std::vector<double> weights;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const Band &band = bands[axes[k]], &back = backs[axes[k]];
      call.axes.push_back({band.rows(), band.columns()});
      call.options.taps[k] = {band.taps(), back.taps()};
      band.append_to(index, weights);
      back.append_to(index, weights);
    }
    const auto entries = static_cast<std::int64_t>(index.size()) / 2;
    const Shape numbers{static_cast<std::int64_t>(weights.size())};
    call.index = numbers_of_formula(index, Shape{entries, 2});
    call.weights = in_f64 ? numbers_of_formula(weights, numbers)
                          : numbers_of_formula(std::vector<float>(weights.begin(), weights.end()), numbers);
  };
  const std::size_t axes_per_call = together ? order.size() : 1;
  for (std::size_t k = 0; k < order.size(); k += axes_per_call) add_call(std::span(order).subspan(k, axes_per_call));
}

Tensor BandedProduct::of(const Tensor& x, int axis) const {
  Tensor y = calls_.size() > 1 ? widen(x) : x;
  for (const Call& call : calls_) {
    const int first = axis + call.first, behind = first + static_cast<int>(call.axes.size());
    std::int64_t before = 1, inner = 1;
    for (int d = 0; d < first; ++d) before *= y.size(d);
    for (int d = behind; d < y.rank(); ++d) inner *= y.size(d);
    Shape from{before}, to{before}, result = y.shape();
    for (std::size_t a = 0; a < call.axes.size(); ++a) {
      const int d = static_cast<int>(a) + 1;
      from = from.inserted(d, call.axes[a].columns);
      to = to.inserted(d, call.axes[a].rows);
      result = result.with(first + d - 1, call.axes[a].rows);
    }
    from = from.inserted(from.rank(), inner);
    to = to.inserted(to.rank(), inner);
    y = reshape(banded_node(reshape(y, from), call.index, call.weights, call.options, to), result);
  }
  return cast(y, x.dtype());
}

std::size_t BandedProduct::bytes() const {
  std::size_t total = 0;
  for (const Call& call : calls_) {
    for (const Tensor& table : {call.index, call.weights})
      total += static_cast<std::size_t>(table.numel()) * size_of(table.dtype());
  }
  return total;
}

}  // namespace ebb
