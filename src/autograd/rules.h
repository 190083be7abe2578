// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <vector>

#include "core/format_error.h"
#include "graph/node.h"

namespace ebb {

// The arguments of a gradient rule. For a formula (class alias, see make_formula) the inputs are its operands, without
// the value.
struct RuleContext {
  const Tensor& grad;    // the cotangent of the output, of its shape and dtype
  const Tensor& output;  // the result of the operation
  std::span<const Tensor> inputs;
  const Attrs& attrs;
  std::span<const bool> needs;  // which inputs' cotangents are requested; the others may be left undefined
};

// Cotangents of the inputs, one per input, in the input's shape and dtype; undefined where there is none. Rules are
// written with ordinary operations, so their result is a graph that can itself be differentiated.
using RuleFn = std::vector<Tensor> (*)(const RuleContext&);

struct RuleRow {
  Op op;
  RuleFn rule;
};

// For rules called by hand: a cotangent must have exactly the shape of the result.
inline void require_cotangent(const char* op, const Tensor& grad, const Shape& result) {
  require(grad.shape() == result, "{}: the gradient has shape {}, the result {}; a cotangent has the result's shape",
          op, grad.shape(), result);
}

// The rules by family (rules_*.cc), each a constant table.
std::span<const RuleRow> elementwise_rules();
std::span<const RuleRow> activation_rules();
std::span<const RuleRow> reduce_rules();
std::span<const RuleRow> shape_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> linalg_rules();
std::span<const RuleRow> norm_rules();
std::span<const RuleRow> conv_rules();
std::span<const RuleRow> grid_sample_rules();
std::span<const RuleRow> distance_rules();

// The rule of an operation, null where the table says none or zero. (Op::custom carries its own.)
RuleFn rule_of(Op op);

}  // namespace ebb
