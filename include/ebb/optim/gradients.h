// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ebb/nn/parameters.h"

// Functions of gradients between backward() and a step, and of weights after it. Gradients are values: each function
// returns new ones.
namespace ebb {
inline namespace optim {

Gradients scale_gradients(const Gradients& gradients, double factor);

// The norm of all gradients together, as a tensor of one element (f32, or f64 where a gradient is).
Tensor global_norm(const Gradients& gradients, double p = 2);

// The gradients times min(1, max_norm / (norm + 1e-6)), and the norm before clipping (torch.nn.utils.clip_grad_norm_).
struct ClippedGradients {
  Gradients gradients;
  Tensor norm;
};
ClippedGradients clip_by_norm(const Gradients& gradients, double max_norm, double p = 2);

// Every element clamped to [−limit, limit].
Gradients clip_by_value(const Gradients& gradients, double limit);

// Sums the gradients of several small batches, as if they were one: f16 and bf16 are summed in f32. Each add() is
// evaluated immediately, so that its activations are freed before the next batch. The parameters do not change
// meanwhile.
class GradientAccumulator {
 public:
  void add(const Gradients& gradients);
  int count() const { return count_; }
  Gradients take_sum();   // and start over
  Gradients take_mean();  // for losses that are means over their batch

 private:
  std::vector<std::pair<Tensor, Tensor>> sums_;
  int count_ = 0;
};

// An average of the weights over the steps, ema ← decay·ema + (1 − decay)·p; the first update copies.
class WeightEma {
 public:
  explicit WeightEma(double decay = 0.999);
  template <class Model>
  void update(Model& model) {
    update_all(parameters(model));
  }
  // The model with the averaged weights; other members are copied.
  template <class Model>
  Model averaged(const Model& model) const {
    Model copy = model;
    assign(parameters(copy));
    return copy;
  }
  const std::map<std::string, Tensor>& state() const { return average_; }
  void load_state(std::map<std::string, Tensor> state) { average_ = std::move(state); }

 private:
  void update_all(const Parameters& parameters);
  void assign(const Parameters& parameters) const;
  double decay_;
  std::map<std::string, Tensor> average_;
};

}  // namespace optim
}  // namespace ebb
