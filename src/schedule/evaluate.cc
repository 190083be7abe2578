// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/format_error.h"
#include "core/host_lock.h"
#include "schedule/graph_run.h"
#include "schedule/plan_cache.h"
#include "schedule/read.h"
#include "schedule/schedule_model.h"

namespace ebb {
namespace {

std::vector<Tensor> owned(std::span<Node* const> nodes) {
  std::vector<Tensor> tensors;
  tensors.reserve(nodes.size());
  for (Node* n : nodes) tensors.emplace_back(n);
  return tensors;
}

// What is to be computed: those of the nodes that are not yet evaluated, and their companions. A loss and its gradients
// are one computation: evaluating one computes the others in the same sweeps. All on one device, the first encountered;
// the rest follows afterwards. Undefined: a part of the graph is missing.
std::optional<std::vector<Tensor>> unevaluated(std::span<Node* const> nodes, GraphLock& lock, Device& device) {
  std::vector<Tensor> roots;
  std::unordered_set<const Node*> many;  // a training step has thousands of roots
  const auto is_new = [&](const Node& n) {
    if (roots.size() < kScheduleModel.few_roots)
      return std::none_of(roots.begin(), roots.end(), [&](const Tensor& t) { return t.node() == &n; });
    if (many.empty()) {
      for (const Tensor& t : roots) many.insert(t.node());
    }
    return many.insert(&n).second;
  };
  bool device_is_known = false;
  const auto add = [&](Tensor t) {
    const Node& n = *t.node();
    if (n.evaluated.load(std::memory_order_acquire)) return;
    if (!n.homeless && !device_is_known) {
      device_is_known = true;
      device = n.device;
    }
    if ((n.homeless || n.device == device) && is_new(n)) roots.push_back(std::move(t));
  };
  for (Node* n : nodes) {
    if (!n->evaluated.load(std::memory_order_acquire) && !lock.holds(*n)) return {};
    add(Tensor(n));
  }
  const std::size_t asked = roots.size();
  std::unordered_set<const void*> seen;  // all gradients of a loss have the same companions
  for (std::size_t i = 0; i < asked; ++i) {
    const auto& extra = roots[i].node()->extra;
    if (!extra || !extra->companions || !seen.insert(extra->companions.get()).second) continue;
    for (Tensor& t : extra->companions->alive()) {
      if (!lock.holds(*t.node())) return {};
      add(std::move(t));
    }
  }
  return roots;
}

// Follows the graph to what is already evaluated, or to what must be moved between devices first.
Traced trace_roots(std::span<Node* const> nodes, GraphLock& lock, std::vector<Tensor>& roots, Trace& t) {
  for (;;) {
    t.device = default_device();
    if (std::optional<std::vector<Tensor>> found = unevaluated(nodes, lock, t.device)) {
      roots = std::move(*found);
      const Traced traced = trace(t, roots, lock);
      if (traced != Traced::part_missing) return traced;
    }
    lock.unlock();  // what is let go of is released without it
    roots.clear();
    t.clear();
    lock.widen();
  }
}

}  // namespace

void evaluate(std::span<Node* const> nodes) {
  OutsideHostLock computing;
  for (;;) {
    // In this order: what is released is destroyed after the lock.
    std::vector<Tensor> roots, kept;
    ReusedTrace reused;
    Trace& t = *reused;
    std::optional<Claim> claim;
    std::optional<GraphRun> run;
    const std::uint32_t ended_before = Claim::ended();
    GraphLock lock(nodes);
    const Traced traced = trace_roots(nodes, lock, roots, t);
    if (traced != Traced::done) {
      lock.unlock();
      if (traced == Traced::being_computed) Claim::wait_for_an_end(ended_before);
      for (const Tensor& moved : t.moves) move_between_devices(moved);
      continue;
    }
    if (roots.empty()) return;
    claim.emplace(roots, lock.parts());
    std::shared_ptr<const Plan> plan = plan_cache().find(t.key);
    if (plan) {
      run.emplace(std::move(plan), std::move(t.nodes), lock.parts());
    } else {
      kept = owned(t.nodes);  // they must stay alive while their plan is made
    }
    lock.unlock();
    if (!run) {
      plan = plan_cache().add(t.key, make_plan(t));
      run.emplace(std::move(plan), std::move(t.nodes), lock.parts());
      kept.clear();
    }
    run->run(*claim);
  }
}

void eval(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) {
    require(t.defined(), "eval: a tensor has no value (default-constructed or moved from)");
    nodes.push_back(t.node());
  }
  evaluate(nodes);
}

OwnedTrace trace_of(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) nodes.push_back(t.node());
  for (;;) {
    OwnedTrace found;
    std::vector<Tensor> roots;
    const std::uint32_t ended_before = Claim::ended();
    GraphLock lock(nodes);
    const Traced traced = trace_roots(nodes, lock, roots, found.trace);
    found.nodes = owned(found.trace.nodes);
    lock.unlock();
    if (traced == Traced::done) return found;
    if (traced == Traced::being_computed) Claim::wait_for_an_end(ended_before);
    for (const Tensor& moved : found.trace.moves) move_between_devices(moved);
  }
}

std::string print_schedule(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    require(t.defined(), "print_schedule: a tensor has no value (default-constructed or moved from)");
  const OwnedTrace t = trace_of(tensors);
  return t.nodes.empty() ? "" : print(make_plan(t.trace));
}

const Tensor& Tensor::eval() const {
  require(defined(), "eval: this Tensor has no value (default-constructed or moved from)");
  if (!evaluated()) evaluate(std::span<Node* const>(&node_, 1));
  return *this;
}

}  // namespace ebb
