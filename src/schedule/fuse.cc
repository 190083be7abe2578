// SPDX-License-Identifier: MIT
#include "schedule/fuse.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "schedule/attempt.h"
#include "schedule/delay.h"
#include "schedule/place.h"
#include "schedule/recompute.h"

namespace ebb {
namespace {

// Bytes that the sweeps of a fusion move from and to memory.
class Traffic {
 public:
  explicit Traffic(const ValueGraph& graph) : g_(graph), live_(graph.values.size()), bytes_(graph.values.size()) {
    for (const std::int32_t r : graph.roots) live_[r] = 1;
    for (std::size_t v = live_.size(); v-- > 0;) {
      const Value& x = graph.values[v];
      for (const std::int32_t in : x.inputs) live_[in] |= live_[v];
      bytes_[v] = x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype));
    }
  }

  std::int64_t of(const Fusion& fusion) const {
    std::int64_t all = 0;
    std::vector<int> read_by(bytes_.size(), -1);  // the last group seen to read it
    for (int k = 0; k < static_cast<int>(fusion.groups.size()); ++k) {
      for (const std::int32_t v : fusion.groups[k].members) {
        if (!live_[v]) continue;  // in no sweep
        if (fusion.places[v].in_memory) all += bytes_[v];
        for (const std::int32_t in : g_.values[v].inputs) {
          const std::int32_t b = g_.base(in);
          if (fusion.places[b].group != k && std::exchange(read_by[b], k) != k) all += bytes_[b];
        }
      }
    }
    return all;
  }

 private:
  const ValueGraph& g_;
  std::vector<char> live_;
  std::vector<std::int64_t> bytes_;
};

// A fusion, and the level that each value was delayed to.
struct Choice {
  Fusion fusion;
  std::vector<int> wait;
  std::int64_t bytes;
};

void raise(std::vector<int>& levels, const std::vector<int>& to) {
  for (std::size_t v = 0; v < levels.size(); ++v) levels[v] = std::max(levels[v], to[v]);
}

// The search for a fusion that moves few bytes. (Computing everything as early as possible may move fewer bytes still,
// but then a forward pass writes more that its backward pass waits for: so everything begins as late as useful.)
class Search {
 public:
  Search(const ValueGraph& graph, Reductions reductions) : g_(graph), reductions_(reductions), traffic_(graph) {}

  // Two heuristics say what may wait for a later sweep. Steps begin from each; the end that moves less is
  // used.
  Fusion from(const Fusion& first) const {
    Choice by_level = delayed(first, true), by_refusal = delayed(first, false);
    const bool agreed = by_level.wait == by_refusal.wait;
    by_level = improved(std::move(by_level));
    if (agreed) return std::move(by_level.fusion);
    by_refusal = improved(std::move(by_refusal));
    return std::move((by_refusal.bytes < by_level.bytes ? by_refusal : by_level).fusion);
  }

 private:
  Choice choice(Fusion fusion, std::vector<int> wait) const {
    const std::int64_t bytes = traffic_.of(fusion);
    return {std::move(fusion), std::move(wait), bytes};
  }

  // All at once: whatever may wait for a later sweep does. Misfits show up one after the other, since everything later
  // is then on other levels than expected: rounds continue while they bring changes.
  Choice delayed(Fusion fusion, bool by_level) const {
    const std::vector<int> at_once(g_.values.size(), 0);
    std::vector<int> wait = at_once, delay = at_once;
    Refusals refusals;
    for (int quiet = 0, round = 0; quiet < 3 && round < kScheduleModel.most_rounds; ++round) {
      const std::size_t known = refusals.size();
      std::vector<int> next = latest_levels(g_, fusion, natural_levels(g_, fusion, refusals, delay), refusals);
      if (round < kScheduleModel.rounds_of_delay) delay_groups(g_, fusion, wait, refusals, by_level, delay);
      raise(next, delay);
      if (next == wait) break;
      wait = std::move(next);
      fusion = place_values(g_, wait, refusals, reductions_);
      quiet = refusals.size() > known ? 0 : quiet + 1;
    }
    return choice(std::move(fusion), std::move(wait));
  }

  // Neighbouring choices of levels, at most `most`: values that only later levels need wait for them; sweeps that a
  // later one reads again wait for that one, all or a single one.
  std::vector<std::vector<int>> steps_from(const Choice& now, const Refusals& refusals, std::size_t most) const {
    std::vector<std::vector<int>> steps;
    const auto add = [&](std::vector<int> step) {
      if (steps.size() < most && step != now.wait && std::find(steps.begin(), steps.end(), step) == steps.end())
        steps.push_back(std::move(step));
    };
    const std::vector<int> latest =
        latest_levels(g_, now.fusion, natural_levels(g_, now.fusion, refusals, now.wait), refusals);
    const auto with_latest = [&](std::vector<int> step) {
      raise(step, latest);
      return step;
    };
    add(with_latest(now.wait));
    for (const bool by_level : {true, false}) {
      std::vector<int> all = now.wait;
      delay_groups(g_, now.fusion, now.wait, refusals, by_level, all);
      if (all == now.wait) continue;
      add(all);
      add(with_latest(all));
      for (const SweepGroup& group : now.fusion.groups) {
        const auto waits = [&](std::int32_t m) { return all[m] != now.wait[m]; };
        if (steps.size() == most || std::none_of(group.members.begin(), group.members.end(), waits)) continue;
        std::vector<int> one = now.wait;
        for (const std::int32_t m : group.members) one[m] = all[m];
        add(std::move(one));
      }
    }
    return steps;
  }

  // Takes the step that saves most bytes until none saves any.
  Choice improved(Choice best) const {
    Refusals refusals;
    std::size_t left = std::min(kScheduleModel.most_steps, kScheduleModel.most_placed / (g_.values.size() + 1));
    while (left > 0) {
      std::optional<Choice> better;
      for (std::vector<int>& wait : steps_from(best, refusals, left)) {
        --left;
        Fusion fusion = place_values(g_, wait, refusals, reductions_);
        Choice step = choice(std::move(fusion), std::move(wait));
        if (step.bytes < (better ? *better : best).bytes) better = std::move(step);
      }
      if (!better) break;
      best = std::move(*better);
    }
    return best;
  }

  const ValueGraph& g_;
  const Reductions reductions_;
  const Traffic traffic_;
};

Fusion fuse_as_late_as_useful(ValueGraph& graph, Reductions reductions, bool may_compute_twice) {
  Refusals none;
  const std::vector<int> at_once;
  Fusion first = place_values(graph, at_once, none, reductions);
  if (may_compute_twice && compute_twice_what_totals_share(graph, first))
    first = place_values(graph, at_once, none, reductions);
  return Search(graph, reductions).from(first);
}

// Does the graph sum few rows over its first axes?
bool sums_few_rows(const ValueGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& x) {
    if (x.is_leaf || info(x.op).cls != OpClass::reduce) return false;
    const Shape& from = graph.values[x.inputs[0]].shape;
    int first = 0, last = from.rank() - 1;
    while (first < last && from[first] == 1) ++first;
    while (last > first && from[last] == 1) --last;
    if (first >= last || !(x.attrs.axes >> first & 1) || x.attrs.axes >> last & 1) return false;
    const std::int64_t columns = std::max<std::int64_t>(x.shape.numel(), 1);
    return few_rows(from.numel() / columns, columns);
  });
}

// A sweep over the columns of a sum cannot hold reductions over rows: it is used where that moves no more memory.
Fusion fuse_either_way(ValueGraph& graph, Reductions reductions, bool may_compute_twice = true) {
  if (reductions != Reductions::beside) return fuse_as_late_as_useful(graph, reductions, may_compute_twice);
  if (!sums_few_rows(graph)) return fuse_as_late_as_useful(graph, Reductions::by_dimension, may_compute_twice);
  ValueGraph turned = graph;
  Fusion usual = fuse_as_late_as_useful(graph, Reductions::by_dimension, may_compute_twice),
         beside = fuse_as_late_as_useful(turned, Reductions::beside, may_compute_twice);
  if (Traffic(turned).of(beside) > Traffic(graph).of(usual)) return usual;
  graph = std::move(turned);
  return beside;
}

}  // namespace

Fusion fuse(ValueGraph& graph, int bytes_of_a_function, Reductions reductions) {
  Fusion fusion = fuse_either_way(graph, reductions);
  if (bytes_of_a_function == 0) return fusion;
  // Sweeps that recompute more are different sweeps, which may share what one of them computed before.
  for (int round = 0; round < kScheduleModel.rounds_of_making_again; ++round) {
    if (!compute_again_what_costs_less(graph, fusion, bytes_of_a_function)) break;
    fusion = fuse_either_way(graph, reductions);
  }
  // Some of what they recompute stays in memory for others as well, several times.
  ValueGraph shared = graph;
  if (!read_what_stays_once(shared, fusion)) return fusion;
  Fusion fewer = fuse_either_way(shared, reductions, false);
  if (Traffic(shared).of(fewer) >= Traffic(graph).of(fusion)) return fusion;
  graph = std::move(shared);
  return fewer;
}

}  // namespace ebb
