// SPDX-License-Identifier: MIT
#include "schedule/join.h"

#include <algorithm>
#include <map>

#include "schedule/placed.h"
#include "schedule/trial.h"

namespace ebb {

void join_groups(Fusion& f, int into, int other, const std::vector<std::int8_t>& where) {
  for (std::int32_t m : f.groups[other].members) {
    Placement& p = f.places[m];
    p.group = into;
    p.varies = rename(p.varies, where);
    p.reads = rename(p.reads, where);
    for (AxisMap* map : {&p.map, &p.operand_map}) {
      for (int d = 0; d < Shape::kMaxRank; ++d) {
        std::int8_t& a = (*map)[d];
        if (a >= 0 && static_cast<std::size_t>(a) < where.size()) a = where[a];
      }
    }
  }
  auto& members = f.groups[into].members;
  members.insert(members.end(), f.groups[other].members.begin(), f.groups[other].members.end());
  std::sort(members.begin(), members.end());
  f.groups[other].members.clear();
}

bool reduces(const ValueGraph& g, const Fusion& f, const SweepGroup& group, Post post) {
  return std::any_of(group.members.begin(), group.members.end(), [&](std::int32_t m) {
    const Op op = g.values[m].op;
    return f.places[m].post == post && (info(op).cls == OpClass::reduce || op == Op::pick);
  });
}

namespace {

bool try_join(const ValueGraph& g, Fusion& f, int a, int b, const AxisMap& map_a, const AxisMap& map_b, int rank,
              Reductions reductions) {
  const SweepGroup &ga = f.groups[a], &gb = f.groups[b];
  if (ga.axes.size() != gb.axes.size() || ga.members.size() + gb.members.size() > 256) return false;
  std::vector<std::int8_t> where(gb.axes.size(), kFree);
  for (int d = 0; d < rank; ++d) {
    if ((map_a[d] < 0) != (map_b[d] < 0)) return false;
    if (map_a[d] >= 0) where[map_b[d]] = map_a[d];
  }
  if (std::find(where.begin(), where.end(), kFree) != where.end()) return false;
  Trial t;
  t.axes = ga.axes;
  t.rows = ga.rows;
  if (gb.rows != SweepGroup::kUndecided) {
    const std::uint32_t rows = rename(gb.rows, where);
    if (t.rows == SweepGroup::kUndecided) t.rows = rows;
    if (t.rows != rows) return false;
  }
  t.add_signatures(ga, nullptr);
  t.add_signatures(gb, &where);
  // A total in one group and rows == 0 in the other would disagree about where totals are ready.
  if (ga.rows != gb.rows && (ga.rows == 0 || gb.rows == 0)) return false;
  if (!t.signatures_fit()) return false;
  const auto either = [&](Post post) { return reduces(g, f, ga, post) || reduces(g, f, gb, post); };
  if (t.rows != SweepGroup::kUndecided &&
      crowds(reductions, either(Post::no), either(Post::column), t.size_of(t.all() & ~t.rows), t.size_of(t.all())))
    return false;
  join_groups(f, a, b, where);
  f.groups[a].rows = t.rows;
  f.groups[a].signatures = t.signatures;
  return true;
}

}  // namespace

void join_neighbours(const ValueGraph& g, Fusion& f, Reductions reductions) {
  const Placed placed{g, f};
  struct Reader {
    int group;
    AxisMap map;
  };
  std::map<std::pair<std::int32_t, int>, std::vector<Reader>> readers;  // of memory, on a level
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(g.values.size()); ++v) {
    if (f.places[v].group < 0) continue;
    for (std::int32_t in : g.values[v].inputs) {
      const Value& y = g.values[in];
      const Placement& p = f.places[v];
      // One number, however often it is repeated, is no reason: the updates of all parameters would be one sweep.
      if (placed.inside(in, p.level) || g.values[g.base(in)].shape.numel() <= 1) continue;
      const bool whole =
          (info(g.values[v].op).cls == OpClass::reduce || g.values[v].op == Op::pick) && in == g.values[v].inputs[0];
      if (!whole && (info(g.values[v].op).cls != OpClass::elementwise || p.post != Post::no)) continue;
      const AxisMap& seen = whole ? p.operand_map : p.map;
      std::vector<Reader>& others = readers[{in, p.level}];
      std::erase_if(others, [&](const Reader& r) { return f.groups[r.group].members.empty(); });  // joined elsewhere
      const bool known = std::any_of(others.begin(), others.end(), [&](const Reader& r) {
        return r.group == p.group || try_join(g, f, r.group, p.group, r.map, seen, y.shape.rank(), reductions);
      });
      // Where groups are kept apart that fit one space, others may still fit one of them.
      if (!known && (others.empty() || reductions == Reductions::by_memory)) others.push_back({p.group, seen});
    }
  }
}

void mark_memory(const ValueGraph& g, Fusion& f) {
  const Placed placed{g, f};
  std::vector<char> live(g.values.size(), 0);  // what simplifications left without readers is not computed
  for (const std::int32_t r : g.roots) live[static_cast<std::size_t>(r)] = 1;
  for (std::size_t v = live.size(); v-- > 0;) {
    for (const std::int32_t in : g.values[v].inputs) live[static_cast<std::size_t>(in)] |= live[v];
  }
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(g.values.size()); ++v) {
    const Value& x = g.values[v];
    const Placement& p = f.places[v];
    if (x.is_view() || !live[static_cast<std::size_t>(v)]) continue;
    for (std::int32_t in : x.inputs) {
      const std::int32_t b = g.base(in);
      if (f.places[b].group < 0) continue;
      if (p.group != f.places[b].group || !placed.usable_inside(in)) f.places[b].in_memory = true;
      if (p.group >= 0 && p.group == f.places[b].group && !placed.inside(in, p.level)) f.places[b].in_memory = true;
    }
  }
  for (std::int32_t r : g.roots) {
    if (f.places[g.base(r)].group >= 0) f.places[g.base(r)].in_memory = true;
  }
}

}  // namespace ebb
