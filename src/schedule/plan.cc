// SPDX-License-Identifier: MIT
#include "schedule/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "backend/collective.h"
#include "core/format_error.h"
#include "ebb/memory.h"
#include "schedule/peak.h"
#include "schedule/product_bias.h"
#include "schedule/rematerialize.h"
#include "schedule/row_room.h"
#include "schedule/schedule_model.h"
#include "schedule/store_again.h"
#include "schedule/strips.h"

namespace ebb {
namespace {

// Sweeps that are ready but wait for others of their kind: the updates of all parameters are one call if the device
// supports that. They wait until nothing else is ready, and the memory held for them meanwhile is limited.
class Waiting {
 public:
  Waiting(const std::vector<PlanStep>& steps, const Backend& backend,
          std::function<std::size_t(const PlanStep&)> bytes_kept)
      : steps_(steps), bytes_kept_(std::move(bytes_kept)), kind_(steps.size(), 0) {
    std::map<std::uint64_t, int> count;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (!steps[s].sweep || !is_small(*steps[s].program)) continue;
      kind_[s] = backend.kind(*steps[s].sweep);
      ++count[kind_[s]];
    }
    for (std::uint64_t& kind : kind_) {
      if (kind != 0 && count[kind] < 2) kind = 0;
    }
  }

  bool takes(std::int32_t step) {
    const std::uint64_t kind = kind_[static_cast<std::size_t>(step)];
    if (kind == 0) return false;
    Alike& group = groups_[kind];
    group.steps.push_back(step);
    group.bytes += bytes_kept_(steps_[static_cast<std::size_t>(step)]);
    return true;
  }
  // Those for which the limit is reached; none otherwise.
  std::vector<std::int32_t> full() {
    for (auto& [kind, group] : groups_) {
      if (group.bytes > kScheduleModel.most_kept_together) return take(group);
    }
    return {};
  }
  // Takes all sweeps of the most urgent kind.
  std::vector<std::int32_t> take_all(const std::vector<std::uint64_t>& priority) {
    Alike* first = nullptr;
    std::pair<std::uint64_t, std::int32_t> least;
    for (auto& [kind, group] : groups_) {
      for (const std::int32_t s : group.steps) {
        const std::pair<std::uint64_t, std::int32_t> urgent{priority[static_cast<std::size_t>(s)], s};
        if (first && least <= urgent) continue;
        first = &group;
        least = urgent;
      }
    }
    return first ? take(*first) : std::vector<std::int32_t>{};
  }

 private:
  struct Alike {
    std::vector<std::int32_t> steps;
    std::size_t bytes = 0;
  };
  static bool is_small(const Program& p) {
    return p.rows() * std::max<std::int64_t>(1, p.columns()) <= kScheduleModel.most_elements_together;
  }
  static std::vector<std::int32_t> take(Alike& group) {
    group.bytes = 0;
    return std::exchange(group.steps, {});
  }

  const std::vector<PlanStep>& steps_;
  const std::function<std::size_t(const PlanStep&)> bytes_kept_;
  std::vector<std::uint64_t> kind_;  // of each step; 0: it does not wait
  std::map<std::uint64_t, Alike> groups_;
};

class Planner {
 public:
  Planner(const Trace& trace, const StripModel* strips, int bytes_of_a_function)
      : t_(trace), g_(plan_.graph), bytes_of_a_function_(bytes_of_a_function) {
    plan_.device = trace.device;
    const Backend& backend = backend_of(trace.device);
    g_ = simplify(trace, {.large = strips ? strips->large : kNeverLarge, .backend = &backend});
    if (strips) loops_ = make_strips(g_, *strips, trace.device);
    if (backend.adds_rows_to_products()) add_rows_to_products(g_);
  }

  Plan run() {
    const Backend& backend = backend_of(plan_.device);
    f_ = fuse(g_, std::max(bytes_of_a_function_, backend.bytes_of_a_function()),
              backend.reduces_rows_beside() ? Reductions::beside : Reductions::by_memory);
    // If memory is short, steps are rerun instead.
    if (bytes_of_a_function_ == 0) store_again_what_is_held(g_, f_, flops_per_byte(plan_.device));
    find_live();
    make_room_behind_rows(g_, f_, live_, backend);
    make_steps();
    order_steps();
    plan_attachments();
    plan_bindings(plan_);
    plan_.peak = estimate_peak(plan_, t_);
    return std::move(plan_);
  }

 private:
  const Value& value(std::int32_t v) const { return g_.values[v]; }
  // Values that simplification left without a reader are not computed.
  void find_live() {
    live_.assign(g_.values.size(), false);
    for (std::int32_t r : g_.roots) live_[r] = true;
    for (std::size_t v = g_.values.size(); v-- > 0;) {
      if (!live_[v]) continue;
      for (std::int32_t in : g_.values[v].inputs) live_[in] = true;
    }
    std::vector<char> live_loops(loops_.size(), false);
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (live_[v] && value(v).strips >= 0) live_loops[value(v).strips] = true;
    }
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (value(v).strips >= 0 && live_loops[value(v).strips]) live_[v] = true;  // the loop fills it in any case
    }
    for (SweepGroup& group : f_.groups) std::erase_if(group.members, [this](std::int32_t v) { return !live_[v]; });
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (!live_[v]) f_.places[v].in_memory = false;
    }
  }

  void make_steps() {
    step_of_.assign(g_.values.size(), -1);
    for (std::size_t k = 0; k < f_.groups.size(); ++k) {
      if (f_.groups[k].members.empty()) continue;
      LoweredSweep lowered = lower(g_, f_, static_cast<int>(k));
      PlanStep step;
      step.sweep = backend_of(plan_.device).compile(lowered.program);
      step.program = std::make_shared<Program>(std::move(lowered.program));
      step.inputs = std::move(lowered.inputs);
      step.outputs = std::move(lowered.outputs);
      const auto id = static_cast<std::int32_t>(steps_.size());
      for (std::int32_t v : f_.groups[k].members) {
        step_of_[v] = id;
        if (f_.places[v].in_memory) note_order(id, v);
      }
      steps_.push_back(std::move(step));
    }
    std::vector<std::int32_t> step_of_loop(loops_.size(), -1);
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      const Value& x = g_.values[v];
      if (!live_[v] || !x.is_call()) continue;
      if (x.strips >= 0) {
        add_to_loop(static_cast<std::int32_t>(v), step_of_loop[static_cast<std::size_t>(x.strips)]);
        continue;
      }
      require(backend_of(plan_.device).has(x.op), "{}: {} cannot compute it yet; move its inputs to the CPU with .to()",
              info(x.op).name, name(plan_.device));
      PlanStep step;
      step.op = x.op;
      step.attrs = x.attrs;
      step.label = x.label;
      step.node = x.node;
      step.inputs = x.inputs;
      step.outputs = {static_cast<std::int32_t>(v)};
      step_of_[v] = static_cast<std::int32_t>(steps_.size());
      note_order(step_of_[v], static_cast<std::int32_t>(v));
      steps_.push_back(std::move(step));
    }
  }

  // Outputs of a strip loop are separate values, filled by one step.
  void add_to_loop(std::int32_t v, std::int32_t& step) {
    const Value& x = value(v);
    if (step < 0) {
      step = static_cast<std::int32_t>(steps_.size());
      PlanStep& made = steps_.emplace_back();
      made.strips = loops_[static_cast<std::size_t>(x.strips)];
      made.inputs = x.inputs;
      made.outputs.assign(made.strips->outputs.size(), -1);
    }
    steps_[static_cast<std::size_t>(step)].outputs[static_cast<std::size_t>(x.strip_output)] = v;
    step_of_[v] = step;
    note_order(step, v);
  }

  // A step is as urgent as the first of its results: a sweep that continues a backward pass and updates a parameter on
  // the way belongs to the pass, not to the updates after it.
  void note_order(std::int32_t step, std::int32_t v) {
    constexpr std::uint64_t kLast = ~std::uint64_t{0};
    if (priority_.size() <= static_cast<std::size_t>(step)) priority_.resize(static_cast<std::size_t>(step) + 1, kLast);
    const std::int32_t node = value(v).node;
    if (node >= 0) priority_[step] = std::min(priority_[step], t_.nodes[node]->id);
    if (value(v).op == Op::collective && is_posted(*t_.nodes[node])) priority_[step] = 0;
  }
  static bool is_posted(const Node& n) {
    const auto* const ranked =
        dynamic_cast<const RankedCollective*>(static_cast<const Collective*>(n.extra->data.get()));
    return ranked && ranked->posted;
  }

  // Steps that must come before a reader of v.
  void needs(std::int32_t v, std::set<std::int32_t>& out) const {
    for (std::int32_t x = v;; x = value(x).inputs[0]) {
      if (value(x).op == Op::depend) {
        const std::int32_t token = g_.base(value(x).inputs[1]);
        if (step_of_[token] >= 0) out.insert(step_of_[token]);
        std::set<std::int32_t> more;
        if (value(value(x).inputs[1]).is_view()) needs(value(x).inputs[1], out);
      }
      if (!value(x).is_view() && value(x).op != Op::output) {
        if (step_of_[x] >= 0) out.insert(step_of_[x]);
        return;
      }
    }
  }

  // In program order, as far as dependencies allow: backward passes then free activations as they go.
  void order_steps() {
    const std::size_t n = steps_.size();
    std::vector<std::set<std::int32_t>> before(n);
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (!live_[v] || step_of_[v] < 0) continue;
      for (std::int32_t in : g_.values[v].inputs) needs(in, before[step_of_[v]]);
    }
    std::vector<int> waiting(n, 0);
    std::vector<std::vector<std::int32_t>> after(n);
    for (std::size_t s = 0; s < n; ++s) {
      before[s].erase(static_cast<std::int32_t>(s));
      waiting[s] = static_cast<int>(before[s].size());
      for (std::int32_t b : before[s]) after[b].push_back(static_cast<std::int32_t>(s));
    }
    using Entry = std::pair<std::uint64_t, std::int32_t>;
    using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
    Queue ready;
    Waiting together(steps_, backend_of(plan_.device), [this](const PlanStep& s) { return bytes_kept_for(s); });
    std::vector<std::int32_t> place(n, -1);
    const auto make_ready = [&](std::int32_t s) {
      if (!together.takes(s)) ready.emplace(priority_[s], s);
    };
    for (std::size_t s = 0; s < n; ++s) {
      if (waiting[s] == 0) make_ready(static_cast<std::int32_t>(s));
    }
    std::vector<std::int32_t> now;
    while (!(now = together.full()).empty() || !ready.empty() || !(now = together.take_all(priority_)).empty()) {
      if (now.empty()) {
        now = {ready.top().second};
        ready.pop();
      }
      if (now.size() > 1) backend_of(plan_.device).expect_together(*steps_[now[0]].sweep, now.size());
      for (std::size_t k = 0; k < now.size(); ++k) {
        steps_[now[k]].together = k == 0 ? now.size() : 0;
        place[now[k]] = static_cast<std::int32_t>(plan_.steps.size());
        plan_.steps.push_back(std::move(steps_[now[k]]));
      }
      for (const std::int32_t s : now) {
        for (std::int32_t a : after[s]) {
          if (--waiting[a] == 0) make_ready(a);
        }
      }
    }
    require(plan_.steps.size() == n, "internal: the schedule has a cycle");
    for (std::int32_t& s : step_of_) {
      if (s >= 0) s = place[s];
    }
  }

  // Memory held only for this step while it waits.
  std::size_t bytes_kept_for(const PlanStep& step) const {
    std::size_t bytes = 0;
    for (std::int32_t v : step.inputs) {
      const Value& x = value(g_.memory(v));
      if (!x.is_leaf) bytes += static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
    }
    return bytes;
  }

  // A traced node is evaluated as soon as the memory it refers to is filled.
  void plan_attachments() {
    for (std::size_t i = 0; i < t_.nodes.size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      if (t_.stored[i] || (t_.is_leaf(at) && !is_root(at))) continue;
      const std::int32_t v = g_.of_node[i];
      if (!live_[v]) continue;
      const std::int32_t b = g_.memory(v);
      const bool given = value(b).is_leaf && value(b).op == Op::data;
      if (given) {
        plan_.attach_first.push_back(static_cast<std::int32_t>(i));
      } else if (step_of_[b] >= 0 && (value(b).is_call() || f_.places[b].in_memory)) {
        plan_.steps[step_of_[b]].attach.push_back(static_cast<std::int32_t>(i));
      }
    }
  }

  bool is_root(std::int32_t node) const { return std::find(t_.roots.begin(), t_.roots.end(), node) != t_.roots.end(); }

  const Trace& t_;
  Plan plan_;
  ValueGraph& g_;
  const int bytes_of_a_function_;
  std::vector<StripLoopPtr> loops_;
  Fusion f_;
  std::vector<char> live_;
  std::vector<PlanStep> steps_;
  std::vector<std::int32_t> step_of_;
  std::vector<std::uint64_t> priority_;
};

}  // namespace

int Plan::sweeps() const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const PlanStep& s) { return s.sweep != nullptr; }));
}

void plan_bindings(Plan& plan) {
  plan.leaves.clear();
  plan.arguments.assign(plan.graph.values.size(), {});
  for (std::size_t v = 0; v < plan.graph.values.size(); ++v) {
    const Value& x = plan.graph.values[v];
    if (x.op == Op::constant && x.node < 0) {
      plan.arguments[v].real = x.literal;
      plan.arguments[v].integer = static_cast<std::int64_t>(x.literal);
    } else if (x.is_leaf) {
      plan.leaves.push_back({static_cast<std::int32_t>(v), x.node, x.op == Op::data});
    }
  }
  std::vector<std::int32_t> last(plan.graph.values.size(), -1);
  std::size_t calls = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    PlanStep& step = plan.steps[s];
    step.release.clear();
    if (step.node >= 0) step.call = calls++;
    for (std::int32_t v : step.inputs) last[plan.graph.memory(v)] = static_cast<std::int32_t>(s);
    for (std::int32_t v : step.outputs) last[v] = std::max(last[v], static_cast<std::int32_t>(s));
  }
  for (std::size_t v = 0; v < last.size(); ++v) {
    if (last[v] >= 0) plan.steps[last[v]].release.push_back(static_cast<std::int32_t>(v));
  }
}

namespace {

// Chooses the fastest of the plans that stay within the budget; else the one that comes nearest.
class WithinBudget {
 public:
  WithinBudget(const Trace& trace, std::size_t budget) : trace_(trace), budget_(budget) {}

  // Tries plans unchanged, then with recomputed values.
  bool found(std::vector<Plan> plans) {
    for (Plan& plan : plans) {
      take(plan);
      make_values_again(plan, trace_, budget_);
      take(plan);
    }
    return best_ && best_->peak.bytes <= budget_;
  }
  Plan best() { return std::move(*best_); }

 private:
  void take(const Plan& plan) {
    const bool within = plan.peak.bytes <= budget_, was_within = best_ && best_->peak.bytes <= budget_;
    const double time = estimated_time(plan);
    if (best_ && (within != was_within ? was_within : within ? time >= time_ : plan.peak.bytes >= best_->peak.bytes))
      return;
    best_ = plan;
    time_ = time;
  }

  const Trace& trace_;
  const std::size_t budget_;
  std::optional<Plan> best_;
  double time_ = 0;
};

// Does a plan hold a product large enough for strips?
bool holds_large_product(const Plan& plan, const StripModel& model) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    if (step.sweep || step.strips || step.op != Op::matmul) return false;
    const Value& x = plan.graph.values[step.outputs[0]];
    return x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype)) >= model.large;
  });
}

// The plan without a budget. Recomputing products costs time, and saves more than their own size: their gradients are
// as large, and so are values computed from them in two directions. So both plans are made and compared.
Plan plan_by_default(const Trace& trace, const StripModel& model) {
  Plan held = make_plan(trace, &model);
  if (!holds_large_product(held, model)) return held;
  StripModel repeating = model;
  repeating.large_enough_to_repeat = model.large;
  Plan again = make_plan(trace, &repeating);
  if (again.peak.bytes + static_cast<std::size_t>(model.saved_enough_to_repeat) > held.peak.bytes) return held;
  return estimated_time(again) <= kScheduleModel.most_time_to_repeat * estimated_time(held) ? std::move(again)
                                                                                            : std::move(held);
}

}  // namespace

// Recomputed values have the same bits, sums over strips do not: strips are the second resort. They help where a single
// value is too large.
Plan make_plan(const Trace& trace) {
  const StripModel model = strip_model(trace.device);
  Plan plan = plan_by_default(trace, model);
  const std::size_t budget = memory_budget(trace.device);
  if (budget == 0 || plan.peak.bytes <= budget) return plan;
  WithinBudget choice(trace, budget);
  std::vector<Plan> plans;
  plans.push_back(std::move(plan));
  plans.push_back(make_plan(trace, &model, kScheduleModel.bytes_of_a_function_in_need));
  if (choice.found(std::move(plans))) return choice.best();
  for (const StripModel& smaller : strips_within(budget, trace.device)) {
    plans.clear();
    plans.push_back(make_plan(trace, &smaller));
    if (choice.found(std::move(plans))) return choice.best();
  }
  plan = choice.best();
  fail(Error::Kind::memory,
       "this computation takes {}, but the budget is {}; raise it with set_memory_budget, or compute on fewer rows at "
       "a time",
       describe(plan.peak, plan), bytes_text(budget));
}

Plan make_plan(const Trace& trace, const StripModel* strips, int bytes_of_a_function) {
  return Planner(trace, strips, bytes_of_a_function).run();
}

namespace {

std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out += "  " + text.substr(at, end - at);
    at = end;
  }
  return out;
}

std::string print_steps(const Plan& plan);

std::string print(const StripLoop& loop, const PlanStep& step, const Plan& plan) {
  const auto [loops, rows] = loop.tiles ? std::pair("tiles", "columns") : std::pair("strips", "rows");
  std::string text =
      fmt::format("{0} of {1} {2}, {3} of them for {4} {2}", loops, loop.bodies[0].rows, rows, loop.strips, loop.rows);
  if (loop.products_again > 0) text += fmt::format(", {} products made again", loop.products_again);
  text += '\n';
  text += indented(print_steps(loop.bodies[0].plan));
  for (std::size_t k = 0; k < loop.outputs.size(); ++k) {
    const Value& out = plan.graph.values[step.outputs[k]];
    constexpr std::string_view kinds[] = {"rows of", "one of", "added to"};
    text += fmt::format("  -> {} {}{}\n", kinds[static_cast<int>(loop.outputs[k].kind)], name(out.dtype), out.shape);
  }
  return text;
}

std::string describe_call(const Plan& plan, const PlanStep& step) {
  const auto views = [&](const std::vector<std::int32_t>& values) {
    std::vector<View> all;
    for (const std::int32_t v : values) {
      const Value& x = plan.graph.values[v];
      all.push_back({nullptr, x.dtype, x.shape, strides_of(x), x.room});
    }
    return all;
  };
  const std::vector<View> inputs = views(step.inputs), outputs = views(step.outputs);
  return backend_of(plan.device).describe(LibraryCall{step.op, step.attrs, step.label, inputs, outputs, nullptr});
}

std::string print_steps(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    if (step.again) text += "again ";
    if (step.strips) {
      text += print(*step.strips, step, plan);
      continue;
    }
    if (step.sweep) {
      text += print(*step.program);
      const std::string how = backend_of(plan.device).describe(*step.sweep);
      if (!how.empty()) text += fmt::format("  plan: {}\n", how);
      continue;
    }
    text += fmt::format("call {}", info(step.op).name);
    for (std::int32_t v : step.inputs)
      text += fmt::format(" {}{}", name(plan.graph.values[v].dtype), plan.graph.values[v].shape);
    const Value& out = plan.graph.values[step.outputs[0]];
    text += fmt::format(" -> {}{}", name(out.dtype), out.shape);
    if (out.room > 0) text += fmt::format(", rows {} apart", strides_of(out)[out.shape.rank() - 2]);
    const std::string options = step.attrs.options ? step.attrs.options->print() : "";
    text += options.empty() ? "\n" : fmt::format(" {}\n", options);
    const std::string how = describe_call(plan, step);
    if (!how.empty()) text += fmt::format("  plan: {}\n", how);
  }
  return text;
}

}  // namespace

std::string print(const Plan& plan) {
  std::string text = print_steps(plan);
  const bool strips =
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.strips != nullptr; });
  if (strips || memory_budget(plan.device) > 0) text += fmt::format("peak {}\n", describe(plan.peak, plan));
  return text;
}

}  // namespace ebb
