// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// Losses of scores: for one of C classes (class axis 1, or the only axis, as in cross_entropy), a ranking, or a sign.
namespace ebb {

// cross_entropy + epsilon·(1 − p_y): the first term of its series reweighted
struct PolyOptions {
  double epsilon = 1;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor poly_loss(const Tensor& input, const Tensor& target, const PolyOptions& options = {});
LossGradients poly_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                 const PolyOptions& options = {});

// ½·Σ_{j in S} (x_j² − τ²) + ½ − x_y, where sparsemax(x) = max(x − τ, 0) sums to one and S is where it is positive.
// Zero, with zero gradient, once x_y leads by 1: it does not push further.
struct SparsemaxOptions {
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor sparsemax_loss(const Tensor& input, const Tensor& target, const SparsemaxOptions& options = {});
LossGradients sparsemax_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const SparsemaxOptions& options = {});

// −Σ softmax(relevance)·log_softmax(scores) along the last axis: one term per list
struct ListnetOptions {
  Reduction reduction = Reduction::mean;
};
Tensor listnet_loss(const Tensor& input, const Tensor& target, const ListnetOptions& options = {});
LossGradients listnet_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const ListnetOptions& options = {});

// max(0, −y·x), y = ±1
struct PerceptronOptions {
  Reduction reduction = Reduction::mean;
};
Tensor perceptron_loss(const Tensor& input, const Tensor& target, const PerceptronOptions& options = {});
LossGradients perceptron_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                       const PerceptronOptions& options = {});

}  // namespace ebb
