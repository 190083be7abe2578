// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "ebb/losses/linear_cross_entropy.h"

// Losses of answers' log-probabilities, from hidden states and an LM head.
namespace ebb {

// Terms of few answers each, and their reduction. The formulas are written once, for any number of answers: the
// gradient evaluates them for as many as have logits in memory.
struct AnswerLoss {
  std::int64_t sides = 1;  // answers per term; with two, the second ones are the second half of the batch
  // Inputs of the terms besides log-probabilities: [answers, ..] or [terms, ..] each, or one number without axes.
  std::vector<Tensor> further;
  // The terms [n] of the log-probabilities [sides·n, T] of that many answers, and of their part of `further`.
  std::function<Tensor(const Tensor& log_probs, const std::vector<Tensor>& further)> terms;
  // The loss, a linear function of all terms.
  std::function<Tensor(const Tensor& terms)> reduce;
};

// The loss of x [A, T, H], an LM head [V, H] and target [A, T], before it is rounded: in f32 for halves.
Tensor linear_answer_loss(const Tensor& x, const Tensor& head, const Tensor& target,
                          const LinearLogProbOptions& options, const AnswerLoss& loss);

}  // namespace ebb
