// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops.h"
#include "losses/reduction.h"

namespace ebb {

// term(d) of d = input − target, weighted if a weight is given, and reduced.
template <class Term>
Tensor of_difference(const char* op, const Tensor& input, const Tensor& target, const Tensor& weight,
                     Reduction reduction, Term term) {
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor terms = term(p.wide(input) - p.wide(target));
  if (!weight.defined()) return p.rounded(reduce(op, terms, reduction));
  require_same_shape(op, "input", input, "weight", weight);
  const Tensor w = p.wide(weight);
  return p.rounded(reduce_weighted(op, w * terms, sum(w), reduction));
}

}  // namespace ebb
