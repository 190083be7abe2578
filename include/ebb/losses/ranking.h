#pragma once
#include "ebb/losses/regression.h"

// Losses of scores: of one class among C (class axis 1, or the only one, as in cross_entropy), of a ranking, of a sign.
namespace ebb {

// cross_entropy + epsilon·(1 − p_y): the first term of its series weighted anew
struct PolyOptions {
  double epsilon = 1;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor poly_loss(const Tensor& input, const Tensor& target, const PolyOptions& options = {});
LossGradients poly_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                 const PolyOptions& options = {});

// ½·Σ_{j in S} (x_j² − τ²) + ½ − x_y, where sparsemax(x) = max(x − τ, 0) sums to one and S is where it is positive.
// Zero, with its gradient, once x_y leads by 1: it does not push on forever.
struct SparsemaxOptions {
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor sparsemax_loss(const Tensor& input, const Tensor& target, const SparsemaxOptions& options = {});
LossGradients sparsemax_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const SparsemaxOptions& options = {});

// −Σ softmax(relevance)·log_softmax(scores) along the last axis: one term a list
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
