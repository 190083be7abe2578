// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// Regression losses. input and target have the same shape; d = input − target. Names and defaults are those of
// torch.nn.functional. Every `*_backward(grad, ...)` returns what the backward pass computes for the cotangent `grad`
// of the loss: undefined where an operand is not floating or was omitted.
namespace ebb {

struct LossGradients {
  Tensor input, target, weight;
};

struct WeightedOptions {
  Tensor weight = {};  // one per element; the mean is then Σ w·l / Σ w
  Reduction reduction = Reduction::mean;
};

// d²
Tensor mse_loss(const Tensor& input, const Tensor& target, const WeightedOptions& options = {});
LossGradients mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const WeightedOptions& options = {});

// |d|, with gradient 0 at d = 0
Tensor l1_loss(const Tensor& input, const Tensor& target, const WeightedOptions& options = {});
LossGradients l1_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                               const WeightedOptions& options = {});

// |d| < beta: d²/(2·beta), else |d| − beta/2. beta = 0 is l1_loss.
struct SmoothL1Options {
  double beta = 1;
  Reduction reduction = Reduction::mean;
};
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options = {});
LossGradients smooth_l1_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const SmoothL1Options& options = {});

// |d| <= delta: d²/2, else delta·(|d| − delta/2)
struct HuberOptions {
  double delta = 1;
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options = {});
LossGradients huber_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                  const HuberOptions& options = {});

}  // namespace ebb
