// SPDX-License-Identifier: MIT
// Reductions of values that only repeat, or have one number placed in them.
#include <utility>

#include "schedule/simplifier.h"

namespace ebb {

std::int32_t Simplifier::add_reduce(Value v) {
  const std::int32_t in = v.inputs[0];
  const Shape& from = at(in).shape;
  std::uint32_t axes = 0;
  for (int d = 0; d < from.rank(); ++d) {
    if ((v.attrs.axes >> d & 1) && from[d] != 1) axes |= 1u << d;
  }
  v.attrs.axes = axes;
  if (axes == 0) return in;  // nothing is reduced, and reduced axes keep size 1
  // A row with one number placed in it sums to that number.
  if (v.op == Op::sum && at(in).op == Op::place && axes == 1u << at(in).attrs.i[0]) return at(in).inputs[0];
  // Over axes along which the input only repeats, a sum is a product and a maximum the value itself.
  if (at(in).op == Op::expand && from.numel() > 0 && v.op != Op::prod) {
    const Value& e = at(in);
    const Shape& inner = at(e.inputs[0]).shape;
    const int lead = from.rank() - inner.rank();
    std::uint32_t repeated = 0;
    double times = 1;
    for (int d = 0; d < from.rank(); ++d) {
      if ((axes >> d & 1) && (d < lead || inner[d - lead] == 1)) {
        repeated |= 1u << d;
        times *= static_cast<double>(from[d]);
      }
    }
    if (repeated) {
      std::vector<std::int64_t> sizes(from.begin(), from.end());
      for (int d = 0; d < from.rank(); ++d) {
        if (repeated >> d & 1) sizes[d] = 1;
      }
      Value smaller;
      smaller.op = Op::expand;
      smaller.dtype = e.dtype;
      smaller.shape = Shape(sizes);
      smaller.inputs = {e.inputs[0]};
      std::int32_t rest = add_view(std::move(smaller));
      if (axes != repeated) {
        Value r = v;
        r.inputs = {rest};
        r.attrs.axes = axes & ~repeated;
        r.node = -1;
        rest = add_reduce(std::move(r));
      }
      if (v.op != Op::sum) return rest;
      Value product;
      product.op = Op::mul;
      product.dtype = v.dtype;
      product.shape = v.shape;
      product.inputs = {rest, uniform(literal(times, v.dtype), v.shape)};
      return add_elementwise(std::move(product));
    }
  }
  const std::int32_t turned = reduced_as_it_lies(v);
  return turned >= 0 ? turned : intern(std::move(v));
}

// Σ (x − m)² = Σ x² − m·(2·Σ x − n·m), where m is computed from Σ x: the variance of a batch norm then takes no second
// pass after its mean. In f64, where squares of halves are exact: cancellation costs m²/σ² · 2⁻⁵³ of the variance, and
// halves of which not all are equal have m²/σ² < 2¹⁶·n (bf16), 2²²·n (f16). For sums over images only, whose columns
// are long.
std::int32_t Simplifier::squares_about_mean(const Value& v) {
  const Value squares = at(v.inputs[0]);  // copies: values may move
  if (v.op != Op::sum || v.dtype != DType::f32 || squares.op != Op::square || squares.is_leaf) return -1;
  const Value difference = at(squares.inputs[0]);
  if (difference.op != Op::sub || difference.is_leaf || !widens(at(difference.inputs[0]))) return -1;
  const std::int32_t x = difference.inputs[0], m = same_along(difference.inputs[1], v);
  if (m < 0 || !is_made_of_sum(m, x, v)) return -1;
  Value wide = squares, numbers = v;
  wide.dtype = numbers.dtype = DType::f64;
  const auto sum_of = [&](std::int32_t in) {
    Value sum = numbers;
    sum.inputs = {in};
    sum.node = -1;
    return add_reduce(std::move(sum));
  };
  const auto number = [&](double n) { return uniform(literal(n, DType::f64), v.shape); };
  const std::int32_t x64 = made(wide, Op::cast, {x}), m64 = made(numbers, Op::cast, {m});
  const std::int32_t sum = sum_of(x64), sum_of_squares = sum_of(made(wide, Op::square, {x64}));
  const double n = static_cast<double>(squares.shape.numel() / v.shape.numel());
  const std::int32_t twice = made(numbers, Op::mul, {number(2), sum}),
                     of_mean = made(numbers, Op::mul, {number(n), m64});
  const std::int32_t less = made(numbers, Op::mul, {m64, made(numbers, Op::sub, {twice, of_mean})});
  return made(v, Op::cast, {made(numbers, Op::maximum, {made(numbers, Op::sub, {sum_of_squares, less}), number(0)})});
}

// Is m computed from the reduction of x, with numbers as few as that has?
bool Simplifier::is_made_of_sum(std::int32_t m, std::int32_t x, const Value& reduction) const {
  std::vector<std::int32_t> stack{m};
  while (!stack.empty()) {
    const Value& top = at(stack.back());
    stack.pop_back();
    if (top.op == reduction.op && !top.is_leaf && top.inputs[0] == x) return top.attrs.axes == reduction.attrs.axes;
    if (top.is_leaf) continue;
    for (const std::int32_t in : top.inputs) {
      if (at(in).shape.numel() <= reduction.shape.numel()) stack.push_back(in);
    }
  }
  return false;
}

// A value that repeats along all axes of a reduction, but is not one number, in the reduction's shape; -1 otherwise.
std::int32_t Simplifier::same_along(std::int32_t w, const Value& reduction) {
  const Value x = at(w);
  if (x.op == Op::cast && !x.is_leaf) {  // each reader widens
    const std::int32_t narrow = same_along(x.inputs[0], reduction);
    if (narrow < 0) return -1;
    Value wide = x;
    wide.shape = reduction.shape;
    wide.inputs = {narrow};
    wide.node = -1;
    return add_elementwise(std::move(wide));
  }
  if (!x.is_view() || uniform_source(w) >= 0) return -1;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if ((reduction.attrs.axes >> d & 1) && x.strides[d] != 0) return -1;
  }
  Value small;
  small.op = Op::expand;
  small.dtype = x.dtype;
  if (x.op == Op::expand) {
    small.shape = reduction.shape;
    small.inputs = {x.inputs[0]};
    return add_view(std::move(small));
  }
  if (x.op != Op::permute || at(x.inputs[0]).op != Op::expand) return -1;
  const auto axes = unpack_axes(x.attrs.i[0]);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.shape.rank()));
  for (int d = 0; d < x.shape.rank(); ++d) sizes[static_cast<std::size_t>(axes[d])] = reduction.shape[d];
  small.shape = Shape(sizes);
  small.inputs = {at(x.inputs[0]).inputs[0]};
  return permuted(add_view(std::move(small)), reduction.shape, x.attrs.i[0]);
}

}  // namespace ebb
