// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "schedule/attempt.h"
#include "schedule/join.h"

namespace ebb {

// Joins the input of a reduction or pick. All its dimensions become axes.
bool Attempts::take_operand(Trial& t, std::int32_t in, int level) {
  const Value& y = value(in);
  const int rank = y.shape.rank();
  t = Trial(y.shape);
  if (inside(in, level)) {
    const Placement& p = placed_.of_base(in);
    if (p.post != Post::no || !take_in(t, in, rank)) return false;
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] == kFree) return false;
    }
    t.varies = p.varies;
  } else {
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] == kFree && !t.bind(d, y.shape[d], rank)) return false;
    }
    // A fresh space: dimensions of equal size are different axes.
    t.varies = t.all();
  }
  return true;
}

// Elements from one number of a group to the next along each axis, in the first memory that has all axes; else 0.
std::vector<std::int64_t> Attempts::steps_of(const SweepGroup& group, int id) const {
  for (const std::int32_t m : group.members) {
    const Value& x = value(m);
    const bool reads = info(x.op).cls == OpClass::reduce || x.op == Op::pick;
    const AxisMap& map = reads ? f_.places[m].operand_map : f_.places[m].map;
    for (const std::int32_t in : x.inputs) {
      const Value& y = value(in);
      if (placed_.of_base(in).group == id || value(g_.base(in)).op == Op::constant || (y.is_leaf && y.op != Op::data))
        continue;
      const Strides strides = strides_of(y);
      std::vector<std::int64_t> steps(group.axes.size(), 0);
      for (int d = 0; d < y.shape.rank(); ++d) {
        if (map[d] >= 0 && y.shape[d] > 1) steps[map[d]] = std::abs(strides[d]);
      }
      if (std::none_of(steps.begin(), steps.end(), [](std::int64_t s) { return s == 0; })) return steps;
    }
  }
  return std::vector<std::int64_t>(group.axes.size(), 0);
}

// The dimensions of a reduction's operand, outermost first.
std::vector<int> Attempts::dims_in_order(const Trial& t, std::int32_t in, int level) const {
  const Value& x = value(in);
  std::vector<int> dims;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (t.map[d] >= 0) dims.push_back(d);
  }
  if (reductions_ != Reductions::by_memory || x.shape.numel() <= kScheduleModel.small_space) return dims;
  std::vector<std::int64_t> steps(dims.size(), 0);
  if (inside(in, level)) {
    const std::vector<std::int64_t> of_axes = steps_of(f_.groups[t.into], t.into);
    for (std::size_t k = 0; k < dims.size(); ++k) steps[k] = of_axes[t.map[dims[k]]];
  } else if (x.is_view() || x.is_leaf) {
    for (std::size_t k = 0; k < dims.size(); ++k) steps[k] = std::abs(x.strides[dims[k]]);
  }
  if (std::any_of(steps.begin(), steps.end(), [](std::int64_t s) { return s == 0; })) return dims;
  std::vector<int> order(dims.size()), sorted;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return steps[a] > steps[b]; });
  for (const int k : order) sorted.push_back(dims[k]);
  return sorted;
}

std::optional<Trial> Attempts::attempt_reduce(std::int32_t v, int level) {
  const Value& x = value(v);
  const std::int32_t in = x.inputs[0];
  Trial t;
  if (!take_operand(t, in, level)) return std::nullopt;
  const Shape& from = value(in).shape;
  std::uint32_t reduced = 0;
  bool innermost = false, prefix = true, seen_kept = false;
  for (const int d : dims_in_order(t, in, level)) {
    const bool r = x.attrs.axes >> d & 1;
    if (r) reduced |= 1u << t.map[d];
    if (r && seen_kept) prefix = false;
    if (!r) seen_kept = true;
    innermost = r;
  }
  const std::uint32_t varies = t.varies, all = t.all(), kept = all & ~reduced;
  t.post = Post::no;
  t.reads = varies;
  t.operand_map = t.map;
  t.add_signature(varies);
  if (varies == all) {
    if (kept == 0) {
      if (t.rows != 0) t.post = Post::scalar;  // rows == 0: the whole space is one row already
    } else {
      const bool beside = reductions_ == Reductions::beside && few_rows(t.size_of(reduced), t.size_of(kept));
      if (t.rows == SweepGroup::kUndecided) t.rows = innermost || !prefix || beside ? kept : reduced;
      if (t.rows == kept) {
        t.post = Post::no;
      } else if (t.rows == reduced) {
        t.post = Post::column;
      } else {
        return std::nullopt;
      }
    }
    t.varies = kept;
  } else if (t.rows != SweepGroup::kUndecided && varies == t.rows && reduced == t.rows) {
    t.post = Post::scalar;
    t.varies = 0;
  } else {
    return std::nullopt;
  }
  if (t.post == Post::no) t.add_signature(t.varies);
  if (!t.signatures_fit()) return std::nullopt;
  if (t.into >= 0 && t.rows != SweepGroup::kUndecided) {
    const auto either = [&](Post post) { return t.post == post || reduces(g_, f_, f_.groups[t.into], post); };
    if (crowds(reductions_, either(Post::no), either(Post::column), t.size_of(t.all() & ~t.rows), t.size_of(t.all())))
      return std::nullopt;
  }
  for (int d = 0; d < from.rank(); ++d) {
    if (x.attrs.axes >> d & 1) t.map[static_cast<std::size_t>(d) % t.map.size()] = kUnit;
  }
  return t;
}

// Unifies a row operand (index or cotangent of pick/place) with the trial; `axis` is the one it lacks.
bool Attempts::take_row_operand(Trial& t, std::int32_t in, int level, int rank) {
  if (inside(in, level)) {
    if (placed_.of_base(in).post != Post::no) return false;
    return take_in(t, in, rank);
  }
  return true;
}

std::optional<Trial> Attempts::attempt_pick(std::int32_t v, int level) {
  const Value& x = value(v);
  const auto axis = static_cast<int>(x.attrs.i[0]);
  Trial t;
  if (!take_operand(t, x.inputs[0], level) || t.varies != t.all()) return std::nullopt;
  const std::int8_t column = t.map[axis];
  t.reads = t.all();
  t.operand_map = t.map;
  if (!take_row_operand(t, x.inputs[1], level, x.shape.rank())) return std::nullopt;
  return finish_row_op(t, x.shape.rank(), axis, column, true);
}

std::optional<Trial> Attempts::attempt_place(std::int32_t v, int level) {
  const Value& x = value(v);
  const auto axis = static_cast<int>(x.attrs.i[0]);
  const int rank = x.shape.rank();
  Trial t(x.shape);
  for (std::int32_t in : x.inputs) {
    if (inside(in, level)) {
      if (placed_.of_base(in).post != Post::no || !take_in(t, in, rank)) return std::nullopt;
      t.map[axis] = kFree;
    }
  }
  for (int d = 0; d < rank; ++d) {
    if (t.map[d] == kFree && !t.bind(d, x.shape[d], rank)) return std::nullopt;
  }
  return finish_row_op(t, rank, axis, t.map[axis], false);
}

std::optional<Trial> Attempts::finish_row_op(Trial& t, int rank, int axis, std::int8_t column, bool pick) {
  // Its dimensions are all axes of the space: along any other it would be recomputed for every element, and never where
  // there are none.
  std::uint32_t covered = 1u << column;
  for (int d = 0; d < rank; ++d) {
    if (t.map[d] >= 0) covered |= 1u << t.map[d];
  }
  if (covered != t.all()) return std::nullopt;
  const std::uint32_t rows = t.all() & ~(1u << column);
  if (t.rows == SweepGroup::kUndecided) t.rows = rows;
  t.add_signature(t.all());
  t.add_signature(rows);
  if (t.rows != rows || !t.signatures_fit()) return std::nullopt;
  t.varies = pick ? rows : t.all();
  t.post = Post::no;
  t.map[axis] = pick ? kUnit : column;
  return t;
}

}  // namespace ebb
