// SPDX-License-Identifier: MIT
#include "schedule/delay.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "schedule/placed.h"

namespace ebb {

namespace {

// Does v read `in` from memory wherever the two are placed? A value repeated for every row, a bias, always is.
bool apart(const ValueGraph& g, const Refusals& refusals, std::int32_t v, std::int32_t in) {
  const Value& x = g.values[in];
  if (!x.is_view()) return refusals.contains({v, in});
  if (!x.mappable) return true;
  bool repeated = false;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (x.shape[d] == 1) continue;
    if (x.shows[d] >= 0 && repeated) return true;
    repeated |= x.shows[d] < 0;
  }
  return refusals.contains({v, x.base});
}

}  // namespace

// Levels of one fusion include its own waits. If decisions used them, the next round would be a level later, and so on:
// so they use the levels that values would have if nothing but `delay` held them up, and if all shared a sweep that are
// not known to be apart.
Levels natural_levels(const ValueGraph& g, const Fusion& f, const Refusals& refusals, const std::vector<int>& delay) {
  const Placed placed{g, f};
  const std::size_t n = g.values.size();
  Levels levels{std::vector<int>(n, 0), std::vector<int>(n, 0)};
  std::vector<int> of_group(f.groups.size(), 0);
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return f.places[a].level < f.places[b].level; });
  const auto level = [&](std::int32_t v) { return std::max(levels.sweep[v], levels.sweep[g.base(v)]); };
  const auto ready = [&](std::int32_t v) { return level(v) + (placed.computed(v) ? 1 : 0); };
  const auto place_alone = [&](std::int32_t v) {
    const Value& x = g.values[v];
    if (x.is_leaf) return;
    int own = 0;
    for (const std::int32_t in : x.inputs)
      own = std::max(own, x.is_view() && x.op != Op::depend ? level(in) : ready(in));
    if (x.op == Op::depend && placed.computed(v)) --own;  // as place_values places it
    levels.own[v] = levels.sweep[v] = own;
  };
  for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
    while (end < n && f.places[order[end]].level == f.places[order[begin]].level) ++end;
    const std::span<const std::int32_t> now(order.data() + begin, end - begin);
    for (const std::int32_t v : now) {
      const int group = f.places[v].group;
      if (group < 0) {  // a sweep of this level may read it, a view that depends on something earlier
        place_alone(v);
        continue;
      }
      int own = delay.empty() ? 0 : delay[v];
      for (const std::int32_t in : g.values[v].inputs) {
        const std::int32_t b = g.base(in);
        const bool joins = f.places[b].group >= 0 && f.places[b].post == Post::no && !apart(g, refusals, v, in);
        own = std::max(own, f.places[b].group == group ? levels.own[b] : joins ? level(in) : ready(in));
      }
      levels.own[v] = own;
      of_group[group] = std::max(of_group[group], own);
    }
    for (const std::int32_t v : now) {
      if (f.places[v].group >= 0)
        levels.sweep[v] = of_group[f.places[v].group];
      else
        place_alone(v);
    }
  }
  return levels;
}

// Work that only later levels need is better done there: what it reads is in memory anyway, what it makes then is not.
// Reductions make little of much, so they wait a level or two at most. Returns the level each value should wait for.
std::vector<int> latest_levels(const ValueGraph& g, const Fusion& f, const Levels& levels, const Refusals& refusals) {
  const auto n = static_cast<std::int32_t>(g.values.size());
  constexpr int kNever = 1 << 30;
  std::vector<int> use(n, kNever);
  std::vector<int> out(n, 0);
  for (std::int32_t r : g.roots) use[r] = -1;  // roots stay where they are
  for (std::int32_t v = n - 1; v >= 0; --v) {
    const Value& x = g.values[v];
    const Placement& p = f.places[v];
    int level = levels.own[v];
    if (p.group >= 0 && p.post == Post::no && use[v] != kNever && use[v] > level) {
      const bool reduces = info(x.op).cls == OpClass::reduce || x.op == Op::pick;
      if (!reduces || use[v] <= level + 2) out[v] = level = use[v];
    }
    if (x.is_view() && x.op != Op::depend) level = std::max(level, use[v] == kNever ? level : use[v]);
    // A library call reads memory, so its inputs are made a level before it: waiting any longer would only push the
    // call, and everything after it, to a later level.
    const bool call = x.is_call();
    for (std::int32_t in : x.inputs) {
      const bool before = call || apart(g, refusals, v, in);
      use[in] = std::min(use[in], use[v] == -1 && x.is_view() ? -1 : level - before);
    }
  }
  return out;
}

namespace {

// Is v a level after `group`, which it reads, only because the two do not fit into one sweep? Waiting for v is then in
// vain: it would move on by as much.
bool refused(const ValueGraph& g, const Fusion& f, const std::vector<int>& moved, std::int32_t v, int group) {
  if (group < 0 || f.places[v].group < 0 || f.places[v].group == group) return false;
  if (!moved.empty() && moved[v] > 0) return false;
  int level = 0;
  for (std::int32_t in : g.values[v].inputs) {
    const std::int32_t b = g.base(in);
    const Placement& p = f.places[b];
    if (p.group == group && p.post == Post::no) continue;
    const bool made = p.group >= 0 || g.values[b].op == Op::output || g.values[b].is_call();
    level = std::max(level, std::max(p.level, f.places[in].level) + (made ? 1 : 0));
  }
  return level < f.places[v].level;
}

// How a sweep is divided when values that a later sweep reads again wait for that one.
struct Division {
  int later = 0;
  // By value, what must stay behind: for a total that the later sweep waits for, or for another reader.
  enum Reason : char { none = 0, total = 1, reader = 2 };
  std::vector<char> early;
};

// Divides every group for which that is worth it.
template <class Use>
void each_division(const ValueGraph& g, const Fusion& f, const std::vector<int>& moved, const Refusals& refusals,
                   bool by_level, Use&& use) {
  struct Read {
    std::int32_t made, user;
    bool joins;  // could be in one sweep with it, on a later level
  };
  std::vector<std::vector<Read>> reads(f.groups.size());
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(g.values.size()); ++v) {
    if (g.values[v].is_view() && g.values[v].op != Op::depend) continue;
    for (std::int32_t in : g.values[v].inputs) {
      const std::int32_t b = g.base(in);
      const int group = f.places[b].group;
      if (group < 0 || group == f.places[v].group) continue;
      reads[group].push_back(
          {b, v, f.places[v].group >= 0 && !(by_level ? refused(g, f, moved, v, group) : apart(g, refusals, v, in))});
    }
  }
  constexpr int kNever = 1 << 30;
  for (std::size_t k = 0; k < f.groups.size(); ++k) {
    const SweepGroup& group = f.groups[k];
    auto full = [&](std::int32_t v) { return f.places[v].post == Post::no && f.places[v].varies == group.all(); };
    Division d{kNever, {}};
    for (const Read& r : reads[k]) {
      if (r.joins && full(r.made)) d.later = std::min(d.later, f.places[r.user].level);
    }
    if (d.later == kNever) continue;
    d.early.assign(g.values.size(), 0);
    for (const Read& r : reads[k]) {
      const int level = f.places[r.user].level;
      const bool waits =
          r.joins ? level < d.later || (level == d.later && f.places[r.made].post != Post::no) : level <= d.later;
      if (waits) d.early[r.made] |= f.places[r.made].post != Post::no ? Division::total : Division::reader;
    }
    for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) {
      if (!d.early[*it]) continue;
      for (std::int32_t in : g.values[*it].inputs) {
        d.early[g.base(in)] |= d.early[*it];
      }
    }
    bool worth = false;
    for (const Read& r : reads[k]) {
      worth |= r.joins && full(r.made) && f.places[r.user].level == d.later && !d.early[r.made];
    }
    if (worth) use(group, d);
  }
}

// Costs less than being written and read.
bool is_cheap(Op op) { return info(op).cls == OpClass::elementwise && !info(op).costly; }

}  // namespace

// A sweep whose values a later one needs again is better run with that one: they then never go through memory. Only
// what the later one waits for stays behind, with its inputs. (Cross-entropy: the number of kept targets is counted
// first; everything else, value and gradient, is one sweep after that.)
void delay_groups(const ValueGraph& g, const Fusion& f, const std::vector<int>& moved, const Refusals& refusals,
                  bool by_level, std::vector<int>& delay) {
  each_division(g, f, moved, refusals, by_level, [&](const SweepGroup& group, const Division& d) {
    for (std::int32_t m : group.members) {
      if (!d.early[m]) delay[m] = std::max(delay[m], d.later);
    }
  });
}

bool compute_twice_what_totals_share(ValueGraph& g, const Fusion& f) {
  std::vector<char> early(g.values.size(), 0), shared(g.values.size(), 0);
  each_division(g, f, {}, {}, true, [&](const SweepGroup& group, const Division& d) {
    std::vector<char> late(g.values.size(), 0);
    for (std::int32_t m : group.members) {
      if (d.early[m] == Division::total) early[m] = 1;
      if (d.early[m]) continue;
      for (std::int32_t in : g.values[m].inputs) late[g.base(in)] = 1;
    }
    // A copy is computed from copies or from values already in memory.
    for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) {
      if (d.early[*it] != Division::total || !late[*it] || !is_cheap(g.values[*it].op)) continue;
      shared[*it] = 1;
      for (std::int32_t in : g.values[*it].inputs) late[g.base(in)] = 1;
    }
  });
  // The early ones get the copies: values stand for nodes, whose readers are the others.
  const auto n = static_cast<std::int32_t>(g.values.size());
  std::vector<std::int32_t> copy(n, -1);
  const auto copied = [&](auto&& self, std::int32_t v) -> std::int32_t {
    const Value& x = g.values[v];
    const bool of_shared = x.is_view() ? x.op != Op::depend && x.op != Op::output && shared[x.base] : shared[v] != 0;
    if (!of_shared) return v;
    if (copy[v] >= 0) return copy[v];
    Value c = x;
    c.node = -1;
    for (std::int32_t& in : c.inputs) in = self(self, in);
    if (c.is_view()) c.base = self(self, c.base);
    g.values.push_back(std::move(c));
    return copy[v] = static_cast<std::int32_t>(g.values.size()) - 1;
  };
  bool changed = false;
  for (std::int32_t v = 0; v < n; ++v) {
    if (!early[v] || shared[v]) continue;
    for (std::size_t k = 0; k < g.values[v].inputs.size(); ++k) {
      const std::int32_t in = g.values[v].inputs[k], other = copied(copied, in);
      changed |= other != in;
      g.values[v].inputs[k] = other;
    }
  }
  if (changed) sort_inputs_first(g);
  return changed;
}

}  // namespace ebb
