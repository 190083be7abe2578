// SPDX-License-Identifier: MIT
// Views: where their elements are in memory, and whether a sweep can follow them.
#include <algorithm>
#include <utility>

#include "schedule/schedule_model.h"
#include "schedule/simplifier.h"

namespace ebb {

namespace {

// Strides that show `from` (with `strides`) in the shape `to` without moving elements; false where none exist.
bool view_reshape(const Shape& from, const Strides& strides, const Shape& to, Strides& out) {
  if (to.numel() == 0) {
    out = contiguous_strides(to);
    return true;
  }
  // Matches runs of old dimensions with runs of new ones of the same number of elements; inside a run the old
  // dimensions must be contiguous.
  int i = 0, j = 0;
  const int n = from.rank(), m = to.rank();
  while (j < m) {
    if (to[j] == 1) {
      out[j++] = 0;
      continue;
    }
    while (i < n && from[i] == 1) ++i;
    int i1 = i + 1, j1 = j + 1;
    std::int64_t old_size = from[i], new_size = to[j];
    while (old_size != new_size) {
      if (old_size < new_size) {
        old_size *= from[i1++];
      } else {
        new_size *= to[j1++];
      }
    }
    std::int64_t expected = -1;
    std::int64_t inner = 0;
    for (int k = i1 - 1; k >= i; --k) {
      if (from[k] == 1) continue;
      if (expected == -1) {
        inner = strides[k];
      } else if (strides[k] != expected) {
        return false;
      }
      expected = strides[k] * from[k];
    }
    std::int64_t step = inner;
    for (int k = j1 - 1; k >= j; --k) {
      out[k] = step;
      step *= to[k];
    }
    i = i1;
    j = j1;
  }
  return true;
}

// A reshape that only adds or drops dimensions of size 1.
bool same_but_ones(const Shape& from, const std::array<std::int8_t, Shape::kMaxRank>& shows, const Shape& to,
                   std::array<std::int8_t, Shape::kMaxRank>& out) {
  int i = 0;
  for (int d = 0; d < to.rank(); ++d) {
    if (to[d] == 1) continue;
    while (i < from.rank() && from[i] == 1) ++i;
    if (i == from.rank() || from[i] != to[d]) return false;
    out[d] = shows[i++];
  }
  while (i < from.rank() && from[i] == 1) ++i;
  return i == from.rank();  // with no elements, dimensions of any size could be left over
}

}  // namespace

bool Simplifier::widens(const Value& v) const {
  return v.op == Op::cast && !v.is_leaf && v.dtype == DType::f32 && is_half(at(v.inputs[0]).dtype);
}

bool Simplifier::widens_memory(const Value& v) const {
  if (!widens(v)) return false;
  const Value& x = at(v.inputs[0]);
  return (x.is_view() ? at(x.base) : x).op == Op::data;
}

std::int32_t Simplifier::widened_after(Value view) {
  Value wide = at(view.inputs[0]);
  view.dtype = at(wide.inputs[0]).dtype;
  view.inputs[0] = wide.inputs[0];
  view.node = wide.node = -1;
  wide.shape = view.shape;
  wide.inputs = {add_view(std::move(view))};
  return intern(std::move(wide));
}

std::int32_t Simplifier::widened_when_joined(Value v) {
  const auto narrow = [&](std::int32_t in) { return widens(at(in)) ? at(in).inputs[0] : -1; };
  const std::int32_t first = narrow(v.inputs[0]);
  if (first < 0) return -1;
  const DType half = at(first).dtype;
  for (std::int32_t in : v.inputs) {
    if (narrow(in) < 0 || at(narrow(in)).dtype != half) return -1;
  }
  Value wide;
  wide.op = Op::cast;
  wide.dtype = v.dtype;
  wide.shape = v.shape;
  wide.node = v.node;
  for (std::int32_t& in : v.inputs) in = narrow(in);
  v.dtype = half;
  v.node = -1;
  wide.inputs = {add(std::move(v))};
  return intern(std::move(wide));
}

std::int32_t Simplifier::add_view(Value v) {
  const std::int32_t in = v.inputs[0];
  if (v.op == Op::reshape || v.op == Op::permute || v.op == Op::expand || v.op == Op::narrow) {
    if (v.shape == at(in).shape && v.op != Op::narrow && v.op != Op::permute) return in;
    if (v.shape.numel() > 0) {
      const std::int32_t source = uniform_source(in);
      if (source >= 0) return uniform(source, v.shape);
    }
    if (v.op == Op::reshape && at(in).op == Op::reshape) {
      v.inputs[0] = at(in).inputs[0];
      return add_view(std::move(v));
    }
    if (v.op == Op::expand && at(in).op == Op::expand && at(at(in).inputs[0]).shape.rank() == v.shape.rank()) {
      v.inputs[0] = at(in).inputs[0];
      return add_view(std::move(v));
    }
    // Each reader widens: a separate sweep would cost more, and so would f32 that is written to be read in another
    // shape.
    if (v.op == Op::expand ? widens_memory(at(in)) : v.op != Op::permute && widens(at(in)))
      return widened_after(std::move(v));
  }
  if (v.op == Op::narrow && !slices_.empty()) {
    if (const std::int32_t product = slice_of_product(v); product >= 0) return product;
  }
  const std::int32_t view = finish_view(std::move(v)), operand = without_zeros(view);
  return operand >= 0 ? operand : view;
}

// The result of pad_zero is [lines, length] in memory, its operand [lines, width] at a column of it. The view's last
// axes that move along lines, merged, are `count` elements `step` apart; those before show all lines in order.
std::int32_t Simplifier::without_zeros(std::int32_t view) {
  const Value v = at(view);
  if (!v.is_view() || v.shape.numel() == 0) return -1;
  for (std::int32_t x = view; at(x).is_view(); x = at(x).inputs[0]) {
    const Op op = at(x).op;
    if (op != Op::reshape && op != Op::permute && op != Op::narrow) return -1;
  }
  const Value pad = at(v.base);
  if (pad.op != Op::pad_zero || pad.is_leaf || pad.shape.numel() == 0) return -1;
  const auto axis = static_cast<int>(pad.attrs.i[0]);
  const Shape given = at(pad.inputs[0]).shape;
  std::int64_t inner = 1, lines = 1;
  for (int d = axis + 1; d < pad.shape.rank(); ++d) inner *= pad.shape[d];
  for (int d = 0; d < axis; ++d) lines *= pad.shape[d];
  const std::int64_t length = pad.shape[axis] * inner, width = given[axis] * inner, before = pad.attrs.i[1] * inner;
  std::int64_t count = 1, step = 1;
  int d = v.shape.rank() - 1;
  for (; d >= 0; --d) {
    if (v.shape[d] == 1) continue;
    if (count == 1 && (lines == 1 || v.strides[d] != length)) {
      step = v.strides[d];
    } else if (v.strides[d] != step * count || (lines > 1 && v.strides[d] == length)) {
      break;
    }
    count *= v.shape[d];
  }
  std::int64_t shown = 1;
  for (; d >= 0; --d) {
    if (v.shape[d] != 1 && v.strides[d] != length * shown) return -1;
    shown *= v.shape[d];
  }
  if (shown != lines || step <= 0 || v.offset + (count - 1) * step >= length) return -1;
  // Elements of a line: those before the operand's columns, inside and after.
  const auto from = [&](std::int64_t column) {
    return std::clamp<std::int64_t>((column - v.offset + step - 1) / step, 0, count);
  };
  const std::int64_t first = v.offset >= before ? 0 : from(before), inside = from(before + width) - first;
  const bool whole = inside == count;
  if (inside <= 0 || (!whole && v.shape.numel() * kScheduleModel.few_of_zeros > pad.shape.numel())) return -1;
  Value part;
  part.op = Op::narrow;
  part.dtype = v.dtype;
  part.shape = Shape{lines, inside};
  part.attrs.i = {1, v.offset + first * step - before, step, 0};
  part.inputs = {reshaped(pad.inputs[0], Shape{lines, width})};
  const std::int32_t narrow = add_view(std::move(part));
  if (whole) return reshaped(narrow, v.shape);
  Value zeros;
  zeros.op = Op::pad_zero;
  zeros.dtype = v.dtype;
  zeros.shape = Shape{lines, count};
  zeros.attrs.i = {1, first, count - first - inside, 0};
  zeros.inputs = {in_memory(narrow)};
  return reshaped(intern(std::move(zeros)), v.shape);
}

std::int32_t Simplifier::joined_again(const Value& cat) {
  const auto axis = static_cast<int>(cat.attrs.i[0]);
  const Value& first = at(cat.inputs[0]);
  if (!first.is_view() || first.offset != 0 || cat.shape.numel() == 0) return -1;
  const Value& base = at(first.base);
  if (base.shape.numel() != cat.shape.numel() || base.dtype != cat.dtype) return -1;
  if (base.is_leaf && !is_contiguous(base.shape, base.strides)) return -1;
  const Strides dense = contiguous_strides(cat.shape);
  std::int64_t offset = 0;
  for (std::int32_t in : cat.inputs) {
    const Value& part = at(in);
    if (!part.is_view() || part.base != first.base || part.offset != offset) return -1;
    for (int d = 0; d < cat.shape.rank(); ++d) {
      if (part.shape[d] != 1 && part.strides[d] != dense[d]) return -1;
    }
    for (std::int32_t x = in; at(x).is_view(); x = at(x).inputs[0]) {
      if (at(x).op == Op::depend) return -1;  // the same memory, but not yet
    }
    offset += part.shape[axis] * dense[axis];
  }
  Value whole;
  whole.op = Op::reshape;
  whole.dtype = cat.dtype;
  whole.shape = cat.shape;
  whole.inputs = {first.base};
  whole.node = cat.node;
  return add_view(std::move(whole));
}

std::int32_t Simplifier::finish_view(Value v) {
  const std::int32_t in = v.inputs[0];
  const Value& x = at(in);
  v.base = x.is_view() ? x.base : in;
  v.offset = x.is_view() ? x.offset : 0;
  const Strides from = strides_of(x);
  std::array<std::int8_t, Shape::kMaxRank> shows{};
  if (x.is_view()) {
    shows = x.shows;
  } else {
    for (int d = 0; d < x.shape.rank(); ++d) shows[d] = static_cast<std::int8_t>(d);
  }
  v.mappable = !x.is_view() || x.mappable;
  v.shows.fill(-1);
  const int rank = v.shape.rank();
  switch (v.op) {
    case Op::permute: {
      const auto axes = unpack_axes(v.attrs.i[0]);
      for (int d = 0; d < rank; ++d) {
        v.strides[d] = from[axes[d]];
        v.shows[d] = shows[axes[d]];
      }
      break;
    }
    case Op::expand: {
      const int lead = rank - x.shape.rank();
      for (int d = lead; d < rank; ++d) {
        const bool repeats = x.shape[d - lead] != v.shape[d];
        v.strides[d] = repeats ? 0 : from[d - lead];
        v.shows[d] = repeats ? std::int8_t{-1} : shows[d - lead];
      }
      break;
    }
    case Op::narrow: {
      const auto axis = static_cast<int>(v.attrs.i[0]);
      for (int d = 0; d < rank; ++d) v.strides[d] = from[d];
      v.strides[axis] *= v.attrs.i[2];
      v.offset += from[axis] * v.attrs.i[1];
      v.mappable = false;
      break;
    }
    case Op::reshape: {
      if (!view_reshape(x.shape, from, v.shape, v.strides)) {
        // The elements must move: a contiguous copy first, then a view of that.
        Value copy;
        copy.op = Op::copy;
        copy.dtype = v.dtype;
        copy.shape = x.shape;
        copy.inputs = {in};
        v.inputs[0] = intern(std::move(copy));
        return finish_view(std::move(v));
      }
      v.mappable = v.mappable && same_but_ones(x.shape, shows, v.shape, v.shows);
      break;
    }
    case Op::output:
      // The k-th result of a library call with several; its memory is the call's own.
      v.base = -1;
      v.mappable = false;
      return intern(std::move(v));
    default:  // depend: the same memory, later
      v.strides = from;
      v.mappable = false;
      break;
  }
  return intern(std::move(v));
}

}  // namespace ebb
