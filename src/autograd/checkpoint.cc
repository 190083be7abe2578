// SPDX-License-Identifier: MIT
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/second_run.h"
#include "core/format_error.h"
#include "core/random.h"
#include "ebb/autograd.h"
#include "graph/history.h"
#include "graph/lock.h"

namespace ebb {
namespace {

// Nodes made since `first` get no history of their own; the older nodes with history that it depends on are the
// checkpoint's dependencies: its inputs and the captured variables.
std::vector<Tensor> take_history(const Tensor& y, std::uint64_t first) {
  std::vector<Tensor> captured;
  std::unordered_set<Node*> seen;
  const auto walk = [&](GraphLock& lock) {
    captured.clear();
    seen.clear();
    std::vector<Node*> stack{y.node()};
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      if (!seen.insert(n).second) continue;
      if (n->id < first || n->op == Op::variable) {
        if (n->history != 0) captured.emplace_back(n);
        continue;
      }
      if (!lock.holds(*n)) return false;
      for (Node* input : n->inputs) stack.push_back(input);
    }
    return true;
  };
  GraphLock lock(y.node());
  while (!walk(lock)) lock.widen();
  for (Node* n : seen) {
    if (n->id >= first && n->op != Op::variable) n->history = 0;
  }
  return captured;
}

// Restores an earlier random state, and the current one at the end of the scope.
class ReplayRandom {
 public:
  explicit ReplayRandom(const RandomState& then) : now_(random_state()) { random_state() = then; }
  ~ReplayRandom() { random_state() = now_; }

 private:
  RandomState now_;
};

thread_local bool second_run = false;
class SecondRun {
 public:
  SecondRun() : before_(second_run) { second_run = true; }
  ~SecondRun() { second_run = before_; }
  SecondRun(const SecondRun&) = delete;

 private:
  bool before_;
};

Tensor after(const Tensor& x, const Tensor& event) { return make_node(Op::depend, x.dtype(), x.shape(), {x, event}); }

}  // namespace

bool in_second_run() { return second_run; }

Tensor checkpoint(const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
  const RandomState random = random_state();
  const std::uint64_t first = next_node_id();
  Tensor y = f(inputs);
  const std::vector<Tensor> captured = take_history(y, first);
  if (captured.empty()) return y;

  std::vector<Tensor> all{y};
  all.insert(all.end(), captured.begin(), captured.end());
  Tensor result = make_node(Op::custom, y.dtype(), y.shape(), all);
  result.node()->more().rule = std::make_shared<const Rule>(
      [f, inputs, random](const Tensor& grad, const Tensor&, const std::vector<Tensor>& sources) {
        // Everything the second run computes depends on the cotangent: it is computed when the backward pass gets here,
        // not earlier.
        ReversePass pass;
        {
          WithHistory on;
          ReplayRandom replay(random);
          SecondRun repeated;
          std::vector<Tensor> again, replaced;
          for (const Tensor& x : inputs) {
            const Tensor late = after(x, grad);
            late.node()->history = x.node()->history;
            again.push_back(late);
          }
          pass.outputs = {f(again)};
          for (const Tensor& s : sources) {
            Tensor target = s;
            for (std::size_t i = 0; i < inputs.size(); ++i) {
              if (inputs[i].node() == s.node()) target = again[i];
            }
            pass.targets.push_back(target);
          }
        }
        pass.cotangents = {grad};
        pass.bits = ~0u;
        pass.consume = true;
        return reverse(pass);
      });
  return result;
}

Tensor checkpoint(const Function& f, const Tensor& x) {
  return checkpoint(FunctionOfMany([f](const std::vector<Tensor>& xs) { return f(xs[0]); }), {x});
}

Tensor checkpoint_sequential(const std::vector<Function>& layers, int segments, const Tensor& x) {
  require(segments > 0, "checkpoint_sequential: the number of segments must be positive, got {}", segments);
  const auto n = static_cast<std::int64_t>(layers.size());
  Tensor h = x;
  for (std::int64_t s = 0; s < segments; ++s) {
    const std::int64_t begin = n * s / segments, end = n * (s + 1) / segments;
    if (begin == end) continue;
    h = checkpoint(
        Function([run = std::vector<Function>(layers.begin() + begin, layers.begin() + end)](const Tensor& in) {
          Tensor out = in;
          for (const Function& layer : run) out = layer(out);
          return out;
        }),
        h);
  }
  return h;
}

Tensor custom_function(const FunctionOfMany& forward, const CustomRule& rule, const std::vector<Tensor>& inputs) {
  Tensor value = [&] {
    NoHistory off;
    return forward(inputs);
  }();
  std::vector<Tensor> all{value};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Tensor result = make_node(Op::custom, value.dtype(), value.shape(), all);
  if (result.node()->history == 0) return value;
  result.node()->more().rule = std::make_shared<const Rule>(rule);
  return result;
}

}  // namespace ebb
