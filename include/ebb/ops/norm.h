// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "ebb/tensor.h"

namespace ebb {

// Statistics are f32 for f16 and bf16; weight and bias are optional (Tensor{}) and have normalized_shape, the last
// sizes of x.

// (x − mean) / sqrt(var + eps) · weight + bias, var without correction.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

// x / sqrt(mean(x²) + eps) · weight. eps defaults to the machine epsilon of x's dtype.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

// Norms of [N, C, ...], with optional weight and bias [C].

struct BatchNormOptions {
  bool training = false;  // true: normalize by the batch's own statistics; false: by the running ones
  double momentum = 0.1;  // running = (1 − momentum)·running + momentum·batch
  double eps = 1e-5;
};
struct BatchNormResult {
  Tensor y, running_mean, running_var;  // running statistics after this batch; undefined where none were given
};
// Each channel over the batch and everything after the channels. The running variance is the unbiased one, as in
// PyTorch. Nothing is changed in place: keep the returned statistics.
BatchNormResult batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                           const Tensor& weight = {}, const Tensor& bias = {}, const BatchNormOptions& options = {});

// Groups of channels, and everything after the channels, of each element of the batch.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Each channel of each element of the batch.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

// x / max(‖x‖_p, eps) along an axis.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t axis = 1, double eps = 1e-12);

}  // namespace ebb
