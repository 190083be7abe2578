#include "autograd/engine.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb {
namespace {

bool is_formula(const Node& n) {
  return info(n.op).cls == OpClass::alias && n.op != Op::track && n.op != Op::depend && n.op != Op::variable;
}

// Where a node's operands begin: a formula's first input is its value.
std::size_t first_operand(const Node& n) { return is_formula(n) ? 1 : 0; }

class Reverse {
 public:
  Reverse(const ReversePass& pass, std::vector<Tensor>* found) : p_(pass), found_(found) {}

  std::vector<Tensor> run() {
    for (const Tensor& t : p_.targets) target_[t.node()] = true;
    sort();
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) add(p_.outputs[i].node(), p_.cotangents[i]);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) step(it->node());
    std::vector<Tensor> result;
    if (p_.targets.empty()) {
      for (const Tensor& t : order_) {
        if (t.node()->op == Op::variable && cotangent_.contains(t.node())) {
          found_->push_back(t);
          result.push_back(cotangent_.at(t.node()));
        }
      }
    } else {
      for (const Tensor& t : p_.targets) {
        auto it = cotangent_.find(t.node());
        result.push_back(it == cotangent_.end() ? Tensor() : it->second);
      }
    }
    if (p_.consume) consume();
    return result;
  }

 private:
  bool follows(const Node& n) const { return (n.history & p_.bits) != 0; }
  bool stops(Node* n) const { return n->op == Op::variable || target_.contains(n); }

  // Everything the outputs depend on that leads to a variable, inputs first, without recursion.
  void sort() {
    struct Frame {
      Node* node;
      std::size_t next;
    };
    std::vector<Frame> stack;
    std::unordered_map<Node*, bool> seen;
    for (const Tensor& t : p_.outputs) {
      if (!follows(*t.node())) continue;
      stack.push_back({t.node(), first_operand(*t.node())});
      while (!stack.empty()) {
        Frame& f = stack.back();
        if (seen.contains(f.node)) {
          stack.pop_back();
          continue;
        }
        if (!stops(f.node)) {
          require(!f.node->consumed || f.node->op == Op::track,
                  "backward: the history of {} {} was consumed by an earlier backward; call that one with "
                  "keep_history = true to go through it again",
                  info(f.node->op).name, f.node->shape);
          while (f.next < f.node->inputs.size() &&
                 (!follows(*f.node->inputs[f.next]) || seen.contains(f.node->inputs[f.next])))
            ++f.next;
          if (f.next < f.node->inputs.size()) {
            Node* input = f.node->inputs[f.next++];
            stack.push_back({input, first_operand(*input)});
            continue;
          }
        }
        seen[f.node] = true;
        order_.emplace_back(f.node);
        stack.pop_back();
      }
    }
  }

  void add(Node* n, const Tensor& g) {
    if (!follows(*n)) return;
    require(g.shape() == n->shape && g.dtype() == n->dtype, "internal: the cotangent of {} is {} {}, its value {} {}",
            info(n->op).name, name(g.dtype()), g.shape(), name(n->dtype), n->shape);
    auto [it, fresh] = cotangent_.try_emplace(n, g);
    if (!fresh) it->second = it->second + g;
  }

  void step(Node* n) {
    auto it = cotangent_.find(n);
    if (it == cotangent_.end() || stops(n)) return;
    const Tensor grad = it->second;
    cotangent_.erase(it);
    const std::size_t first = first_operand(*n);
    std::vector<Tensor> inputs;
    for (std::size_t k = first; k < n->inputs.size(); ++k) inputs.emplace_back(n->inputs[k]);
    std::vector<Tensor> cotangents;
    if (n->extra && n->extra->rule) {
      cotangents = n->extra->rule(grad, Tensor(n), inputs);
      require(cotangents.size() == inputs.size(), "{}: its gradient rule gave {} cotangents for {} inputs",
              info(n->op).name, cotangents.size(), inputs.size());
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        require(!cotangents[k].defined() || cotangents[k].shape() == inputs[k].shape(),
                "{}: the cotangent of input {} has shape {}, the input {}", info(n->op).name, k,
                cotangents[k].defined() ? cotangents[k].shape() : Shape{}, inputs[k].shape());
        if (cotangents[k].defined()) cotangents[k] = cast(cotangents[k], inputs[k].dtype());
      }
    } else if (info(n->op).grad == OpGrad::zero) {
      return;
    } else {
      const RuleFn rule = rule_of(n->op);
      require(rule != nullptr, "backward: {} has no gradient rule", info(n->op).name);
      bool needs[64] = {};
      std::vector<char> many;
      std::span<const bool> need;
      std::unique_ptr<bool[]> heap;
      bool* flags = needs;
      if (inputs.size() > 64) {
        heap = std::make_unique<bool[]>(inputs.size());
        flags = heap.get();
      }
      for (std::size_t k = 0; k < inputs.size(); ++k) flags[k] = follows(*inputs[k].node());
      const Tensor output(n);
      cotangents = rule({grad, output, inputs, n->attrs, std::span<const bool>(flags, inputs.size())});
    }
    for (std::size_t k = 0; k < inputs.size() && k < cotangents.size(); ++k) {
      if (cotangents[k].defined()) add(inputs[k].node(), cotangents[k]);
    }
  }

  // Values that are there already let go of what they were made of; the others do so once they are evaluated.
  void consume() {
    for (const Tensor& t : order_) {
      Node* n = t.node();
      if (stops(n)) continue;
      n->consumed = true;
      if (n->evaluated.load(std::memory_order_relaxed)) forget_inputs(n);
    }
  }

  const ReversePass& p_;
  std::vector<Tensor>* found_;
  std::vector<Tensor> order_;
  std::unordered_map<Node*, Tensor> cotangent_;
  std::unordered_map<Node*, bool> target_;
};

}  // namespace

std::vector<Tensor> reverse(const ReversePass& pass, std::vector<Tensor>* found_variables) {
  std::lock_guard lock(graph_mutex());
  std::vector<Tensor> ignored;
  return Reverse(pass, found_variables ? found_variables : &ignored).run();
}

void make_companions(const std::vector<Tensor>& tensors) {
  std::lock_guard lock(graph_mutex());
  auto list = std::make_shared<std::vector<Node*>>();
  for (const Tensor& t : tensors) {
    Node* n = t.node();
    if (n->evaluated.load(std::memory_order_relaxed) || info(n->op).cls == OpClass::leaf) continue;
    if (n->extra && n->extra->companions) continue;  // it has a list already: asking for it brings those
    n->more().companions = list;
    list->push_back(n);
  }
}

}  // namespace ebb
