// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/linear_loss.h"

namespace ebb {

struct LossAndGradients {
  Tensor loss;                    // f32 for halves
  std::vector<Tensor> gradients;  // of x, head, bias, others, shared; undefined unless requested
};

// The loss with the requested gradients at those of these positions, with three products with the head in all. One
// chunk of rows has logits at a time, and sums over chunks are f32, in row order.
LossAndGradients linear_loss(const LinearLossInputs& inputs, const TermFormula& formula,
                             const LinearLossOptions& options, const std::vector<bool>& asked);

}  // namespace ebb
