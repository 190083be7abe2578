// SPDX-License-Identifier: MIT
// Elementwise operations: which vanish, which are done once for many elements, and where signs and factors go.
#include <algorithm>
#include <utility>

#include "schedule/schedule_model.h"
#include "schedule/simplifier.h"

namespace ebb {

std::int32_t Simplifier::add_elementwise(Value v, bool as_it_lies) {
  if (v.op == Op::cast && at(v.inputs[0]).dtype == v.dtype) return v.inputs[0];
  if (v.op == Op::cast && is_floating(v.dtype)) {
    const Value& x = at(v.inputs[0]);
    if (v.shape.rank() == 0 && x.is_one) return literal(1, v.dtype);  // the cotangent of a loss of halves
    const bool widened = x.op == Op::cast && !x.is_leaf && is_floating(x.dtype) && size_of(x.dtype) > size_of(v.dtype);
    if (widened && at(x.inputs[0]).dtype == v.dtype) return x.inputs[0];
    if (const std::int32_t parts = rounded_parts(v); parts >= 0) return parts;
  }
  if (v.op == Op::mul || v.op == Op::div) {  // multiplying and dividing by one change no bit
    const std::int32_t b = uniform_source(v.inputs[1]), a = uniform_source(v.inputs[0]);
    if (b >= 0 && at(b).is_one) return v.inputs[0];
    if (v.op == Op::mul && a >= 0 && at(a).is_one) return v.inputs[1];
  }
  if (v.op == Op::abs) v.inputs[0] = without_sign(v.inputs[0]);
  if (info(v.op).commutes && v.inputs[0] > v.inputs[1]) {
    std::swap(v.inputs[0], v.inputs[1]);  // one order, so that equal values merge
  }
  // An operation on repeated numbers is done once, then repeated.
  if (v.shape.rank() > 0 && v.shape.numel() > 0 && v.op != Op::check) {
    std::vector<std::int32_t> sources;
    for (std::int32_t in : v.inputs) {
      const std::int32_t s = uniform_source(in);
      if (s < 0) break;
      sources.push_back(s);
    }
    if (sources.size() == v.inputs.size()) {
      const Shape shape = v.shape;
      v.shape = Shape{};
      v.inputs = std::move(sources);
      v.node = -1;
      return uniform(add_elementwise(std::move(v)), shape);
    }
  }
  if (!as_it_lies) {
    if (const std::int32_t turned = as_inputs_lie(v); turned >= 0) return turned;
  }
  if (is_floating(v.dtype) && v.shape.numel() >= kScheduleModel.signs_move_elements) {
    if (const std::int32_t cheaper = with_signs_moved(v); cheaper >= 0) return cheaper;
  }
  if (v.op == Op::add && v.shape.numel() > 0) {
    if (const std::int32_t whole = padded_parts(v); whole >= 0) return whole;
  }
  const std::int32_t smaller = without_repeats(v);
  return smaller >= 0 ? smaller : intern(std::move(v));
}

std::int32_t Simplifier::rounded_parts(const Value& cast) {
  Value joined = at(cast.inputs[0]);
  const bool joins = !joined.is_leaf && (joined.op == Op::cat || joined.op == Op::pad_zero);
  if (!joins || !is_floating(joined.dtype) || size_of(cast.dtype) >= size_of(joined.dtype)) return -1;
  for (std::int32_t& in : joined.inputs) {
    Value part = cast;
    part.node = -1;
    part.shape = at(in).shape;
    part.inputs = {in};
    in = add(std::move(part));
  }
  joined.dtype = cast.dtype;
  joined.node = cast.node;
  return add(std::move(joined));
}

bool Simplifier::collect_padded(std::int32_t x, std::vector<std::int32_t>& parts) const {
  const Value& v = at(x);
  if (v.is_leaf || parts.size() == kScheduleModel.most_joined_parts) return false;
  if (v.op == Op::pad_zero) return parts.push_back(x), true;
  return v.op == Op::add && collect_padded(v.inputs[0], parts) && collect_padded(v.inputs[1], parts);
}

std::int32_t Simplifier::padded_parts(const Value& v) {
  std::vector<std::int32_t> parts;
  if (!collect_padded(v.inputs[0], parts) || !collect_padded(v.inputs[1], parts)) return -1;
  const auto axis = static_cast<int>(at(parts[0]).attrs.i[0]);
  const auto begin = [&](std::int32_t p) { return at(p).attrs.i[1]; };
  const auto end = [&](std::int32_t p) { return at(p).shape[axis] - at(p).attrs.i[2]; };
  if (std::any_of(parts.begin(), parts.end(), [&](std::int32_t p) { return at(p).attrs.i[0] != axis; })) return -1;
  std::sort(parts.begin(), parts.end(), [&](std::int32_t a, std::int32_t b) { return begin(a) < begin(b); });
  for (std::size_t k = 1; k < parts.size(); ++k) {
    if (begin(parts[k]) != end(parts[k - 1])) return -1;
  }
  const std::int64_t before = begin(parts.front()), after = v.shape[axis] - end(parts.back());
  Value joined;
  joined.op = Op::cat;
  joined.dtype = v.dtype;
  joined.shape = v.shape.with(axis, v.shape[axis] - before - after);
  joined.attrs.i[0] = axis;
  for (const std::int32_t p : parts) joined.inputs.push_back(at(p).inputs[0]);
  const std::int32_t whole = add(std::move(joined));
  if (before == 0 && after == 0) return whole;
  Value padded;
  padded.op = Op::pad_zero;
  padded.dtype = v.dtype;
  padded.shape = v.shape;
  padded.attrs.i = {axis, before, after};
  padded.inputs = {whole};
  return add(std::move(padded));
}

std::int32_t Simplifier::without_sign(std::int32_t x) {
  const Value v = at(x);  // a copy: values may move
  if (!is_floating(v.dtype)) return x;
  if (v.op == Op::neg) return without_sign(v.inputs[0]);
  if (v.op == Op::cast && is_floating(at(v.inputs[0]).dtype)) {  // rounding goes the same way on both sides of 0
    const std::int32_t inner = without_sign(v.inputs[0]);
    return inner == v.inputs[0] ? x : made(v, Op::cast, {inner});
  }
  if (v.op == Op::mul) {  // −(s·x) became (−s)·x, see minus()
    for (int k = 0; k < 2; ++k) {
      const std::int32_t s = uniform_source(v.inputs[k]);
      if (s < 0 || at(s).op != Op::neg) continue;
      return made(v, Op::mul, {uniform(at(s).inputs[0], v.shape), v.inputs[1 - k]});
    }
  }
  return x;
}

std::int32_t Simplifier::made(const Value& like, Op op, std::vector<std::int32_t> inputs, bool mask) {
  Value v;
  v.op = op;
  v.dtype = mask ? DType::bool_ : like.dtype;
  v.shape = like.shape;
  v.inputs = std::move(inputs);
  return add_elementwise(std::move(v));
}

std::int32_t Simplifier::with_signs_moved(const Value& v) {
  const std::int32_t a = v.inputs[0], b = v.inputs.size() > 1 ? v.inputs[1] : -1;
  switch (v.op) {
    case Op::neg:
      return minus(v, a);
    case Op::add:  // x + −y = x − y
      if (at(b).op == Op::neg) return made(v, Op::sub, {a, at(b).inputs[0]});
      return at(a).op == Op::neg ? made(v, Op::sub, {b, at(a).inputs[0]}) : -1;
    case Op::sub:
      return at(b).op == Op::neg ? made(v, Op::add, {a, at(b).inputs[0]}) : -1;
    case Op::mul: {
      const std::int32_t product = is_number(a) ? times(v, a, b) : -1;
      return product < 0 && is_number(b) ? times(v, b, a) : product;
    }
    default:
      return -1;
  }
}

std::int32_t Simplifier::minus(const Value& v, std::int32_t x) {
  const std::vector<std::int32_t> in = at(x).inputs;
  auto negative = [&](std::int32_t of) { return made(v, Op::neg, {of}); };
  switch (at(x).op) {
    case Op::neg:
      return in[0];
    case Op::mul:
      if (is_number(in[0])) return made(v, Op::mul, {negative(in[0]), in[1]});
      return is_number(in[1]) ? made(v, Op::mul, {in[0], negative(in[1])}) : -1;
    case Op::where:
      return is_number(in[1]) && is_number(in[2]) ? made(v, Op::where, {in[0], negative(in[1]), negative(in[2])}) : -1;
    default:
      return -1;
  }
}

std::int32_t Simplifier::times(const Value& v, std::int32_t s, std::int32_t x) {
  const std::vector<std::int32_t> in = at(x).inputs;
  auto product = [&](std::int32_t with) { return made(v, Op::mul, {s, with}); };
  switch (at(x).op) {
    case Op::neg:
      return made(v, Op::mul, {made(v, Op::neg, {s}), in[0]});
    case Op::where:
      return is_number(in[1]) && is_number(in[2]) ? made(v, Op::where, {in[0], product(in[1]), product(in[2])}) : -1;
    case Op::sign: {
      // A choice between s and −s; where x is 0 or NaN, so is s·x, with the same sign. Cheaper than computing the sign,
      // and it is the gradient of every absolute value.
      const std::int32_t zero = uniform(literal(0, v.dtype), v.shape);
      const std::int32_t above = made(v, Op::gt, {in[0], zero}, true), below = made(v, Op::lt, {in[0], zero}, true);
      const std::int32_t rest = made(v, Op::where, {below, made(v, Op::neg, {s}), product(in[0])});
      return made(v, Op::where, {above, s, rest});
    }
    default:
      return -1;
  }
}

std::int32_t Simplifier::without_repeats(const Value& v) {
  if (v.shape.numel() == 0 || v.op == Op::check || widens_memory(v)) return -1;
  std::uint32_t repeated = 0;
  for (int d = 0; d < v.shape.rank(); ++d) {
    if (v.shape[d] == 1) continue;
    bool all = true;
    for (std::int32_t in : v.inputs) all = all && repeats(in, d);
    if (all) repeated |= 1u << d;
  }
  if (repeated == 0) return -1;
  std::vector<std::int64_t> sizes(v.shape.begin(), v.shape.end());
  for (int d = 0; d < v.shape.rank(); ++d) {
    if (repeated >> d & 1) sizes[d] = 1;
  }
  Value small = v;
  small.shape = Shape(sizes);
  small.node = -1;
  for (std::int32_t& in : small.inputs) {
    Value e;
    e.op = Op::expand;
    e.dtype = at(in).dtype;
    e.shape = small.shape;
    e.inputs = {at(in).inputs[0]};
    in = add_view(std::move(e));
  }
  Value e;
  e.op = Op::expand;
  e.dtype = v.dtype;
  e.shape = v.shape;
  e.inputs = {add_elementwise(std::move(small))};
  return add_view(std::move(e));
}

bool Simplifier::repeats(std::int32_t v, int d) const {
  const Value& x = at(v);
  if (x.op != Op::expand) return false;
  const Shape& inner = at(x.inputs[0]).shape;
  const int lead = x.shape.rank() - inner.rank();
  return d < lead || inner[d - lead] == 1;
}

}  // namespace ebb
