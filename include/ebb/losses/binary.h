// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// Binary targets, elementwise: p is a probability, x its logit, y in [0, 1] the target, all of the same shape.
namespace ebb {

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // broadcasts to the input's shape; the mean is over the elements
  Reduction reduction = Reduction::mean;
};
// −w·[y·max(log p, −100) + (1 − y)·max(log(1 − p), −100)]; p outside [0, 1] is an error
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options = {});
LossGradients binary_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                            const BinaryCrossEntropyOptions& options = {});

struct BceWithLogitsOptions {
  Tensor weight = {};      // broadcasts
  Tensor pos_weight = {};  // q, broadcasts: how much a positive counts
  Reduction reduction = Reduction::mean;
};
struct BceWithLogitsGradients {
  Tensor input, target, weight, pos_weight;
};
// w·[(1 − y)·x + (1 + (q − 1)·y)·log(1 + e^−x)], finite for every finite x
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});
BceWithLogitsGradients binary_cross_entropy_with_logits_backward(const Tensor& grad, const Tensor& input,
                                                                 const Tensor& target,
                                                                 const BceWithLogitsOptions& options = {});

// The mean over the classes (last axis) of binary_cross_entropy_with_logits, weighted by class: one term per sample.
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const BinaryCrossEntropyOptions& options = {});
LossGradients multilabel_soft_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                   const BinaryCrossEntropyOptions& options = {});

struct FocalOptions {
  double alpha = 0.25;  // how much a positive counts, a negative 1 − alpha; negative: both count 1
  double gamma = 2;     // 0 is weighted binary cross-entropy
  Reduction reduction = Reduction::mean;
};
// y·alpha·(1 − p)^gamma·(−log p) + (1 − y)·(1 − alpha)·p^gamma·(−log(1 − p)),  p = sigmoid(input)
Tensor sigmoid_focal_loss(const Tensor& input, const Tensor& target, const FocalOptions& options = {});
LossGradients sigmoid_focal_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                          const FocalOptions& options = {});
// The same with p = input; logarithms are clamped at −100 as in binary_cross_entropy.
Tensor focal_loss_on_probabilities(const Tensor& input, const Tensor& target, const FocalOptions& options = {});
LossGradients focal_loss_on_probabilities_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                   const FocalOptions& options = {});

struct AsymmetricOptions {
  double gamma_pos = 1;  // how fast a positive fades as the prediction gets right
  double gamma_neg = 4;  // the same for a negative
  double clip = 0.05;    // m: negatives whose probability is below it do not count
  Reduction reduction = Reduction::mean;
};
// For many labels of which few are present (Ridnik et al., 2021), p = sigmoid(input), q = max(p − m, 0):
// y·(1 − p)^gamma_pos·(−log p) + (1 − y)·q^gamma_neg·(−log(1 − q))
Tensor asymmetric_loss(const Tensor& input, const Tensor& target, const AsymmetricOptions& options = {});
LossGradients asymmetric_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                       const AsymmetricOptions& options = {});

}  // namespace ebb
