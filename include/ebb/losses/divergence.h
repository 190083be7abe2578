// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// Divergences of distributions along the last axis: one term per distribution (jsd, tvd), or one per element.
namespace ebb {

// β·KL(q ‖ m) + (1 − β)·KL(p ‖ m),  m = β·q + (1 − β)·p, of log-probabilities: input = log p, target = log q
struct JsdOptions {
  double beta = 0.5;
  Reduction reduction = Reduction::mean;  // batchmean divides by the size of the first axis
};
Tensor jsd_loss(const Tensor& input, const Tensor& target, const JsdOptions& options = {});
LossGradients jsd_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const JsdOptions& options = {});

// ½·Σ |p − q|, of probabilities
struct TvdOptions {
  Reduction reduction = Reduction::mean;
};
Tensor tvd_loss(const Tensor& input, const Tensor& target, const TvdOptions& options = {});
LossGradients tvd_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const TvdOptions& options = {});

// t·log(t/x) − t + x for every element of positive measures that need not sum to one
struct GeneralizedKlOptions {
  Reduction reduction = Reduction::mean;
};
Tensor generalized_kl(const Tensor& input, const Tensor& target, const GeneralizedKlOptions& options = {});
LossGradients generalized_kl_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const GeneralizedKlOptions& options = {});

}  // namespace ebb
