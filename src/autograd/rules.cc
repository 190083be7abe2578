#include "autograd/rules.h"

#include <array>

namespace ebb {

RuleFn rule_of(Op op) {
  static const std::array<RuleFn, kOpCount> by_op = [] {
    std::array<RuleFn, kOpCount> rules{};
    for (auto family :
         {elementwise_rules, activation_rules, reduce_rules, shape_rules, index_rules, linalg_rules, norm_rules}) {
      for (const RuleRow& row : family()) rules[static_cast<std::size_t>(row.op)] = row.rule;
    }
    return rules;
  }();
  return by_op[static_cast<std::size_t>(op)];
}

}  // namespace ebb
