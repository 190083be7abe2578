// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"

// More regression losses; d = input − target.
namespace ebb {

// The mean is smallest where a share `quantile` of the targets lies below the input.
//   max(q·(−d), (q − 1)·(−d))
struct PinballOptions {
  double quantile = 0.5;
  Reduction reduction = Reduction::mean;
};
Tensor pinball_loss(const Tensor& input, const Tensor& target, const PinballOptions& options = {});
LossGradients pinball_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const PinballOptions& options = {});

// log cosh d: d²/2 near 0, |d| − log 2 far away, smooth everywhere
struct LogCoshOptions {
  Reduction reduction = Reduction::mean;
};
Tensor log_cosh_loss(const Tensor& input, const Tensor& target, const LogCoshOptions& options = {});
LossGradients log_cosh_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                     const LogCoshOptions& options = {});

// |d| < width: width·log(1 + |d|/curvature), else |d| − (width − width·log(1 + width/curvature)). For landmark
// localisation: small errors count more than in l1.
struct WingOptions {
  double width = 10;
  double curvature = 2;
  Reduction reduction = Reduction::mean;
};
Tensor wing_loss(const Tensor& input, const Tensor& target, const WingOptions& options = {});
LossGradients wing_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                 const WingOptions& options = {});

}  // namespace ebb
