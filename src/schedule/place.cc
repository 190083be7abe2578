// SPDX-License-Identifier: MIT
#include "schedule/place.h"

#include <algorithm>

#include "core/format_error.h"
#include "schedule/attempt.h"
#include "schedule/join.h"

namespace ebb {
namespace {

class Places {
 public:
  Places(const ValueGraph& graph, const std::vector<int>& not_before, Refusals& refusals, Reductions reductions)
      : g_(graph),
        not_before_(not_before),
        refusals_(refusals),
        reductions_(reductions),
        attempts_(graph, f_, reductions) {}

  Fusion run() {
    f_.places.resize(g_.values.size());
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) place(v);
    join_neighbours(g_, f_, reductions_);
    mark_memory(g_, f_);
    return std::move(f_);
  }

 private:
  void place(std::int32_t v) {
    const Value& x = g_.values[v];
    Placement& p = f_.places[v];
    if (x.is_leaf || (x.op == Op::constant && x.inputs.empty())) return;
    if (x.op == Op::depend || x.op == Op::output || x.is_call() || x.is_view()) {
      // A view is on the level of its base; `depend` also waits for its second input.
      for (std::int32_t in : x.inputs)
        p.level = std::max(p.level, x.is_view() && x.op != Op::depend ? placed_.level(in) : placed_.ready(in));
      if (x.op == Op::depend && placed_.computed(v)) --p.level;  // readers of computed memory are a level later anyway
      return;
    }
    int level = not_before_.empty() ? 0 : not_before_[v];
    for (std::int32_t in : x.inputs)
      level = std::max(level, placed_.usable_inside(in) ? placed_.level(in) : placed_.ready(in));
    if (std::optional<Trial> t = attempts_.attempt(v, level); t && attempts_.totals_fit(*t)) {
      commit(v, level, *t);
      return;
    }
    note_refusals(v, level);
    // With every input in memory, it always fits a sweep of its own.
    for (std::int32_t in : x.inputs) level = std::max(level, placed_.ready(in));
    std::optional<Trial> t = attempts_.attempt(v, level);
    require(t.has_value(), "internal: {} {} fits no sweep", info(x.op).name, x.shape);
    commit(v, level, *t);
  }

  // Notes what v cannot have in its own sweep, whatever else is there: each is tried with the others as memory. If v
  // reads a total, that is the reason, and no other sweep helps.
  void note_refusals(std::int32_t v, int level) {
    std::vector<std::int32_t> all;
    for (std::int32_t in : g_.values[v].inputs) {
      if (!placed_.inside(in, level)) continue;
      if (placed_.of_base(in).post != Post::no) return;
      all.push_back(g_.base(in));
    }
    for (std::int32_t b : all) {
      if (!attempts_.attempt_with(v, level, b)) refusals_.insert({v, b});
    }
  }

  void commit(std::int32_t v, int level, const Trial& t) {
    int id = t.into;
    if (id < 0) {
      id = static_cast<int>(f_.groups.size());
      f_.groups.emplace_back();
      f_.groups[id].level = level;
    }
    for (const auto& [other, where] : t.renamed) join_groups(f_, id, other, where);
    SweepGroup& group = f_.groups[id];
    group.axes = t.axes;
    group.rows = t.rows;
    group.signatures = t.signatures;
    group.members.push_back(v);
    Placement& p = f_.places[v];
    p.group = id;
    p.level = level;
    p.map = t.map;
    p.varies = t.varies;
    p.post = t.post;
    p.reads = t.reads;
    p.operand_map = t.operand_map;
  }

  const ValueGraph& g_;
  const std::vector<int>& not_before_;
  Refusals& refusals_;
  const Reductions reductions_;
  Fusion f_;
  const Placed placed_{g_, f_};
  Attempts attempts_;
};

}  // namespace

Fusion place_values(const ValueGraph& graph, const std::vector<int>& not_before, Refusals& refusals,
                    Reductions reductions) {
  return Places(graph, not_before, refusals, reductions).run();
}

}  // namespace ebb
