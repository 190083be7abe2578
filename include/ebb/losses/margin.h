// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>

#include "ebb/losses/regression.h"

// Losses that are 0 once a prediction is right by a margin. At the kink of such a hinge its gradient is 0.
namespace ebb {

struct LossOptions {
  Reduction reduction = Reduction::mean;
};
struct MarginOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

// max(0, 1 − y·x), y = ±1
Tensor hinge_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
LossGradients hinge_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                  const LossOptions& options = {});

// y = 1: x;  y = −1: max(0, margin − x); input and target broadcast
struct HingeEmbeddingOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, const HingeEmbeddingOptions& options = {});
LossGradients hinge_embedding_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                            const HingeEmbeddingOptions& options = {});

// max(0, −y·(x1 − x2) + margin); the three broadcast
struct PairGradients {
  Tensor input1, input2, target;
};
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginOptions& options = {});
PairGradients margin_ranking_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                           const Tensor& target, const MarginOptions& options = {});

// log(1 + e^(−y·x)), also where e^(−y·x) overflows
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
LossGradients soft_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                        const LossOptions& options = {});

// (1/C)·Σ_{i≠y} w_y·max(0, margin − x_y + x_i)^p for input [C] or [N, C] and one class per sample
struct MultiMarginOptions {
  int p = 1;  // 1 or 2
  double margin = 1;
  Tensor weight = {};  // one for each class; the mean is over the samples
  Reduction reduction = Reduction::mean;
};
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginOptions& options = {});
LossGradients multi_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                         const MultiMarginOptions& options = {});

// (1/C)·Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i); a row of target lists classes and ends at the first −1
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
LossGradients multilabel_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                              const LossOptions& options = {});

}  // namespace ebb
