// SPDX-License-Identifier: MIT
// Losses with kernels of their own.
#include <optional>
#include <utility>

#include "schedule/simplifier.h"

namespace ebb {

void Simplifier::take_losses_from_gradients() {
  bool moved = false;
  for (std::int32_t both = 0; both < static_cast<std::int32_t>(g_.values.size()); ++both) {
    const std::int32_t alone = call_for_losses(both);
    if (alone < 0 || needs(both, alone)) continue;
    for (Value& v : g_.values) {
      if (v.op == Op::output && v.inputs[0] == alone) v.inputs[0] = both, moved = true;
    }
  }
  if (moved) sort_inputs_first(g_);
}

std::int32_t Simplifier::call_for_losses(std::int32_t both) {
  const Value& x = at(both);
  if (x.is_leaf || info(x.op).cls != OpClass::library) return -1;
  if (!x.attrs.options) return -1;
  const std::optional<FirstOutputCall> alone = x.attrs.options->first_output(x.inputs.size());
  if (!alone) return -1;
  Value v;
  v.op = x.op;
  v.dtype = x.dtype;
  v.shape = x.shape;
  v.label = x.label;
  v.attrs.options = alone->options;
  for (std::size_t k : alone->inputs) v.inputs.push_back(x.inputs[k]);
  const auto it = merged_.find(push(std::move(v)));
  g_.values.pop_back();
  return it == merged_.end() ? -1 : *it;
}

bool Simplifier::needs(std::int32_t v, std::int32_t other) const {
  std::vector<char> seen(g_.values.size(), 0);
  std::vector<std::int32_t> stack{v};
  while (!stack.empty()) {
    const std::int32_t top = stack.back();
    stack.pop_back();
    if (top == other) return true;
    if (std::exchange(seen[top], 1)) continue;
    const Value& x = at(top);
    stack.insert(stack.end(), x.inputs.begin(), x.inputs.end());
    if (x.is_view()) stack.push_back(x.base);
  }
  return false;
}

}  // namespace ebb
