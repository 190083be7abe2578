// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "ebb/losses/linear_cross_entropy.h"

// A loss with a formula of your own from hidden states and an LM head: the sum or mean of terms, each of one entry of
// the first axis of target (a token of [N], an answer of [A, T]) or of a pair of them.
namespace ebb {

enum class LossOf {
  log_probs,  // of the targets, in the shape of target; 0 where it is ignore_index
  logits,     // [.., V]
};

struct LinearLossOptions : LinearLogProbOptions {
  LossOf of = LossOf::log_probs;
  double logit_scale = 1;
  std::int64_t sides = 1;  // how many entries make a term; with two, the second ones are the second half
  Reduction reduction = Reduction::mean;
};

struct LinearLossInputs {
  Tensor x, head, target;           // [.., H], [V, H], [..]; without a target the formula has to be one of logits
  std::vector<Tensor> others = {};  // [entries or terms, ..], cut like the rows, or one number each
  std::vector<Tensor> shared = {};  // given whole
};

// One term per entry or pair, [n], of log_probs, or of logits and then the target if there is one; then of the others
// and of what is shared. It is called for as many entries as have logits at a time, and for all of them.
using TermFormula = std::function<Tensor(const std::vector<Tensor>& arguments)>;

//   linear_loss({x, head, target, {reference}},
//               [](const std::vector<Tensor>& v) { return -log_sigmoid(sum(v[0], -1) - v[1]); });
//
// The loss, f32 for halves, with gradients to x, head, bias, others and shared. `chunk` rows have logits at a time. For
// a formula of log-probabilities value and gradients take three products with the head, else four; second derivatives
// are those of the plain formula and hold the logits.
Tensor linear_loss(const LinearLossInputs& inputs, const TermFormula& formula, const LinearLossOptions& options = {});

}  // namespace ebb
