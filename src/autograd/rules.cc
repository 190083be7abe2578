// SPDX-License-Identifier: MIT
#include "autograd/rules.h"

#include <array>

namespace ebb {
namespace {

// Nodes that mark a place in the order or in the history: the value passes through, and so does its cotangent.
constexpr RuleRow kOrderRules[] = {
    {Op::track, [](const RuleContext& c) -> std::vector<Tensor> { return {c.grad}; }},
    {Op::depend,
     [](const RuleContext& c) -> std::vector<Tensor> {
       return {c.grad, {}};
     }},
};
std::span<const RuleRow> order_rules() { return kOrderRules; }

}  // namespace

RuleFn rule_of(Op op) {
  static const std::array<RuleFn, kOpCount> by_op = [] {
    std::array<RuleFn, kOpCount> rules{};
    for (auto family : {order_rules, elementwise_rules, activation_rules, reduce_rules, shape_rules, index_rules,
                        linalg_rules, norm_rules, conv_rules, grid_sample_rules, distance_rules}) {
      for (const RuleRow& row : family()) rules[static_cast<std::size_t>(row.op)] = row.rule;
    }
    return rules;
  }();
  return by_op[static_cast<std::size_t>(op)];
}

}  // namespace ebb
