// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// Overlap losses. For dice, iou and tversky the input holds probabilities and the target 0 and 1 (or soft labels) in
// the same shape; the first kept_axes axes keep their terms, the others are summed over: 1 gives one term per sample, 2
// one per sample and class, 0 a single term.
namespace ebb {

struct OverlapOptions {
  double smooth = 1;  // added to numerator and denominator, so that two empty masks agree
  int kept_axes = 1;
  Reduction reduction = Reduction::mean;
};

// 1 − (2·Σxt + s) / (Σx + Σt + s)
Tensor dice_loss(const Tensor& input, const Tensor& target, const OverlapOptions& options = {});
LossGradients dice_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                 const OverlapOptions& options = {});

// Jaccard.   1 − (Σxt + s) / (Σx + Σt − Σxt + s)
Tensor iou_loss(const Tensor& input, const Tensor& target, const OverlapOptions& options = {});
LossGradients iou_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const OverlapOptions& options = {});

// 1 − (TP + s) / (TP + alpha·FP + beta·FN + s); alpha = beta = ½ is dice
struct TverskyOptions {
  double alpha = 0.5;  // the weight of false positives
  double beta = 0.5;   // the weight of false negatives
  double smooth = 1;
  int kept_axes = 1;
  Reduction reduction = Reduction::mean;
};
Tensor tversky_loss(const Tensor& input, const Tensor& target, const TverskyOptions& options = {});
LossGradients tversky_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const TverskyOptions& options = {});

// The Lovász extension of the Jaccard loss: convex, and equal to it on hard predictions.
// lovasz_hinge: logits and labels 0 or 1 of the same shape [N, ...]; one term per sample.
struct LovaszHingeOptions {
  bool per_sample = true;  // false: all samples together are one term
  Reduction reduction = Reduction::mean;
};
Tensor lovasz_hinge(const Tensor& input, const Tensor& target, const LovaszHingeOptions& options = {});
LossGradients lovasz_hinge_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const LovaszHingeOptions& options = {});

// lovasz_softmax: probabilities [N, C, ...] and class indices [N, ...]; one term per class, over the whole batch.
struct LovaszSoftmaxOptions {
  bool present_only = true;  // classes that no target has do not count
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor lovasz_softmax(const Tensor& input, const Tensor& target, const LovaszSoftmaxOptions& options = {});
LossGradients lovasz_softmax_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const LovaszSoftmaxOptions& options = {});

}  // namespace ebb
