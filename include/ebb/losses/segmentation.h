#pragma once
#include "ebb/losses/regression.h"

// Losses of overlap. For dice, iou and tversky the input holds probabilities and the target 0 and 1 (or soft labels) in
// the same shape; the first kept_axes axes keep their terms, the others are summed over: 1 gives one term a sample, 2
// one a sample and class, 0 one for everything.
namespace ebb {

struct OverlapOptions {
  double smooth = 1;  // added above and below the fraction: two empty masks agree
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
  double alpha = 0.5;  // what a false positive counts
  double beta = 0.5;   // what a false negative counts
  double smooth = 1;
  int kept_axes = 1;
  Reduction reduction = Reduction::mean;
};
Tensor tversky_loss(const Tensor& input, const Tensor& target, const TverskyOptions& options = {});
LossGradients tversky_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const TverskyOptions& options = {});

// The Lovász extension of the Jaccard loss: convex, and equal to it on hard predictions.
// lovasz_hinge: logits and labels 0 or 1 of the same shape [N, ...]; one term a sample.
struct LovaszHingeOptions {
  bool per_sample = true;  // false: all samples together are one term
  Reduction reduction = Reduction::mean;
};
Tensor lovasz_hinge(const Tensor& input, const Tensor& target, const LovaszHingeOptions& options = {});
LossGradients lovasz_hinge_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const LovaszHingeOptions& options = {});

// lovasz_softmax: probabilities [N, C, ...] and class indices [N, ...]; one term a class, over the whole batch.
struct LovaszSoftmaxOptions {
  bool present_only = true;  // classes that no target has do not count
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor lovasz_softmax(const Tensor& input, const Tensor& target, const LovaszSoftmaxOptions& options = {});
LossGradients lovasz_softmax_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const LovaszSoftmaxOptions& options = {});

}  // namespace ebb
