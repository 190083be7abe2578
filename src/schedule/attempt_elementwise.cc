// SPDX-License-Identifier: MIT
#include "schedule/attempt.h"

namespace ebb {

std::optional<Trial> Attempts::attempt_elementwise(std::int32_t v, int level) {
  const Value& x = value(v);
  const int rank = x.shape.rank();
  bool any_post = false;
  for (std::int32_t in : x.inputs) any_post |= inside(in, level) && placed_.of_base(in).post != Post::no;
  if (any_post) {
    if (std::optional<Trial> t = attempt_post(v, level)) return t;
    if (!make_totals_usable(v, level)) return std::nullopt;
  }
  Trial t(x.shape);
  std::uint32_t varies = 0;
  for (std::int32_t in : x.inputs) {
    if (!inside(in, level)) continue;
    if (placed_.of_base(in).post != Post::no) return std::nullopt;
    if (!take_in(t, in, rank)) return std::nullopt;
  }
  const std::size_t axes_before = t.axes.size();
  int last_old = -1, first_new = rank;
  for (int d = 0; d < rank; ++d) {
    if (t.map[d] >= 0) last_old = d;
    if (t.map[d] != kFree) continue;
    const std::size_t n = t.axes.size();
    if (!t.bind(d, x.shape[d], rank)) return std::nullopt;
    if (t.axes.size() > n) first_new = std::min(first_new, d);
    bool varying = false;
    for (std::int32_t in : x.inputs) varying |= !inside(in, level) && memory_varies(in, d);
    if (!varying) varies |= 1u << t.map[d];  // repeated along d in every input, but its memory has room for all
  }
  if (axes_before > 0 && t.axes.size() > axes_before && t.rows == 0) return std::nullopt;
  for (std::int32_t in : x.inputs) {
    if (inside(in, level)) {
      varies |= signature_of(t, in);
    } else {
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] >= 0 && memory_varies(in, d)) varies |= 1u << t.map[d];
      }
    }
  }
  // Numbers computed on fewer axes can become row values only if the new axes are inner ones; else they would be
  // recomputed for every row.
  if (t.axes.size() > axes_before && axes_before > 0 && first_new < last_old) return std::nullopt;
  t.add_signature(varies);
  const bool open = t.rows == SweepGroup::kUndecided;
  if (!t.signatures_fit()) return std::nullopt;
  // For the same reason they cannot be rows stored side by side, one for each innermost element.
  int inner = rank - 1;
  while (inner > 0 && t.map[inner] < 0) --inner;
  if (open && t.rows != SweepGroup::kUndecided && varies == t.all() && inner >= 0 && t.map[inner] >= 0 &&
      (t.rows >> t.map[inner] & 1))
    return std::nullopt;
  t.varies = varies;
  t.post = Post::no;
  return t;
}

// Operations on finished totals or column sums: the epilogue.
std::optional<Trial> Attempts::attempt_post(std::int32_t v, int level) {
  const Value& x = value(v);
  const int rank = x.shape.rank();
  Post kind = Post::scalar;
  for (std::int32_t in : x.inputs) {
    if (inside(in, level) && placed_.of_base(in).post == Post::column) kind = Post::column;
  }
  if (kind == Post::scalar && x.shape.numel() != 1) return std::nullopt;
  Trial t(x.shape);
  for (std::int32_t in : x.inputs) {
    if (!inside(in, level)) continue;
    const Placement& p = placed_.of_base(in);
    if (p.post == Post::no && p.varies != 0) return std::nullopt;
    if (!take_in(t, in, rank)) return std::nullopt;
  }
  if (t.rows == 0) return std::nullopt;  // one of the groups is one row: its reductions are no totals
  std::uint32_t varies = 0;
  for (std::int32_t in : x.inputs) {
    if (inside(in, level)) {
      varies |= signature_of(t, in);
      continue;
    }
    for (int d = 0; d < rank; ++d) {
      if (!memory_varies(in, d)) continue;
      if (t.map[d] < 0) return std::nullopt;
      varies |= 1u << t.map[d];
    }
  }
  if (kind == Post::column && varies != (t.all() & ~t.rows)) return std::nullopt;
  for (int d = 0; d < rank; ++d) {
    if (t.map[d] == kFree) return std::nullopt;  // repeated along d, but its memory would have room for all
  }
  if (!t.signatures_fit()) return std::nullopt;
  t.varies = varies;
  t.post = kind;
  return t;
}

// In a small space a total that its own sweep needs makes the whole space one row.
bool Attempts::make_totals_usable(std::int32_t v, int level) {
  bool done = false;
  for (std::int32_t in : value(v).inputs) {
    if (!inside(in, level)) continue;
    const Placement& p = placed_.of_base(in);
    if (p.post == Post::no) continue;
    SweepGroup& group = f_.groups[p.group];
    std::int64_t size = 1;
    for (std::int64_t s : group.axes) size *= s;
    if (p.post == Post::column || size > kScheduleModel.small_space ||
        (group.rows != SweepGroup::kUndecided && group.rows != 0))
      return false;
    for (std::int32_t m : group.members) {
      const Placement& q = f_.places[m];
      if (q.post == Post::column || (q.post == Post::no && q.varies != 0 && q.varies != group.all())) return false;
    }
    group.rows = 0;
    for (std::int32_t m : group.members) f_.places[m].post = Post::no;
    done = true;
  }
  return done;
}

}  // namespace ebb
