// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "ebb/losses/linear_cross_entropy.h"

// A loss that somebody else wrote the formula of, from hidden states and an LM head: the sum or mean of terms, each of
// one entry of the first axis of target (a token of [N], an answer of [A, T]) or of a pair of them.
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
  Tensor x, head, target;      // [.., H], [V, H], [..]; without a target the formula has to be one of logits
  std::vector<Tensor> others;  // [entries or terms, ..], cut like the rows, or one number each
  std::vector<Tensor> shared;  // given whole
};

// One term per entry or pair, [n], of log_probs, or of logits and then the target if there is one; then of the others
// and of what is shared.
using TermFormula = std::function<Tensor(const std::vector<Tensor>& arguments)>;

struct LossAndGradients {
  Tensor loss;                    // f32 for halves
  std::vector<Tensor> gradients;  // of x, head, bias, others, shared; undefined where not asked for
};

// The loss with the gradients at those of these positions that are asked for, three products with the head in all. A
// chunk of rows has logits at a time, and sums over chunks are f32, in the order of the rows.
LossAndGradients linear_loss(const LinearLossInputs& inputs, const TermFormula& formula,
                             const LinearLossOptions& options, const std::vector<bool>& asked);

}  // namespace ebb
