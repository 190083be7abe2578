#include "losses/one_pass.h"

#include <unordered_set>

#include "autograd/engine.h"
#include "graph/history.h"
#include "graph/lock.h"

namespace ebb {

namespace {

enum class Takes { no, yes, part_missing };

// Does computing `from` take the value of `node`? Gives up, and says yes, on graphs too large to look through.
Takes takes_value_of(const Node* from, const Node* node, GraphLock& lock) {
  constexpr std::size_t kMost = 1000;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack{from};
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (n == node) return Takes::yes;
    if (n->evaluated.load(std::memory_order_acquire) || !seen.insert(n).second) continue;
    if (seen.size() > kMost) return Takes::yes;
    if (!lock.holds(*n)) return Takes::part_missing;
    for (const Node* input : n->inputs) stack.push_back(input);
  }
  return Takes::no;
}

}  // namespace

void compute_as(const Tensor& output, const Tensor& value) {
  Tensor before;  // released after the lock
  Node* const nodes[] = {output.node(), value.node()};
  GraphLock lock(nodes);
  Takes takes;
  while ((takes = takes_value_of(value.node(), output.node(), lock)) == Takes::part_missing) lock.widen();
  Node* n = output.node();
  if (takes == Takes::yes || n->evaluated.load(std::memory_order_acquire) || n->inputs.empty()) return;
  retain(value.node());
  before = Tensor::adopt(std::exchange(n->inputs[0], value.node()));
}

std::vector<Tensor> pull_through(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const Tensor& grad) {
  struct Level {
    int depth = open_transform();
    ~Level() { close_transform(); }
  } level;
  ReversePass pass;
  pass.bits = 1u << level.depth;
  std::vector<Tensor> tracked;
  {
    WithHistory on;
    for (const Tensor& x : inputs) {
      tracked.push_back(x);
      if (!x.defined() || !is_floating(x.dtype())) continue;
      Tensor t = make_node(Op::track, x.dtype(), x.shape(), {x});
      t.node()->history = x.node()->history | pass.bits;
      tracked.back() = t;
      pass.targets.push_back(t);
    }
    pass.outputs = {f(tracked)};
  }
  pass.cotangents = {grad};
  const std::vector<Tensor> found = reverse(pass);
  std::vector<Tensor> cotangents(inputs.size());
  std::size_t next = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].defined() && is_floating(inputs[k].dtype())) cotangents[k] = found[next++];
  }
  return cotangents;
}

Tensor differentiated_as(const FunctionOfMany& plain, const FunctionOfMany& fast, const std::vector<Tensor>& inputs) {
  return custom_function(
      fast,
      [plain](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) { return pull_through(plain, v, grad); },
      inputs);
}

}  // namespace ebb
