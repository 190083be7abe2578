// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "ebb/nn/parameters.h"

// Norms of [batch, channels, ...]: vectors, sequences and images.
namespace ebb::nn {

struct BatchNormLayerOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // unset: the running statistics are the averages of all batches so far
  bool affine = true;                    // learn a weight (initially ones) and
  bool bias = true;                      // a bias (initially zeros)
  bool track_running_stats = true;       // false: always use the statistics of the input
  DType dtype = DType::f32;
};

// The common part of BatchNorm and InstanceNorm. For f16 and bf16, statistics are kept in f32.
struct ChannelNorm {
  std::int64_t channels;
  double eps;
  std::optional<double> momentum;
  Tensor weight, bias;                                    // [channels], or undefined
  Buffer running_mean, running_var, num_batches_tracked;  // [channels], [channels], i64; or undefined
  Training training;
  ChannelNorm(const char* name, std::int64_t channels, const BatchNormLayerOptions& options);
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
    v("running_mean", running_mean);
    v("running_var", running_var);
    v("num_batches_tracked", num_batches_tracked);
    v("training", training);
  }

 protected:
  void check(const char* name, const Tensor& x) const;
  bool tracks() const { return running_mean.value.defined(); }
  bool moves(const Tensor& x) const;  // does a call with x change the statistics?
  Tensor by_running_statistics(const Tensor& x) const;
  void check_evaluation(const char* name) const;
  double next_momentum() const;  // the weight of the next batch's statistics
  void move_statistics(const Tensor& mean, const Tensor& var);
};

// torch.nn.BatchNorm1d and 2d: each channel over the batch. In training, a call updates the running statistics, so the
// call operator of a model with this layer is not const; in evaluation the statistics are used and nothing changes. An
// optimiser's step computes the statistics together with the rest; without one they are computed by the next call.
// Recomputation by a checkpoint does not update them.
struct BatchNorm : ChannelNorm {
  explicit BatchNorm(std::int64_t channels, const BatchNormLayerOptions& options = {});
  Tensor operator()(const Tensor& x);
  Tensor operator()(const Tensor& x) const;  // an Error if it would have to update the statistics
};

// torch.nn.InstanceNorm1d and 2d: each channel of each element of the batch. The same options with other defaults;
// running statistics are averages over the elements.
struct InstanceNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool bias = true;  // with affine
  bool track_running_stats = false;
  DType dtype = DType::f32;
};
struct InstanceNorm : ChannelNorm {
  explicit InstanceNorm(std::int64_t channels, const InstanceNormOptions& options = {});
  Tensor operator()(const Tensor& x);
  Tensor operator()(const Tensor& x) const;
};

// Groups of channels of each element of the batch.
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;  // with affine
  DType dtype = DType::f32;
};
struct GroupNorm {
  std::int64_t groups, channels;
  double eps;
  Tensor weight, bias;
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options = {});
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

}  // namespace ebb::nn
