// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/losses/regression.h"

// One of C classes, or a distribution over them. Predictions are [C], [N, C] or [N, C, d1, ...]; class indices (any
// integer dtype) have that shape without C.
namespace ebb {

struct NllOptions {
  Tensor weight = {};  // one for each class
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  // mean: divides by Σ w_y of the targets that are not ignored
};
// −w_y·x_y of log-probabilities x
Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& options = {});
LossGradients nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const NllOptions& options = {});

struct CrossEntropyOptions {
  Tensor weight = {};                // one for each class
  std::int64_t ignore_index = -100;  // for class indices
  double label_smoothing = 0;
  double z_loss = 0;   // adds w_y·z_loss·(log Σ e^x)² (w = 1 for probabilities): keeps the logits from drifting
  double softcap = 0;  // > 0: replaces the logits by softcap·tanh(x / softcap)
  Tensor token_weight = {};  // one for each row, in the shape of the losses; the mean divides by Σ w_y·token_weight
  Reduction reduction = Reduction::mean;
};
// Class indices:      (1 − ε)·(−w_y·logp_y) + (ε/C)·Σ_c −w_c·logp_c,  logp = log_softmax(x); mean: over Σ w_y
// Probabilities (a floating target of the input's shape):  −Σ_c w_c·t_c·logp_c; mean: over N·d1·...
Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options = {});
LossGradients cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                     const CrossEntropyOptions& options = {});

struct DftOptions {
  std::int64_t ignore_index = -100;
  Tensor token_weight = {};               // one for each row, in the shape of the losses; the mean divides by their sum
  Reduction reduction = Reduction::mean;  // mean: over the targets that are not ignored
};
// −sg(p_y)·log p_y,  p = softmax(x): cross-entropy whose terms are weighted by a constant, the probability that the
// model itself gives the target (dynamic fine-tuning). Its gradient is p_y times that of cross_entropy.
Tensor dft_loss(const Tensor& input, const Tensor& target, const DftOptions& options = {});
LossGradients dft_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const DftOptions& options = {});

struct SoftmaxFocalOptions {
  Tensor alpha = {};  // one for each class
  double gamma = 2;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  // mean: over the targets that are not ignored
};
// −alpha_y·(1 − p_y)^gamma·log p_y,  p = softmax(x). The gradients' `weight` is alpha's.
Tensor softmax_focal_loss(const Tensor& input, const Tensor& target, const SoftmaxFocalOptions& options = {});
LossGradients softmax_focal_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                          const SoftmaxFocalOptions& options = {});

}  // namespace ebb
