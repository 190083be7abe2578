// SPDX-License-Identifier: MIT
#include "schedule/replay.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "core/format_error.h"
#include "core/host_lock.h"
#include "graph/effects.h"
#include "graph/history.h"
#include "schedule/schedule_model.h"

namespace ebb {

std::unique_ptr<Replay> Replay::make(const FunctionToMany& f, const std::vector<Tensor>& inputs) {
  std::unique_ptr<Replay> made(new Replay);
  for (const Tensor& x : inputs) {
    const Storage& s = x.node()->storage;
    made->signature_.push_back({x.dtype(), x.shape(), s.strides, s.buffer.device()});
    made->placeholders_.push_back(make_placeholder(x.dtype(), x.shape(), s.strides, s.buffer.device()));
  }
  const std::uint64_t first_own_id = next_node_id();
  const RandomState before = random_state();
  {
    const Tracing scope;
    const Effects effects;
    made->traced_ = f(made->placeholders_);
    made->results_ = made->traced_.size();
    for (const Tensor& effect : effects.last()) made->traced_.push_back(effect);
    made->before_ = effects.before();
  }
  const RandomState after = random_state();
  random_state() = before;  // the run that follows draws the numbers
  eval(made->captured(first_own_id));
  made->plan(before, after);
  return made;
}

// Nodes that existed before f was called are not part of it: their values are kept, even if not yet computed.
std::vector<Tensor> Replay::captured(std::uint64_t first_own_id) const {
  std::vector<Node*> results;
  for (std::size_t k = 0; k < traced_.size(); ++k) {
    require(traced_[k].defined(), "compile: result {} of the function has no value (a default-constructed Tensor)", k);
    results.push_back(traced_[k].node());
  }
  std::vector<Tensor> found;
  GraphLock lock(results);
  while (!find_captured(results, first_own_id, lock, found)) lock.widen();
  return found;
}

bool Replay::find_captured(std::vector<Node*> stack, std::uint64_t first_own_id, GraphLock& lock,
                           std::vector<Tensor>& captured) {
  captured.clear();
  std::unordered_set<const Node*> seen;
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n).second) continue;
    const bool own = n->id >= first_own_id;
    if (is_placeholder(*n)) continue;
    require(
        own || (n->history & active_history()) == 0,
        "compile: the function uses a variable of shape {} that is not one of its inputs; what it captures would stay "
        "as it is now, so make the variable an input (or capture stop_gradient of it)",
        n->shape);
    if (n->evaluated.load(std::memory_order_acquire)) continue;
    if (!own && n->op != Op::constant && n->op != Op::iota) {
      captured.emplace_back(n);
      continue;
    }
    if (!lock.holds(*n)) return false;
    for (Node* input : n->inputs) stack.push_back(input);
  }
  return true;
}

void Replay::plan(const RandomState& before, const RandomState& after) {
  const auto number_of = [this](const Node* n) {
    for (std::size_t k = 0; k < placeholders_.size(); ++k) {
      if (placeholders_[k].node() == n) return static_cast<std::int32_t>(k);
    }
    return std::int32_t{-1};
  };
  std::vector<Tensor> roots;
  trace_.device = default_device();
  for (const Tensor& t : traced_) {
    Source s;
    s.input = number_of(t.node());
    if (t.evaluated()) s.captured = t;
    if (s.input < 0 && !s.captured.defined()) {
      if (!t.node()->homeless) trace_.device = t.node()->device;
      roots.push_back(t);
    }
    sources_.push_back(std::move(s));
  }
  trace_nodes(roots);
  plan_ = make_plan(trace_);
  for (PlanStep& step : plan_.steps) {  // leaves stay bound between runs
    std::erase_if(step.release, [this](std::int32_t v) { return plan_.graph.values[v].is_leaf; });
  }
  collect_.resize(plan_.steps.size() + 1);
  for (std::size_t k = 0; k < traced_.size(); ++k) {
    const auto at = std::find(trace_.nodes.begin(), trace_.nodes.end(), traced_[k].node());
    if (at == trace_.nodes.end() || sources_[k].input >= 0 || sources_[k].captured.defined()) continue;
    sources_[k].node = static_cast<std::int32_t>(at - trace_.nodes.begin());
    const auto has = [&](const std::vector<std::int32_t>& list) {
      return std::find(list.begin(), list.end(), sources_[k].node) != list.end();
    };
    std::size_t step = 0;
    while (!has(step == 0 ? plan_.attach_first : plan_.steps[step - 1].attach)) ++step;
    collect_[step].push_back(static_cast<std::int32_t>(k));
  }

  input_values_.assign(placeholders_.size(), -1);
  drawn_ = after.next_operation - before.next_operation;
  for (std::size_t v = 0; v < plan_.graph.values.size(); ++v) {
    const Value& x = plan_.graph.values[v];
    if (!x.is_leaf) continue;
    const Node& n = *trace_.nodes[x.node];
    if (is_placeholder(n)) {
      const std::int32_t k = number_of(&n);
      require(k >= 0,
              "compile: the function uses an input of another compiled function, kept from when that was built");
      input_values_[k] = static_cast<std::int32_t>(v);
    } else if (x.op == Op::random_uniform && n.payload.seed == before.seed &&
               n.payload.operation - before.next_operation < drawn_) {
      random_.push_back({static_cast<std::int32_t>(v), n.payload.operation - before.next_operation});
    }
  }
  plan_recordings();
}

// One step is one or two launches, which a recording does not make cheaper. Effects need the host.
void Replay::plan_recordings() {
  if (plan_.steps.size() < 2 || plan_.device == Device{} || !before_.empty()) return;
  std::map<std::int32_t, std::vector<std::size_t>> results;
  for (const Source& s : sources_) {
    if (s.node < 0) continue;
    const std::int32_t b = plan_.graph.base(plan_.graph.of_node[s.node]);
    const Value& base = plan_.graph.values[b];
    const std::int32_t v = base.op == Op::output ? base.inputs[0] : b;
    const Value& x = plan_.graph.values[v];
    if (x.is_leaf) continue;
    std::vector<std::size_t> bytes;
    const NodeExtra* const extra = x.node < 0 ? nullptr : trace_.nodes[x.node]->extra.get();
    if (info(x.op).cls == OpClass::library && extra) {
      for (const auto& [shape, dtype] : extra->output_types)
        bytes.push_back(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
    }
    if (bytes.empty()) bytes.push_back(static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype));
    results[v] = std::move(bytes);
  }
  std::vector<std::int32_t> random;
  for (const RandomLeaf& leaf : random_) random.push_back(leaf.value);
  recorded_ = std::make_unique<RecordedRuns>(plan_, std::move(results), random);
}

// Dependents of placeholders are never evaluated, so there is no wait for them here; everything else was made by f.
void Replay::trace_nodes(const std::vector<Tensor>& roots) {
  std::vector<Node*> nodes;
  for (const Tensor& t : roots) nodes.push_back(t.node());
  GraphLock lock(nodes);
  const Device device = trace_.device;
  Traced traced;
  while ((traced = trace(trace_, roots, lock, Placeholders::allowed)) == Traced::part_missing) {
    trace_ = {};
    trace_.device = device;
    lock.widen();
  }
  for (Node* n : trace_.nodes) kept_.emplace_back(n);
  require(traced != Traced::moves_first,
          "compile: the function moves a tensor to another device; move it before the call, and compile what is "
          "computed on one device");
  require(traced == Traced::done, "compile: another thread is computing a value that the function made");
  trace_.read_key();
}

bool Replay::fits(const std::vector<Tensor>& inputs) const {
  if (inputs.size() != signature_.size()) return false;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Node& n = *inputs[k].node();
    const Signature& s = signature_[k];
    if (n.dtype != s.dtype || n.shape != s.shape || n.storage.buffer.device() != s.device) return false;
    for (int d = 0; d < s.shape.rank(); ++d) {
      if (n.storage.strides[d] != s.strides[d]) return false;
    }
  }
  return true;
}

std::unique_ptr<StepRunner> Replay::begin(const std::vector<Tensor>& inputs) {
  std::unique_ptr<StepRunner> steps;
  if (idle_.empty()) {
    steps = std::make_unique<StepRunner>(plan_, trace_.nodes);
  } else {
    steps = std::move(idle_.back());
    idle_.pop_back();
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (input_values_[k] >= 0) steps->bind_memory(input_values_[k], inputs[k].node()->storage);
  }
  RandomState& random = random_state();
  for (const RandomLeaf& leaf : random_)
    steps->bind_random(leaf.value, random.seed, random.next_operation + leaf.offset);
  random.next_operation += drawn_;
  return steps;
}

std::vector<Tensor> Replay::compute(StepRunner& steps, const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> results(sources_.size());
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Source& s = sources_[k];
    if (s.input >= 0) results[k] = inputs[static_cast<std::size_t>(s.input)];
    if (s.captured.defined()) results[k] = s.captured;
  }
  const auto collect = [&](std::size_t step) {
    for (std::int32_t k : collect_[step]) {
      const Node& n = *traced_[k].node();
      results[k] = make_data(n.dtype, n.shape, steps.storage(sources_[k].node));
    }
  };
  const StepRunner::Running running(steps);
  if (recorded_ && recorded_->run(steps)) {
    for (std::size_t s = 0; s < collect_.size(); ++s) collect(s);
    recorded_->forget_results(steps);
    return results;  // without effects
  }
  collect(0);
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    steps.run(plan_.steps[s]);
    collect(s + 1);
    steps.release_after(plan_.steps[s]);
  }
  results.resize(results_);
  return results;
}

void Replay::unbind(StepRunner& steps) const {
  for (std::int32_t v : input_values_) {
    if (v >= 0) steps.unbind_memory(v);
  }
}

// ---- the function ---------------------------------------------------------------------------------------------------

namespace {

class CompiledFunction {
 public:
  explicit CompiledFunction(FunctionToMany f) : f_(std::move(f)) {}

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    bool computed = true, differentiated = false;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      require(inputs[k].defined(), "compile: input {} has no value (a default-constructed Tensor)", k);
      computed &= inputs[k].evaluated();
      differentiated |= carries_history(inputs[k]);
    }
    if (differentiated || Tracing::is_on() || is_eager()) return f_(inputs);
    if (!computed) eval(inputs);

    std::shared_ptr<Replay> replay;
    std::unique_ptr<StepRunner> steps;
    {
      std::lock_guard lock(mutex_);
      replay = find(inputs);
      if (replay) steps = replay->begin(inputs);
    }
    if (!replay) {
      replay = Replay::make(f_, inputs);
      std::lock_guard lock(mutex_);
      replays_.insert(replays_.begin(), replay);
      if (replays_.size() > kScheduleModel.most_replays) replays_.pop_back();
      steps = replay->begin(inputs);
    }
    OutsideHostLock computing;
    replay->prepare();
    std::vector<Tensor> results = replay->compute(*steps, inputs);
    replay->unbind(*steps);  // may call back into the host, so not under the mutex
    std::lock_guard lock(mutex_);
    replay->keep(std::move(steps));
    return results;
  }

 private:
  // The most recently used one is tried first.
  std::shared_ptr<Replay> find(const std::vector<Tensor>& inputs) {
    for (auto it = replays_.begin(); it != replays_.end(); ++it) {
      if (!(*it)->fits(inputs)) continue;
      std::rotate(replays_.begin(), it, it + 1);
      return replays_.front();
    }
    return nullptr;
  }

  const FunctionToMany f_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Replay>> replays_;
};

template <class F>
void require_function(const F& f) {
  require(static_cast<bool>(f), "compile: the function is empty");
}

}  // namespace

FunctionToMany compile(const FunctionToMany& f) {
  require_function(f);
  return [compiled = std::make_shared<CompiledFunction>(f)](const std::vector<Tensor>& xs) { return (*compiled)(xs); };
}

FunctionOfMany compile(const FunctionOfMany& f) {
  require_function(f);
  return [many = compile(FunctionToMany([f](const std::vector<Tensor>& xs) { return std::vector<Tensor>{f(xs)}; }))](
             const std::vector<Tensor>& xs) { return many(xs)[0]; };
}

Function compile(const Function& f) {
  require_function(f);
  return [many = compile(FunctionOfMany([f](const std::vector<Tensor>& xs) { return f(xs[0]); }))](const Tensor& x) {
    return many({x});
  };
}

std::function<std::pair<Tensor, Tensor>(const Tensor&)> compile(
    const std::function<std::pair<Tensor, Tensor>(const Tensor&)>& f) {
  require_function(f);
  const auto both = [f](const std::vector<Tensor>& xs) {
    auto [first, second] = f(xs[0]);
    return std::vector<Tensor>{first, second};
  };
  return [many = compile(FunctionToMany(both))](const Tensor& x) {
    const std::vector<Tensor> results = many({x});
    return std::make_pair(results[0], results[1]);
  };
}

std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> compile(
    const std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)>& f) {
  require_function(f);
  const auto all = [f](const std::vector<Tensor>& xs) {
    auto [first, rest] = f(xs);
    rest.insert(rest.begin(), first);
    return rest;
  };
  return [many = compile(FunctionToMany(all))](const std::vector<Tensor>& xs) {
    std::vector<Tensor> rest = many(xs);
    Tensor first = std::move(rest.front());
    rest.erase(rest.begin());
    return std::make_pair(std::move(first), std::move(rest));
  };
}

}  // namespace ebb
