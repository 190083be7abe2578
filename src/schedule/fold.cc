// SPDX-License-Identifier: MIT
#include "schedule/fold.h"

#include <algorithm>
#include <unordered_map>

#include "schedule/step_runner.h"

namespace ebb {
namespace {

bool is_number(Op op) { return op == Op::constant || op == Op::iota; }

class Fold {
 public:
  Fold(const Plan& plan, const Trace& after, const Trace& before) : plan_(plan), after_(after), before_(before) {}

  Folding run() {
    if (!find_places() || !numbers_are_apart()) return {};
    Plan made = plan_;
    if (!fold_leaves(made) || !fold_steps(made)) return {{}, true};
    fold_list(made.attach_first);
    for (Value& x : made.graph.values) x.node = x.node < 0 ? -1 : place(x.node);
    made.graph.of_node.assign(before_.nodes.size(), -1);
    for (std::size_t i = 0; i < after_.nodes.size(); ++i) {
      if (places_[i] >= 0) made.graph.of_node[static_cast<std::size_t>(places_[i])] = plan_.graph.of_node[i];
    }
    return {std::move(made)};
  }

 private:
  std::int32_t place(std::int32_t node) const { return places_[static_cast<std::size_t>(node)]; }
  const Node& node(std::int32_t i) const { return *after_.nodes[static_cast<std::size_t>(i)]; }

  // Finds where each node was before: -1 for those made since. False: other nodes have changed, too, because another
  // thread has computed them. A formula need not read all of its operands.
  bool find_places() {
    std::unordered_map<const Node*, std::int32_t> of;
    for (std::size_t i = 0; i < before_.nodes.size(); ++i) of.emplace(before_.nodes[i], static_cast<std::int32_t>(i));
    std::vector<char> found(before_.nodes.size(), false);
    for (std::size_t i = 0; i < after_.nodes.size(); ++i) {
      const auto at = of.find(after_.nodes[i]);
      places_.push_back(at == of.end() ? -1 : at->second);
      if (at == of.end()) continue;
      const auto before = static_cast<std::size_t>(at->second);
      if (after_.stored[i] != before_.stored[before]) return false;
      found[before] = true;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i] && !before_.is_leaf(static_cast<std::int32_t>(i))) return false;
    }
    const auto same_root = [this](std::int32_t a, std::int32_t b) { return place(a) == b; };
    return after_.device == before_.device &&
           std::equal(after_.roots.begin(), after_.roots.end(), before_.roots.begin(), before_.roots.end(), same_root);
  }

  bool numbers_are_apart() const {
    for (std::size_t i = 0; i < after_.nodes.size(); ++i) {
      const auto same = static_cast<std::size_t>(after_.same[i]);
      if ((places_[i] < 0) != (places_[same] < 0)) return false;
    }
    return true;
  }

  bool fold_leaves(Plan& made) const {
    made.leaves.clear();
    for (const PlanLeaf& leaf : plan_.leaves) {
      if (place(leaf.node) >= 0) {
        made.leaves.push_back({leaf.value, place(leaf.node), leaf.in_memory});
        continue;
      }
      const Node& n = node(leaf.node);
      if (leaf.in_memory || !is_number(n.op)) return false;
      take_numbers(made.arguments[static_cast<std::size_t>(leaf.value)], n.payload);
      made.numbers.push_back({n.op, n.dtype, n.shape, n.payload});
    }
    return true;
  }

  bool fold_steps(Plan& made) const {
    std::size_t calls = 0;
    for (PlanStep& step : made.steps) {
      fold_list(step.attach);
      if (step.node < 0) continue;
      const std::int32_t at = place(step.node);
      if (at < 0 && node(step.node).extra) return false;
      step.node = at;
      if (at >= 0) step.call = calls++;
    }
    return true;
  }

  void fold_list(std::vector<std::int32_t>& nodes) const {
    for (std::int32_t& i : nodes) i = place(i);
    std::erase(nodes, -1);
  }

  const Plan& plan_;
  const Trace &after_, &before_;
  std::vector<std::int32_t> places_;  // of the nodes after, among those before
};

}  // namespace

Folding folded(const Plan& plan, const Trace& after, const Trace& before) { return Fold(plan, after, before).run(); }

bool numbers_are_apart(const Plan& plan, const Trace& trace) {
  if (plan.numbers.empty()) return true;
  return std::none_of(trace.nodes.begin(), trace.nodes.end(), [&](const Node* n) {
    return is_number(n->op) && std::any_of(plan.numbers.begin(), plan.numbers.end(), [n](const PlanNumber& own) {
             return own.op == n->op && own.dtype == n->dtype && own.shape == n->shape &&
                    equal_numbers(own.payload, n->payload);
           });
  });
}

}  // namespace ebb
