// SPDX-License-Identifier: MIT
// scatter_reduce: formulas, of which those with an extremum of a few elements have a rule of their own.
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/backward/elementwise.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb {

namespace {

// The largest src of each place: src sorted ascending, of which scatter keeps the last.
Tensor scatter_largest(const Tensor& x, int axis, const Tensor& index, const Tensor& src, bool largest) {
  const Tensor order = argsort(src, axis, !largest);
  return scatter(x, axis, gather(index, axis, order), gather(src, axis, order));
}

// The product of the src of each place. Sorted by place they are runs, whose products are a scan by doubling: after the
// step of d, an element holds the product of the 2d elements of its run that end with it. scatter keeps the last
// element of a run, which holds the whole product. Zeros need no special care, as they would with logarithms.
Tensor scatter_product(const Tensor& x, int axis, const Tensor& index, const Tensor& src) {
  const std::int64_t count = index.shape()[axis];
  const Tensor order = argsort(index, axis);
  const Tensor place = gather(index, axis, order);
  Tensor product = gather(src, axis, order);
  for (std::int64_t d = 1; d < count; d *= 2) {
    const Tensor late = narrow(product, axis, d, count - d), early = narrow(product, axis, 0, count - d);
    const Tensor same = narrow(place, axis, d, count - d) == narrow(place, axis, 0, count - d);
    product = cat({narrow(product, axis, 0, d), where(same, late * early, late)}, axis);
  }
  return scatter(x, axis, place, product);
}

// Lines of an index of up to so many elements are compared with one another.
constexpr std::int64_t kFew = 16;

// Pairs of elements of a line whose places are equal, along the last two axes.
Tensor same_place(const Tensor& index, int axis) {
  const Tensor at = transpose(index, axis, index.rank() - 1);
  return unsqueeze(at, -1) == unsqueeze(at, -2);
}
// A function of such pairs, reduced over the second of each, as a tensor in the index's shape.
Tensor over_others(const Tensor& pairs, int axis, Tensor (*reduce)(const Tensor&, const Axes&, bool)) {
  const Tensor found = reduce(pairs, {pairs.rank() - 1}, false);
  return transpose(found, axis, found.rank() - 1);
}

// For each of a few elements of a line, the extremum of those that go to its place.
Tensor extremum_of_place(const Tensor& src, const Tensor& index, int axis, bool largest) {
  const Tensor line = transpose(src, axis, src.rank() - 1);
  const Tensor pairs = where(same_place(index, axis), unsqueeze(line, -2), unsqueeze(line, -1));
  return over_others(pairs, axis, largest ? max : min);
}
// Whether an element is the last of those that have the extremum of their place.
Tensor is_last_extremum(const Tensor& src, const Tensor& best, const Tensor& index, int axis) {
  const Tensor wins = is_floating(src.dtype()) ? logical_or(src == best, isnan(src)) : src == best;
  const Tensor place = arange(index.shape()[axis]), later = unsqueeze(place, 0) > unsqueeze(place, 1);
  const Tensor other_wins = unsqueeze(transpose(wins, axis, wins.rank() - 1), -2);
  const Tensor beaten = logical_and(logical_and(same_place(index, axis), later), other_wins);
  return logical_and(wins, logical_not(over_others(beaten, axis, any)));
}

// Elements with the same place write the same number, so that it does not matter which of them is kept.
Tensor scatter_few_extrema(const Tensor& x, int axis, const Tensor& index, const Tensor& src, bool largest,
                           bool include_self) {
  const auto forward = [=](const std::vector<Tensor>& in) {
    const Tensor best = extremum_of_place(in[1], index, axis, largest);
    if (!include_self) return scatter(in[0], axis, index, best);
    const Tensor self = gather(in[0], axis, index);
    return scatter(in[0], axis, index, largest ? maximum(self, best) : minimum(self, best));
  };
  const auto rule = [=](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) {
    const Tensor best = extremum_of_place(in[1], index, axis, largest), g = gather(grad, axis, index);
    const Tensor wins = is_last_extremum(in[1], best, index, axis);
    if (!include_self) return std::vector<Tensor>{scatter(grad, axis, index, 0.0), where(wins, g, 0)};
    const Tensor self = gather(in[0], axis, index);
    const auto [of_self, of_best] = largest ? maximum_backward(g, self, best) : minimum_backward(g, self, best);
    return std::vector<Tensor>{scatter(grad, axis, index, of_self), where(wins, of_best, 0)};
  };
  return custom_function(forward, rule, {x, src});
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self) {
  const char* op = "scatter_reduce";
  const int a = normalize_axis(op, axis, x.rank());
  require(reduce == "sum" || reduce == "mean" || reduce == "prod" || reduce == "amax" || reduce == "amin",
          "{}: reduce is 'sum', 'prod', 'mean', 'amax' or 'amin', got '{}'", op, reduce);
  require(src.rank() == index.rank(), "{}: an index of shape {} and a source of shape {} do not fit", op, index.shape(),
          src.shape());
  Tensor part = cast(src, x.dtype());
  for (int k = 0; k < src.rank(); ++k) part = narrow(part, k, 0, index.shape()[k]);  // the part that scatter reads
  const Tensor hits = scatter_add(zeros(x.shape()), a, index, ones(index.shape())), touched = hits > 0;
  if (reduce == "sum" || reduce == "mean") {
    const Tensor base = include_self ? x : where(touched, 0, x);
    const Tensor total = scatter_add(widen(base), a, index, widen(part));
    if (reduce == "sum") return cast(total, x.dtype());
    const Tensor count = maximum(include_self ? hits + 1 : hits, 1);
    if (is_floating(x.dtype())) return cast(total / cast(count, total.dtype()), x.dtype());
    return floor_divide(total, cast(count, total.dtype()));
  }
  if (reduce == "prod") {
    const Tensor base = include_self ? ones(x.shape(), x.dtype()) : x;
    const Tensor found = scatter_product(widen(base), a, index, widen(part));
    return cast(include_self ? widen(x) * found : found, x.dtype());
  }
  const bool largest = reduce == "amax";
  if (index.rank() > 0 && index.shape()[a] <= kFew)
    return scatter_few_extrema(x, a, index, part, largest, include_self);
  const Tensor found = scatter_largest(x, a, index, part, largest);
  return include_self ? (largest ? maximum(x, found) : minimum(x, found)) : found;
}

}  // namespace ebb
