// SPDX-License-Identifier: MIT
#include "autograd/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/lock.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

bool is_formula(const Node& n) {
  return info(n.op).cls == OpClass::alias && n.op != Op::track && n.op != Op::depend && n.op != Op::variable;
}

// Index of a node's first operand: a formula's first input is its value.
std::size_t first_operand(const Node& n) { return is_formula(n) ? 1 : 0; }

// The parts that x is concatenated from along an axis.
std::vector<Tensor> pieces_of(const Tensor& x, std::int64_t axis) {
  if (x.node()->op != Op::cat || x.node()->attrs.i[0] != axis) return {x};
  std::vector<Tensor> pieces;
  std::int64_t length = 0;
  for (Tensor piece; (piece = input_of(x, pieces.size())).defined(); pieces.push_back(piece))
    length += piece.shape()[static_cast<int>(axis)];
  // Another thread may have evaluated it meanwhile.
  return length == x.shape()[static_cast<int>(axis)] ? pieces : std::vector<Tensor>{x};
}

// a + b. Cotangents of adjacent parts of a value, such as those of chunk, have zeros in each other's place: these are
// joined, which takes one copy of each instead of a sum of values that are mostly zeros.
Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (a.node()->op != Op::pad_zero || b.node()->op != Op::pad_zero) return a + b;
  const auto &x = a.node()->attrs.i, &y = b.node()->attrs.i;
  const auto axis = static_cast<int>(x[0]);
  if (y[0] != axis || a.dtype() != b.dtype()) return a + b;
  if (y[1] < x[1]) return sum_of(b, a);
  const Tensor first = input_of(a, 0), second = input_of(b, 0);
  if (!first.defined() || !second.defined() || x[1] + first.shape()[axis] != y[1]) return a + b;
  std::vector<Tensor> pieces = pieces_of(first, axis);
  for (const Tensor& piece : pieces_of(second, axis)) pieces.push_back(piece);
  return pad_zero(cat(pieces, axis), axis, x[1], y[2]);
}

// The history is walked once, under the lock, recording what the pass needs; rules are called without the lock, and
// other threads may meanwhile evaluate, differentiate or forget the same nodes.
class Reverse {
 public:
  Reverse(const ReversePass& pass, std::vector<Tensor>* found) : p_(pass), found_(found) {}

  std::vector<Tensor> run() {
    for (const Tensor& t : p_.targets) target_.emplace(t.node(), kNotReached);
    order_.reserve(64);
    operands_.reserve(128);
    std::vector<Node*> start;
    for (const Tensor& t : p_.outputs) start.push_back(t.node());
    {
      GraphLock lock(start);
      while (!write_down(lock)) lock.widen();
      parts_ = lock.parts();
    }
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) add(place_of_output_[i], p_.outputs[i], p_.cotangents[i]);
    for (std::size_t i = order_.size(); i-- > 0;) step(i);
    std::vector<Tensor> result;
    if (p_.targets.empty()) {
      for (std::size_t i = 0; i < order_.size(); ++i) {
        if (order_[i].node->op != Op::variable || !order_[i].cotangent.defined()) continue;
        found_->push_back(order_[i].tensor);
        result.push_back(order_[i].cotangent);
      }
    } else {
      for (const Tensor& t : p_.targets) {
        const std::int32_t at = target_.at(t.node());
        result.push_back(at == kNotReached ? Tensor() : order_[static_cast<std::size_t>(at)].cotangent);
      }
    }
    if (p_.consume) consume();
    return result;
  }

 private:
  static constexpr std::int32_t kNotReached = -1;

  struct Visit {
    Visit(Node* n, bool is_end) : tensor(n), node(n), ends(is_end) {}
    Tensor tensor;
    Node* node;
    bool ends;                         // the walk does not go below it
    std::size_t first = 0, count = 0;  // its operands
    std::shared_ptr<const Rule> rule;  // of its own, if it has one
    Tensor cotangent;                  // while it is pending
  };

  bool follows(const Node& n) const { return (n.history & p_.bits) != 0; }
  bool ends_at(Node* n) const { return n->op == Op::variable || (!target_.empty() && target_.contains(n)); }

  // During a walk its nodes store their position in it, plus one.
  struct Unmark {
    const std::vector<Visit>& order;
    ~Unmark() {
      for (const Visit& v : order) v.node->mark = 0;
    }
  };

  // Records everything that the outputs depend on and that depends on a variable, inputs first, with its operands.
  // False: a part of the graph is missing.
  bool write_down(GraphLock& lock) {
    order_.clear();
    operands_.clear();
    place_of_output_.assign(p_.outputs.size(), kNotReached);
    Unmark unmark{order_};
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
      Node* n = p_.outputs[i].node();
      if (!follows(*n)) continue;
      if (!sort(n, lock)) return false;
      place_of_output_[i] = static_cast<std::int32_t>(n->mark) - 1;
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Visit& v = order_[i];
      if (v.ends) {
        const auto target = target_.find(v.node);
        if (target != target_.end()) target->second = static_cast<std::int32_t>(i);
        continue;
      }
      const std::size_t first = first_operand(*v.node);
      v.first = operands_.size();
      v.count = v.node->inputs.size() - std::min(first, v.node->inputs.size());
      for (std::size_t k = first; k < v.node->inputs.size(); ++k) {
        Node* input = v.node->inputs[k];
        operands_.push_back(
            {Tensor(input), follows(*input) ? static_cast<std::int32_t>(input->mark) - 1 : kNotReached});
      }
      if (v.node->extra) v.rule = v.node->extra->rule;
    }
    return true;
  }

  // Without recursion: a chain of a million operations must not overflow the stack.
  bool sort(Node* root, GraphLock& lock) {
    struct Frame {
      Node* node;
      std::size_t next;
      bool ends;
    };
    std::vector<Frame> stack;
    stack.reserve(64);
    stack.push_back({root, first_operand(*root), ends_at(root)});
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (!lock.holds(*f.node)) return false;
      if (f.node->mark) {
        stack.pop_back();
        continue;
      }
      if (!f.ends) {
        require(!f.node->consumed || f.node->op == Op::track,
                "backward: the history of {} {} was consumed by an earlier backward; call that one with "
                "keep_history = true to go through it again",
                info(f.node->op).name, f.node->shape);
        Node* input = nullptr;
        while (f.next < f.node->inputs.size() && !input) {
          Node* next = f.node->inputs[f.next++];
          if (!follows(*next)) continue;
          if (!lock.holds(*next)) return false;
          if (!next->mark) input = next;
        }
        if (input) {
          stack.push_back({input, first_operand(*input), ends_at(input)});
          continue;
        }
      }
      order_.emplace_back(f.node, f.ends);
      f.node->mark = static_cast<std::uint32_t>(order_.size());
      stack.pop_back();
    }
    return true;
  }

  void add(std::int32_t place, const Tensor& value, const Tensor& g) {
    if (place == kNotReached) return;
    require(g.shape() == value.shape() && g.dtype() == value.dtype(),
            "internal: the cotangent of {} is {} {}, its value {} {}", info(value.node()->op).name, name(g.dtype()),
            g.shape(), name(value.dtype()), value.shape());
    Tensor& sum = order_[static_cast<std::size_t>(place)].cotangent;
    sum = sum.defined() ? sum_of(sum, g) : g;
  }

  void step(std::size_t i) {
    Visit& v = order_[i];
    if (!v.cotangent.defined() || v.ends) return;
    const Tensor grad = std::move(v.cotangent);
    const Node& n = *v.node;
    inputs_.clear();
    for (std::size_t k = 0; k < v.count; ++k) inputs_.push_back(std::move(operands_[v.first + k].tensor));
    std::vector<Tensor> cotangents;
    if (v.rule) {
      cotangents = (*v.rule)(grad, v.tensor, inputs_);
      require(cotangents.size() == inputs_.size(), "{}: its gradient rule gave {} cotangents for {} inputs",
              info(n.op).name, cotangents.size(), inputs_.size());
      for (std::size_t k = 0; k < inputs_.size(); ++k) {
        require(!cotangents[k].defined() || cotangents[k].shape() == inputs_[k].shape(),
                "{}: the cotangent of input {} has shape {}, the input {}", info(n.op).name, k,
                cotangents[k].defined() ? cotangents[k].shape() : Shape{}, inputs_[k].shape());
        if (cotangents[k].defined()) cotangents[k] = cast(cotangents[k], inputs_[k].dtype());
      }
    } else if (info(n.op).grad == OpGrad::zero) {
      return;
    } else {
      const RuleFn rule = rule_of(n.op);
      require(rule != nullptr, "backward: {} has no gradient rule", info(n.op).name);
      bool needs[64] = {};
      std::unique_ptr<bool[]> heap;
      bool* flags = needs;
      if (inputs_.size() > 64) {
        heap = std::make_unique<bool[]>(inputs_.size());
        flags = heap.get();
      }
      for (std::size_t k = 0; k < inputs_.size(); ++k) flags[k] = operands_[v.first + k].place != kNotReached;
      cotangents = rule({grad, v.tensor, inputs_, n.attrs, std::span<const bool>(flags, inputs_.size())});
    }
    for (std::size_t k = 0; k < inputs_.size() && k < cotangents.size(); ++k) {
      if (cotangents[k].defined()) add(operands_[v.first + k].place, inputs_[k], cotangents[k]);
    }
  }

  // Values that are already evaluated drop their inputs; the others do so once they are evaluated.
  void consume() {
    std::vector<Forgotten> forgotten;  // before the lock: released after it
    GraphLock lock(parts_);
    for (const Visit& v : order_) {
      if (v.ends) continue;
      v.node->consumed = true;
      if (v.node->evaluated.load(std::memory_order_relaxed)) forgotten.push_back(forget_inputs(v.node));
    }
  }

  struct Operand {
    Tensor tensor;
    std::int32_t place;  // in the order, if the walk follows it
  };

  const ReversePass& p_;
  std::vector<Tensor>* found_;
  std::vector<Visit> order_;
  std::vector<Operand> operands_;
  std::vector<std::int32_t> place_of_output_;
  std::unordered_map<const Node*, std::int32_t> target_;  // and its place
  std::uint64_t parts_ = 0;
  std::vector<Tensor> inputs_;  // of the current node
};

}  // namespace

Tensor beside(const Tensor& gradient, const Tensor& x) {
  const Node &g = *gradient.node(), &n = *x.node();
  return g.homeless && !n.homeless && n.device != default_device() ? gradient.to(n.device) : gradient;
}

std::vector<Tensor> reverse(const ReversePass& pass, std::vector<Tensor>* found_variables) {
  std::vector<Tensor> ignored;
  return Reverse(pass, found_variables ? found_variables : &ignored).run();
}

}  // namespace ebb
