#include "autograd/engine.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

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
    for (const Tensor& t : p_.targets) target_.insert(t.node());
    sort();
    const Places places(order_);
    cotangent_.resize(order_.size());
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) add(p_.outputs[i].node(), p_.cotangents[i]);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) step(it->node());
    std::vector<Tensor> result;
    if (p_.targets.empty()) {
      for (const Tensor& t : order_) {
        if (t.node()->op == Op::variable && cotangent_[t.node()->place].defined()) {
          found_->push_back(t);
          result.push_back(cotangent_[t.node()->place]);
        }
      }
    } else {
      for (const Tensor& t : p_.targets) {
        const std::size_t at = t.node()->place;
        const bool reached = at < order_.size() && order_[at].node() == t.node();
        result.push_back(reached ? cotangent_[at] : Tensor());
      }
    }
    if (p_.consume) consume();
    return result;
  }

 private:
  // Where each node stands in the order, noted in the nodes while the pass runs. A rule may start a pass of its own
  // over some of them: it leaves what it found.
  class Places {
   public:
    explicit Places(const std::vector<Tensor>& order) : order_(order) {
      before_.reserve(order.size());
      for (std::size_t i = 0; i < order.size(); ++i)
        before_.push_back(std::exchange(order[i].node()->place, static_cast<std::uint32_t>(i)));
    }
    ~Places() {
      for (std::size_t i = 0; i < order_.size(); ++i) order_[i].node()->place = before_[i];
    }

   private:
    const std::vector<Tensor>& order_;
    std::vector<std::uint32_t> before_;
  };

  bool follows(const Node& n) const { return (n.history & p_.bits) != 0; }
  bool stops(Node* n) const { return n->op == Op::variable || (!target_.empty() && target_.contains(n)); }

  // Everything the outputs depend on that leads to a variable, inputs first, without recursion.
  void sort() {
    struct Frame {
      Node* node;
      std::size_t next;
    };
    std::vector<Frame> stack;
    // Nothing else walks the graph meanwhile: what was seen is marked in the nodes.
    struct Unmark {
      const std::vector<Tensor>& order;
      ~Unmark() {
        for (const Tensor& t : order) t.node()->mark = 0;
      }
    } unmark{order_};
    for (const Tensor& t : p_.outputs) {
      if (!follows(*t.node())) continue;
      stack.push_back({t.node(), first_operand(*t.node())});
      while (!stack.empty()) {
        Frame& f = stack.back();
        if (f.node->mark) {
          stack.pop_back();
          continue;
        }
        if (!stops(f.node)) {
          require(!f.node->consumed || f.node->op == Op::track,
                  "backward: the history of {} {} was consumed by an earlier backward; call that one with "
                  "keep_history = true to go through it again",
                  info(f.node->op).name, f.node->shape);
          while (f.next < f.node->inputs.size() && (!follows(*f.node->inputs[f.next]) || f.node->inputs[f.next]->mark))
            ++f.next;
          if (f.next < f.node->inputs.size()) {
            Node* input = f.node->inputs[f.next++];
            stack.push_back({input, first_operand(*input)});
            continue;
          }
        }
        order_.emplace_back(f.node);
        f.node->mark = 1;
        stack.pop_back();
      }
    }
  }

  void add(Node* n, const Tensor& g) {
    if (!follows(*n)) return;
    require(g.shape() == n->shape && g.dtype() == n->dtype, "internal: the cotangent of {} is {} {}, its value {} {}",
            info(n->op).name, name(g.dtype()), g.shape(), name(n->dtype), n->shape);
    Tensor& sum = cotangent_[n->place];
    sum = sum.defined() ? sum + g : g;
  }

  void step(Node* n) {
    if (!cotangent_[n->place].defined() || stops(n)) return;
    const Tensor grad = std::move(cotangent_[n->place]);
    const std::size_t first = first_operand(*n);
    std::vector<Tensor>& inputs = inputs_;
    inputs.clear();
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
  std::vector<Tensor> cotangent_;  // of each node of the order, while it waits for its turn
  std::unordered_set<Node*> target_;
  std::vector<Tensor> inputs_;  // of the node whose turn it is
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
