// SPDX-License-Identifier: MIT
#include "ebb/nn/norm.h"

#include "autograd/second_run.h"
#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb::nn {

ChannelNorm::ChannelNorm(const char* name, std::int64_t n, const BatchNormLayerOptions& o)
    : channels(n), eps(o.eps), momentum(o.momentum) {
  require(n >= 0, "{}: the number of channels must not be negative, got {}", name, n);
  require(!o.momentum || (*o.momentum >= 0 && *o.momentum <= 1), "{}: momentum must be in [0, 1], got {}", name,
          o.momentum.value_or(0));
  if (o.affine) weight = variable(ones({n}, o.dtype));
  if (o.affine && o.bias) bias = variable(zeros({n}, o.dtype));
  if (!o.track_running_stats) return;
  running_mean.value = zeros({n}, compute_dtype(o.dtype));
  running_var.value = ones({n}, compute_dtype(o.dtype));
  num_batches_tracked.value = tensor(0);
}

void ChannelNorm::check(const char* name, const Tensor& x) const {
  require(x.rank() >= 2 && x.size(1) == channels, "{}: the input must have shape [batch, {}, ...], got {}", name,
          channels, x.shape());
}

bool ChannelNorm::moves(const Tensor& x) const { return training.on && tracks() && x.numel() > 0 && !in_second_run(); }

void ChannelNorm::check_evaluation(const char* name) const {
  require(!training.on,
          "{}: a const layer cannot update its running statistics; make the model and its call operator non-const, or "
          "end training with set_training(model, false)",
          name);
}

Tensor ChannelNorm::by_running_statistics(const Tensor& x) const {
  return batch_norm(x, running_mean.value, running_var.value, weight, bias, {.eps = eps}).y;
}

double ChannelNorm::next_momentum() const {
  // Unevaluated statistics keep the batch they were computed from alive: at most one batch is kept this way.
  if (!running_mean.value.evaluated()) eval({running_mean.value, running_var.value, num_batches_tracked.value});
  return momentum ? *momentum : 1 / (num_batches_tracked.value.item() + 1);
}

void ChannelNorm::move_statistics(const Tensor& mean, const Tensor& var) {
  running_mean.value = mean;
  running_var.value = var;
  // The host knows the number, or a device counts: reading it there would wait for all earlier work.
  Tensor& count = num_batches_tracked.value;
  count = count.device() == Device{} ? tensor(count.item<std::int64_t>() + 1) : count + 1;
}

BatchNorm::BatchNorm(std::int64_t n, const BatchNormLayerOptions& o) : ChannelNorm("BatchNorm", n, o) {}

Tensor BatchNorm::operator()(const Tensor& x) {
  if (!moves(x)) return std::as_const(*this)(x);
  check("BatchNorm", x);
  const BatchNormOptions options{.training = true, .momentum = next_momentum(), .eps = eps};
  const BatchNormResult r = batch_norm(x, running_mean.value, running_var.value, weight, bias, options);
  move_statistics(r.running_mean, r.running_var);
  return r.y;
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  check("BatchNorm", x);
  if (!tracks() || (training.on && !moves(x)))
    return batch_norm(x, {}, {}, weight, bias, {.training = true, .eps = eps}).y;
  check_evaluation("BatchNorm");
  return by_running_statistics(x);
}

InstanceNorm::InstanceNorm(std::int64_t n, const InstanceNormOptions& o)
    : ChannelNorm("InstanceNorm", n, {o.eps, o.momentum, o.affine, o.bias, o.track_running_stats, o.dtype}) {}

// The norm of a batch of one whose channels are those of all elements; their statistics are then averaged.
Tensor InstanceNorm::operator()(const Tensor& x) {
  if (!moves(x)) return std::as_const(*this)(x);
  check("InstanceNorm", x);
  const std::int64_t batch = x.size(0);
  const auto repeated = [&](const Tensor& v) { return v.defined() ? repeat(v, {batch}) : v; };
  const auto averaged = [&](const Tensor& v) { return mean(reshape(v, {batch, channels}), 0); };
  const BatchNormOptions options{.training = true, .momentum = next_momentum(), .eps = eps};
  const BatchNormResult r = batch_norm(reshape(x, {1, batch * channels, -1}), repeated(running_mean.value),
                                       repeated(running_var.value), repeated(weight), repeated(bias), options);
  move_statistics(averaged(r.running_mean), averaged(r.running_var));
  return reshape(r.y, x.shape());
}

Tensor InstanceNorm::operator()(const Tensor& x) const {
  check("InstanceNorm", x);
  if (!tracks() || (training.on && !moves(x))) return instance_norm(x, weight, bias, eps);
  check_evaluation("InstanceNorm");
  return by_running_statistics(x);
}

GroupNorm::GroupNorm(std::int64_t number, std::int64_t n, const GroupNormOptions& o)
    : groups(number), channels(n), eps(o.eps) {
  require(number > 0 && n >= 0 && n % number == 0, "GroupNorm: {} channels cannot be divided into {} groups", n,
          number);
  if (!o.affine) return;
  weight = variable(ones({n}, o.dtype));
  if (o.bias) bias = variable(zeros({n}, o.dtype));
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  require(x.rank() >= 2 && x.size(1) == channels, "GroupNorm: the input must have shape [batch, {}, ...], got {}",
          channels, x.shape());
  return group_norm(x, groups, weight, bias, eps);
}

}  // namespace ebb::nn
