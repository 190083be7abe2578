// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/backward/reduce.h"
#include "ebb/ops.h"
#include "ops/axes.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/reduce_parts.h"
#include "ops/shape_nodes.h"

// Gradient rules of the reductions. In the formulas g is the cotangent of the result y and n the number of elements
// reduced into one element of y.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// g or y with reduced axes of size 1, ready to be broadcast over x.
Tensor kept(const char* op, const Tensor& y, const Shape& shape, std::uint32_t mask, bool keepdim) {
  const Shape expected = keepdim ? kept_shape(shape, mask) : reduced_shape(shape, mask);
  require(y.shape() == expected, "{}: the gradient has shape {}, the result has {}", op, y.shape(), expected);
  return reshape(y, kept_shape(shape, mask));
}

// y = max x          dx = g / (number of maxima) at every maximum
Tensor extremum_backward(const Tensor& g, const Tensor& x, const Tensor& y) {
  Tensor chosen = x == y;
  if (is_floating(x.dtype())) chosen = logical_or(chosen, isnan(x));  // where y is NaN, the NaNs were chosen
  std::vector<std::int64_t> axes;
  for (int a = 0; a < x.rank(); ++a) {
    if (y.shape()[a] != x.shape()[a]) axes.push_back(a);
  }
  const Tensor ties = cast(chosen, is_floating(g.dtype()) ? g.dtype() : DType::f32);
  return where(chosen, g / (axes.empty() ? ties : sum(ties, axes, true)), 0);
}

template <Tensor (*extremum)(const Tensor&, const Axes&, bool)>
Tensor extremum_backward(const char* op, const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask(op, axes, x.rank());
  const Tensor g = kept(op, widen(grad), x.shape(), mask, keepdim);
  return cotangent(extremum_backward(g, x, extremum(x, axes_of(mask, x.rank()), true)), x);
}

// y = Π x over some axes, y kept    dx_i = g·Π_{j≠i} x_j, as a quotient in f64, which holds the product of f32 numbers
// that overflows. Zeros and infinities are counted instead of multiplied, but for their signs: x_i is one of them, or
// they are a factor.
Tensor quotients_of_product(const Tensor& g, const Tensor& x, const Axes& axes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kAnInfinity = 0x1p32;
  const Tensor zero = x == 0, infinite = abs(x) == kInfinity, v = cast(x, DType::f64);
  const Tensor factor = where(zero, 1, where(infinite, sign(v), v));
  const Tensor rest = prod(factor, axes, true);
  // One sum counts both.
  const Tensor counts = sum(cast(zero, DType::f64) + kAnInfinity * cast(infinite, DType::f64), axes, true);
  const Tensor infinities = floor(counts / kAnInfinity), zeros = counts - kAnInfinity * infinities;
  // The product of the others where so many zeros and infinities are x_i.
  const auto others = [&](double zeros_here, double infinities_here) {
    return rest * cast(zeros <= zeros_here, DType::f64) * where(infinities > infinities_here, kInfinity, 1.0);
  };
  const Tensor product = where(zero, others(1, 0), where(infinite, others(0, 1), others(0, 0)));
  return cast(cast(g, DType::f64) * (product / factor), x.dtype());
}

// Numbers, and their derivatives in one direction.
struct Dual {
  Tensor value, slope;
};
Dual operator*(const Dual& a, const Dual& b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
Dual part(const Dual& v, std::int64_t first, std::int64_t count) {
  return {narrow(v.value, 1, first, count), narrow(v.slope, 1, first, count)};
}
Dual joined(const std::vector<Dual>& parts) {
  std::vector<Tensor> values, slopes;
  for (const Dual& p : parts) values.push_back(p.value), slopes.push_back(p.slope);
  return {cat(values, 1), cat(slopes, 1)};
}

// Π_{j≠i} x_j along the last axis of [m, n], by halves: y = Π (left·right), one level after the other. Going back down,
//   dleft = g·right,   dright = g·left
// No division, so zeros are not a special case; it consists of products only, so the slopes are correct, and so are
// theirs. O(n).
Dual products_of_others(const Dual& x) {
  std::vector<Dual> levels{x};
  while (levels.back().value.shape()[1] > 1) {
    const Dual& v = levels.back();
    const std::int64_t n = v.value.shape()[1], half = n / 2;
    Dual next = part(v, 0, half) * part(v, half, half);
    if (n % 2) next = joined({next, part(v, n - 1, 1)});
    levels.push_back(next);
  }
  Dual down{ones_like(levels.back().value), zeros_like(levels.back().value)};
  for (std::size_t k = levels.size() - 1; k-- > 0;) {
    const Dual& v = levels[k];
    const std::int64_t n = v.value.shape()[1], half = n / 2;
    const Dual pairs = part(down, 0, half);
    std::vector<Dual> parts{pairs * part(v, half, half), pairs * part(v, 0, half)};
    if (n % 2) parts.push_back(part(down, half, 1));
    down = joined(parts);
  }
  return down;
}

// The cotangent of the element at `position` when x is sorted.
Tensor sorted_element_backward(const Tensor& g, const Tensor& x, int axis, std::int64_t position) {
  return scatter_zero_add(g, axis, narrow(argsort(x, axis), axis, position, 1), x.shape());
}

template <class Place>  // place(g, x, axis, n), with g and x along an axis or flattened
Tensor order_statistic_backward(const char* op, const Tensor& grad, const Tensor& x, std::optional<std::int64_t> axis,
                                Place&& place) {
  const bool whole = !axis || x.rank() == 0;
  const Tensor line = whole ? reshape(x, {-1}) : x;
  const int a = whole ? 0 : normalize_axis(op, *axis, x.rank());
  const std::int64_t n = line.shape()[a];
  require(n > 0 && grad.numel() * n == x.numel(), "{}: the gradient has shape {}, the input {}", op, grad.shape(),
          x.shape());
  const Tensor g = reshape(widen(grad), line.shape().with(a, 1));
  return cotangent(reshape(place(g, line, a, n), x.shape()), x);
}

}  // namespace

// y = Σ x            dx = g
Tensor sum_backward(const Tensor& grad, const Shape& shape, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("sum_backward", axes, shape.rank());
  return expand(kept("sum_backward", grad, shape, mask, keepdim), shape);
}

// y = Σ x / n        dx = g / n
Tensor mean_backward(const Tensor& grad, const Shape& shape, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("mean_backward", axes, shape.rank());
  const Tensor g = kept("mean_backward", widen(grad), shape, mask, keepdim);
  const Tensor each = g / static_cast<double>(reduced_count(shape, mask));
  return expand(is_floating(grad.dtype()) ? cast(each, grad.dtype()) : each, shape);
}

namespace {

// Those that are not reduced, then those that are.
std::vector<std::int64_t> axes_in_order(int rank, std::uint32_t mask) {
  std::vector<std::int64_t> order;
  for (const bool reduced : {false, true}) {
    for (int a = 0; a < rank; ++a) {
      if (in_mask(mask, a) == reduced) order.push_back(a);
    }
  }
  return order;
}

}  // namespace

// y = Π x            dx_i = g·Π_{j≠i} x_j
Tensor prod_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("prod_backward", axes, x.rank());
  const Tensor g = kept("prod_backward", widen(grad), x.shape(), mask, keepdim);
  if (x.numel() == 0) return zeros_like(x);
  // Further derivatives are those of products, as quotients would lose them at zeros. Of dx = g·q(x), Hessians are
  // symmetric: the pull of h is the derivative of q in its direction.
  const auto as_rows = [mask](const Tensor& v) {  // [the others..., the reduced axes]
    return reshape(permute(v, axes_in_order(v.rank(), mask)), {-1, reduced_count(v.shape(), mask)});
  };
  const auto as_before = [mask, shape = x.shape()](const Tensor& rows) {
    const std::vector<std::int64_t> order = axes_in_order(shape.rank(), mask);
    std::vector<std::int64_t> sizes, back(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      back[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
      sizes.push_back(shape[static_cast<int>(order[k])]);
    }
    return permute(reshape(rows, sizes), back);
  };
  const Axes named = axes_of(mask, x.rank());
  const Tensor dx = custom_function(
      [named](const std::vector<Tensor>& in) { return quotients_of_product(in[0], in[1], named); },
      [=](const Tensor& h, const Tensor&, const std::vector<Tensor>& in) {
        const Dual q = products_of_others(Dual{as_rows(in[1]), as_rows(h)});
        return std::vector<Tensor>{sum(h * as_before(q.value), named, true), in[0] * as_before(q.slope)};
      },
      {g, widen(x)});
  return cotangent(dx, x);
}

Tensor max_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim) {
  return extremum_backward<max>("max_backward", grad, x, axes, keepdim);
}
Tensor min_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim) {
  return extremum_backward<min>("min_backward", grad, x, axes, keepdim);
}

// y = Σ (x − m)² / (n − c)       dx = 2g·(x − m) / (n − c): the part through m vanishes, because Σ (x − m) = 0
Tensor var_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim, double correction) {
  const std::uint32_t mask = axes_mask("var_backward", axes, x.rank());
  const Tensor g = kept("var_backward", widen(grad), x.shape(), mask, keepdim), wide = widen(x);
  const double freedom = std::max(static_cast<double>(reduced_count(x.shape(), mask)) - correction, 0.0);
  return cotangent(2 * g / freedom * (wide - mean(wide, axes_of(mask, x.rank()), true)), x);
}

// y = sqrt(var x)                dx = g / (2y) · dvar, 0 where y = 0
Tensor stddev_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim, double correction) {
  const std::uint32_t mask = axes_mask("stddev_backward", axes, x.rank());
  const Axes named = axes_of(mask, x.rank());
  const Tensor g = kept("stddev_backward", widen(grad), x.shape(), mask, keepdim), wide = widen(x);
  const Tensor y = stddev(wide, named, true, correction), zero = y == 0;
  return cotangent(var_backward(where(zero, 0, g / (2 * where(zero, 1, y))), wide, named, true, correction), x);
}

// y = (Σ |x|^p)^(1/p)            dx = g·sign x·(|x| / y)^(p−1), 0 where x = 0 or y = 0
Tensor norm_backward(const Tensor& grad, const Tensor& x, double p, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("norm_backward", axes, x.rank());
  const Tensor g = kept("norm_backward", widen(grad), x.shape(), mask, keepdim), wide = widen(x);
  if (p == 0 || x.numel() == 0) return zeros_like(x);
  if (p == 1) return cotangent(g * sign(wide), x);
  const Tensor y = norm(wide, p, axes_of(mask, x.rank()), true), nothing = y == 0, scale = where(nothing, 1, y);
  if (p == 2) return cotangent(where(nothing, 0, g / scale) * wide, x);
  if (std::isinf(p)) return cotangent(sign(wide) * extremum_backward(g, abs(wide), y), x);
  const Tensor zero = logical_or(wide == 0, nothing);
  return cotangent(where(zero, 0, g * sign(wide) * pow(where(zero, 1, abs(wide)) / scale, p - 1)), x);
}

// y = log Σ exp x                dx = g·exp(x)/Σ exp x, 0 where the sum is 0
Tensor logsumexp_backward(const Tensor& grad, const Tensor& x, const Axes& axes, bool keepdim) {
  const std::uint32_t mask = axes_mask("logsumexp_backward", axes, x.rank());
  const Tensor g = kept("logsumexp_backward", widen(grad), x.shape(), mask, keepdim);
  if (x.numel() == 0) return zeros_like(x);
  const ShiftedExp s = shifted_exp(widen(x), mask);
  const Tensor nothing = s.total == 0;
  return cotangent(where(nothing, 0, g / where(nothing, 1, s.total)) * s.terms, x);
}

// y_i = Σ_{j≤i} x_j              dx_j = Σ_{i≥j} g_i
Tensor cumsum_backward(const Tensor& grad, std::int64_t axis) {
  if (grad.rank() == 0) return grad;
  return flip(cumsum(flip(grad, axis), axis), axis);
}

// y_i = Π_{j≤i} x_j              dx_j = (Π_{k<j} x_k)·s_j,   s_j = Σ_{i≥j} g_i·Π_{j<k≤i} x_k = g_j + x_{j+1}·s_{j+1}
// Products only: exact with zeros and to any order.
Tensor cumprod_backward(const Tensor& grad, const Tensor& x, std::int64_t axis) {
  if (x.rank() == 0 || x.numel() == 0) return grad;
  const int a = normalize_axis("cumprod_backward", axis, x.rank());
  const std::int64_t n = x.shape()[a];
  if (n == 1) return cotangent(widen(grad), x);
  const Tensor wide = widen(x), s = linear_recurrence(widen(grad), wide, a);
  const Tensor before = cat({ones(x.shape().with(a, 1), wide.dtype()), narrow(cumprod(wide, a), a, 0, n - 1)}, a);
  return cotangent(before * s, x);
}

// y is one of the elements of x, or a blend of two: the cotangent goes to those elements.
Tensor median_backward(const Tensor& grad, const Tensor& x, std::optional<std::int64_t> axis, bool) {
  return order_statistic_backward("median_backward", grad, x, axis,
                                  [](const Tensor& g, const Tensor& line, int a, std::int64_t n) {
                                    return sorted_element_backward(g, line, a, (n - 1) / 2);
                                  });
}

Tensor quantile_backward(const Tensor& grad, const Tensor& x, double q, std::optional<std::int64_t> axis, bool) {
  require(q >= 0 && q <= 1, "quantile_backward: q must lie in [0, 1], got {}", q);
  return order_statistic_backward(
      "quantile_backward", grad, x, axis, [&](const Tensor& g, const Tensor& line, int a, std::int64_t n) {
        const double position = q * static_cast<double>(n - 1), below = std::floor(position), weight = position - below;
        const auto low = static_cast<std::int64_t>(below);
        const Tensor first = sorted_element_backward((1 - weight) * g, line, a, low);
        return weight == 0 ? first : first + sorted_element_backward(weight * g, line, a, low + 1);
      });
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

Axes reduced(const RuleContext& c) { return axes_of(c.attrs.axes, c.inputs[0].rank()); }

Cotangents sum_rule(const RuleContext& c) { return {sum_backward(c.grad, c.inputs[0].shape(), reduced(c), true)}; }
Cotangents prod_rule(const RuleContext& c) { return {prod_backward(c.grad, c.inputs[0], reduced(c), true)}; }
Cotangents extremum_rule(const RuleContext& c) {
  return {cotangent(extremum_backward(widen(c.grad), c.inputs[0], c.output), c.inputs[0])};
}
Cotangents logsumexp_rule(const RuleContext& c) { return {logsumexp_backward(c.grad, c.inputs[0], reduced(c), true)}; }
Cotangents cumsum_rule(const RuleContext& c) { return {cumsum_backward(c.grad, c.attrs.i[0])}; }
Cotangents cumprod_rule(const RuleContext& c) { return {cumprod_backward(c.grad, c.inputs[0], c.attrs.i[0])}; }
// s_i = g_i + x_{i+1}·s_{i+1}    dg_i = h_i + x_i·dg_{i−1}, the same from the other end,   dx_i = dg_{i−1}·s_i
Cotangents linear_recurrence_rule(const RuleContext& c) {
  const auto a = static_cast<int>(c.attrs.i[0]);
  const Tensor &x = c.inputs[1], &s = c.output;
  const std::int64_t n = x.shape()[a];
  if (n == 0) return {c.grad, c.grad};
  const Tensor next = pad_zero(narrow(x, a, 1, n - 1), a, 0, 1);
  const Tensor dg = flip(linear_recurrence(flip(c.grad, a), flip(next, a), a), a);
  return {dg, pad_zero(narrow(dg, a, 0, n - 1) * narrow(s, a, 1, n - 1), a, 1, 0)};
}

constexpr RuleRow kReduceRules[] = {
    {Op::sum, sum_rule},
    {Op::prod, prod_rule},
    {Op::max, extremum_rule},
    {Op::min, extremum_rule},
    {Op::logsumexp, logsumexp_rule},
    {Op::cumsum, cumsum_rule},
    {Op::cumprod, cumprod_rule},
    {Op::linear_recurrence, linear_recurrence_rule},
};

}  // namespace

std::span<const RuleRow> reduce_rules() { return kReduceRules; }

}  // namespace ebb
