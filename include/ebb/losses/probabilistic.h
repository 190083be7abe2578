// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// Negative log-likelihoods and divergences.
namespace ebb {

// t·(log t − x), x a log-probability; log_target: e^t·(t − x). 0·log 0 counts 0, also where x = −inf.
struct KlDivOptions {
  bool log_target = false;
  Reduction reduction = Reduction::mean;  // over all elements; batchmean is the divergence as defined mathematically
};
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});
LossGradients kl_div_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                              const KlDivOptions& options = {});

// Σ p·log(p / q) along an axis, p and q probabilities: one term per distribution
struct KlDivergenceOptions {
  double epsilon = 0;  // q is clamped to at least this; where it is, its gradient is 0
  int axis = -1;
  Reduction reduction = Reduction::mean;
};
struct DivergenceGradients {
  Tensor p, q;
};
Tensor kl_divergence(const Tensor& p, const Tensor& q, const KlDivergenceOptions& options = {});
DivergenceGradients kl_divergence_backward(const Tensor& grad, const Tensor& p, const Tensor& q,
                                           const KlDivergenceOptions& options = {});

// log_input: e^x − t·x, else x − t·log(x + eps); full adds t·log t − t + ½·log(2πt) where t > 1
struct PoissonNllOptions {
  bool log_input = true;
  bool full = false;
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllOptions& options = {});
LossGradients poisson_nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                        const PoissonNllOptions& options = {});

// ½·(log v + d²/v), v = max(var, eps); full adds ½·log 2π. Input and target broadcast; var has their shape, with 1
// in place of some sizes or without the last, or is one number; a negative var is an error. Where var < eps its
// gradient is 0.
struct GaussianNllOptions {
  bool full = false;
  double eps = 1e-6;
  Reduction reduction = Reduction::mean;
};
struct GaussianNllGradients {
  Tensor input, target, var;
};
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});
GaussianNllGradients gaussian_nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                const Tensor& var, const GaussianNllOptions& options = {});

}  // namespace ebb
