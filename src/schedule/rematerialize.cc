// SPDX-License-Identifier: MIT
#include "schedule/rematerialize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "schedule/peak.h"
#include "schedule/schedule_model.h"
#include "schedule/strips.h"

namespace ebb {
namespace {

double time_of(const Plan& plan, const PlanStep& step) {
  const auto elements = [&](std::int32_t v) { return static_cast<double>(plan.graph.values[v].shape.numel()); };
  const auto traffic_of = [&](std::int32_t v) {
    return elements(v) * static_cast<double>(size_of(plan.graph.values[v].dtype));
  };
  double traffic = 0, flops = 0;
  for (std::int32_t v : step.inputs) traffic += traffic_of(v);
  for (std::int32_t v : step.outputs) traffic += traffic_of(v);
  if (step.strips) {
    for (const PlanStep& inner : step.strips->bodies[0].plan.steps)
      traffic += static_cast<double>(step.strips->strips) * time_of(step.strips->bodies[0].plan, inner);
  } else if (step.sweep) {
    const Program& p = *step.program;
    const auto all = static_cast<double>(p.rows() * std::max<std::int64_t>(1, p.columns()));
    flops = all * static_cast<double>(p.instrs.size()) / 4;
  } else if (step.inputs.size() >= 2) {
    // m·n·k of a product is the root of its three matrices' sizes multiplied; the window of a convolution adds some.
    flops = 2 * std::sqrt(elements(step.inputs[0]) * elements(step.inputs[1]) * elements(step.outputs[0]));
    if (step.op != Op::matmul) flops *= 3;
  }
  return traffic + flops / flops_per_byte(plan.device);
}

class MadeAgain {
 public:
  MadeAgain(Plan& plan, const Trace& trace, std::size_t budget)
      : plan_(plan),
        trace_(trace),
        budget_(budget),
        target_(budget - budget / kScheduleModel.budget_reserve),
        g_(plan.graph) {
    for (std::size_t v = 0; v < g_.values.size(); ++v) original_.push_back(static_cast<std::int32_t>(v));
    for (std::int32_t r : g_.roots) kept_.insert(g_.memory(r));
  }

  bool run() {
    measure();
    bool any = false;
    while (held_[worst_] > target_ && improve()) any = true;
    if (any) finish();
    return held_[worst_] <= budget_;
  }

 private:
  const Value& value(std::int32_t v) const { return g_.values[static_cast<std::size_t>(v)]; }
  std::size_t steps() const { return plan_.steps.size(); }
  std::size_t bytes(std::int32_t v) const { return held_bytes(plan_, trace_, v); }

  // ---- who holds what, when
  // -------------------------------------------------------------------------------------------

  struct Life {
    int made = -1;  // the step that fills it; -1: it exists from the start
    int last = -1;  // the last step that reads it, or fills it
    std::vector<int> reads;
  };

  void measure() {
    const int n = static_cast<int>(steps());
    lives_.assign(g_.values.size(), {});
    for (int s = 0; s < n; ++s) {
      for (std::int32_t in : plan_.steps[s].inputs) {
        Life& life = lives_[g_.memory(in)];
        if (life.reads.empty() || life.reads.back() != s) life.reads.push_back(s);
        life.last = s;
      }
      for (std::int32_t v : plan_.steps[s].outputs) {
        lives_[v].made = s;
        lives_[v].last = std::max(lives_[v].last, s);
      }
    }
    std::vector<std::int64_t> change(static_cast<std::size_t>(n) + 1, 0);
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      Life& life = lives_[v];
      const Value& x = g_.values[v];
      if (x.is_leaf ? x.op != Op::data : life.made < 0) continue;
      if (x.is_leaf || kept_.contains(static_cast<std::int32_t>(v))) life.last = n - 1;
      const auto size = static_cast<std::int64_t>(bytes(static_cast<std::int32_t>(v)));
      change[static_cast<std::size_t>(std::max(life.made, 0))] += size;
      change[static_cast<std::size_t>(life.last) + 1] -= size;
    }
    held_.assign(static_cast<std::size_t>(n), 0);
    std::int64_t now = 0;
    for (int s = 0; s < n; ++s) {
      now += change[s];
      held_[s] = static_cast<std::size_t>(now) + inside(plan_.steps[s]);
    }
    worst_ = static_cast<int>(std::max_element(held_.begin(), held_.end()) - held_.begin());
    versions_.clear();
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (lives_[v].made >= 0 || g_.values[v].is_leaf) versions_[original_[v]].push_back(static_cast<std::int32_t>(v));
    }
  }
  std::size_t inside(const PlanStep& step) {
    if (!step.strips) return 0;
    const auto [at, is_new] = inside_.try_emplace(step.strips.get(), 0);
    if (is_new) at->second = bytes_of_strip(*step.strips);
    return at->second;
  }

  // ---- what a step takes
  // ----------------------------------------------------------------------------------------------

  bool can_run_again(const PlanStep& step) const {
    if (step.strips) return false;
    return step.sweep || (step.op != Op::collective && !value(step.outputs[0]).is_unique);
  }

  // ---- what a value is made of, before step `before` ---------------------------------------------------------------

  struct Recipe {
    std::int32_t target = -1;
    int before = 0;
    std::set<int> steps;                         // that run again
    std::map<std::int32_t, std::int32_t> there;  // by original: the version that is read
    double time = 0;
    std::int64_t gain = 0;  // bytes at the peak
    double price() const { return time / static_cast<double>(gain); }
  };

  // The first of the steps that are run by one call.
  int head_of(int step) const {
    while (plan_.steps[static_cast<std::size_t>(step)].together == 0) --step;
    return step;
  }

  bool collect(std::int32_t v, Recipe& r) const {
    const std::int32_t original = original_[v];
    if (r.there.contains(original)) return true;
    for (int s : r.steps) {
      for (std::int32_t out : plan_.steps[static_cast<std::size_t>(s)].outputs) {
        if (original_[out] == original) return true;
      }
    }
    // The version that is held until then anyway, or the newest one filled before.
    std::int32_t newest = -1;
    const auto versions = versions_.find(original);
    if (versions == versions_.end()) return true;  // it has no memory
    for (std::int32_t w : versions->second) {
      if (lives_[w].made >= r.before) continue;
      const auto rank = [&](std::int32_t u) { return std::pair{lives_[u].last >= r.before, lives_[u].made}; };
      if (newest < 0 || rank(w) > rank(newest)) newest = w;
    }
    if (newest < 0) return false;
    const Life& life = lives_[newest];
    if (value(newest).is_leaf || life.last >= r.before || life.last > worst_) {
      r.there[original] = newest;
      return true;
    }
    const PlanStep& step = plan_.steps[static_cast<std::size_t>(life.made)];
    const bool small = bytes(newest) * kScheduleModel.small_input <= bytes(r.target);
    if (small || !can_run_again(step) || static_cast<int>(r.steps.size()) >= kScheduleModel.most_steps_again) {
      r.there[original] = newest;
      r.gain -= static_cast<std::int64_t>(bytes(newest));
      return r.gain > 0;
    }
    return add_step(life.made, r);
  }
  bool add_step(int s, Recipe& r) const {
    r.steps.insert(s);
    const PlanStep& step = plan_.steps[static_cast<std::size_t>(s)];
    r.time += time_of(plan_, step);
    for (std::int32_t in : step.inputs) {
      const std::int32_t m = g_.memory(in);
      if (!collect(m, r)) return false;
    }
    return true;
  }

  // v is released before the peak and recomputed after it.
  std::optional<Recipe> recipe_for(std::int32_t v) const {
    const Life& life = lives_[v];
    if (life.made < 0 || life.made >= worst_ || life.last <= worst_ || kept_.contains(v)) return {};
    const auto next = std::upper_bound(life.reads.begin(), life.reads.end(), worst_ - 1);
    if (next == life.reads.end() || head_of(*next) <= worst_) return {};
    if (!can_run_again(plan_.steps[static_cast<std::size_t>(life.made)])) return {};
    Recipe r;
    r.target = v;
    r.before = head_of(*next);
    r.gain = static_cast<std::int64_t>(bytes(v));
    if (!add_step(life.made, r) || r.gain <= 0) return {};
    return r;
  }

  bool improve() {
    std::vector<Recipe> recipes;
    for (std::size_t v = 0; v < lives_.size(); ++v) {
      if (std::optional<Recipe> r = recipe_for(static_cast<std::int32_t>(v))) recipes.push_back(std::move(*r));
    }
    std::stable_sort(recipes.begin(), recipes.end(),
                     [](const Recipe& a, const Recipe& b) { return a.price() < b.price(); });
    const std::vector<std::size_t> held = held_;
    const auto level = [](const std::vector<std::size_t>& all) {
      const std::size_t most = *std::max_element(all.begin(), all.end());
      return std::pair{most, std::count(all.begin(), all.end(), most)};
    };
    int tried = 0;
    for (const Recipe& r : recipes) {
      if (tried++ == kScheduleModel.most_candidates) break;
      const std::vector<PlanStep> steps_before = plan_.steps;
      const std::size_t values_before = g_.values.size();
      const std::vector<std::int32_t> original_before = original_;
      apply(r);
      measure();
      if (level(held_) < level(held)) return true;
      plan_.steps = steps_before;
      g_.values.resize(values_before);
      original_ = original_before;
      measure();
    }
    return false;
  }

  // ---- the plan changes ---------------------------------------------------------------------------------------------

  std::int32_t push(Value x, std::int32_t original) {
    g_.values.push_back(std::move(x));
    original_.push_back(original);
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }

  // The name of value v, or a view of it, over `memory`.
  std::int32_t seen(std::int32_t v, std::int32_t memory, std::map<std::int32_t, std::int32_t>& known) {
    if (g_.memory(v) == memory) return v;
    if (const auto found = known.find(v); found != known.end()) return found->second;
    const std::int32_t b = g_.base(v);
    std::int32_t to = memory;
    if (value(b).op == Op::output) {
      if (const auto found = known.find(b); found != known.end()) {
        to = found->second;
      } else {
        Value output = value(b);
        output.inputs[0] = memory;
        to = known[b] = push(std::move(output), original_[b]);
      }
    }
    if (v == b) return known[v] = to;
    Value view = value(v);
    view.base = to;
    view.inputs[0] = to;
    return known[v] = push(std::move(view), original_[v]);
  }

  void apply(const Recipe& r) {
    std::map<std::int32_t, std::int32_t> version = r.there;  // by original
    std::map<std::int32_t, std::int32_t> known;
    const auto renamed = [&](std::vector<std::int32_t>& inputs) {
      for (std::int32_t& in : inputs) {
        const std::int32_t m = g_.memory(in);
        if (const auto found = version.find(original_[m]); found != version.end() && !kept_.contains(m))
          in = seen(in, found->second, known);
      }
    };
    std::vector<PlanStep> again;
    for (int s : r.steps) {
      PlanStep step = plan_.steps[static_cast<std::size_t>(s)];
      step.attach.clear();
      step.together = 1;
      step.again = true;
      renamed(step.inputs);
      for (std::int32_t& out : step.outputs) {
        const std::int32_t original = original_[out];
        out = push(value(out), original);
        version[original] = out;
        made_again_.insert(original);
      }
      again.push_back(std::move(step));
    }
    std::erase_if(version, [&](const auto& entry) { return r.there.contains(entry.first); });
    known.clear();
    for (std::size_t s = static_cast<std::size_t>(r.before); s < steps(); ++s) renamed(plan_.steps[s].inputs);
    plan_.steps.insert(plan_.steps.begin() + r.before, std::make_move_iterator(again.begin()),
                       std::make_move_iterator(again.end()));
  }

  // A traced node keeps the memory it is given as long as it is read: those of recomputed values get
  // none.
  void finish() {
    for (PlanStep& step : plan_.steps) {
      std::erase_if(step.attach, [this](std::int32_t node) {
        const std::int32_t m = g_.memory(g_.of_node[static_cast<std::size_t>(node)]);
        return made_again_.contains(original_[m]) && !kept_.contains(m);
      });
    }
    plan_bindings(plan_);
    plan_.peak = estimate_peak(plan_, trace_);
  }

  Plan& plan_;
  const Trace& trace_;
  const std::size_t budget_, target_;
  ValueGraph& g_;
  std::vector<std::int32_t> original_;  // for each value, the one that it is a copy of, or itself
  std::set<std::int32_t> kept_;         // memory of results
  std::set<std::int32_t> made_again_;   // originals
  std::vector<Life> lives_;             // of each value that has memory
  std::map<std::int32_t, std::vector<std::int32_t>> versions_;  // by original
  std::vector<std::size_t> held_;                               // bytes at each step
  std::map<const StripLoop*, std::size_t> inside_;
  int worst_ = 0;
};

}  // namespace

double flops_per_byte(Device device) {
  return device == Device{} ? kScheduleModel.flops_per_byte : kScheduleModel.flops_per_byte_of_gpu;
}

double estimated_time(const Plan& plan) {
  double all = 0;
  for (const PlanStep& step : plan.steps) all += time_of(plan, step);
  return all;
}

bool make_values_again(Plan& plan, const Trace& trace, std::size_t budget) {
  return plan.steps.empty() ? plan.peak.bytes <= budget : MadeAgain(plan, trace, budget).run();
}

}  // namespace ebb
