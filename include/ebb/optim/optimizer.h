// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ebb/nn/parameters.h"

namespace ebb {
inline namespace optim {

// Which parameters weight decay applies to, by name; unset: all, as in torch.optim. `decay_matrices` is the usual
// choice for transformers: not biases, gains and other vectors.
using DecayFilter = std::function<bool(const std::string& name, const Tensor& parameter)>;
bool decay_matrices(const std::string& name, const Tensor& parameter);

// Base class of all optimisers. An optimiser owns state (moments and step counts) by parameter name but no parameters:
// step() gives the model new ones.
//
//   Adam optimizer({.lr = 1e-3});
//   optimizer.step(model, backward(loss));
//
// The update of a parameter is a formula, so parameter, gradient and moments are read once and written once, in one
// sweep. Changing the learning rate does not require a new plan. Parameters of f16 and bf16 are updated in f32 with f32
// moments and rounded once.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Replaces every parameter that has a gradient and evaluates everything now, including the loss and the model's
  // buffers.
  template <class Model>
  void step(Model& model, const Gradients& gradients) {
    step_all(parameters(model), buffers(model), gradients);
  }
  // The same where `good`, a bool of one element, is true; where it is not, nothing changes. Decided on the device,
  // without waiting for it: state and step counts stay there. `also` is evaluated with it. Not for the first step.
  template <class Model>
  void step_where(const Tensor& good, Model& model, const Gradients& gradients, const std::vector<Tensor>& also = {}) {
    step_all(parameters(model), buffers(model), gradients, good, also);
  }
  // Has every parameter that has a gradient been updated before?
  bool has_stepped(const Parameters& parameters, const Gradients& gradients) const;

  // The sweeps that step() would run, as text; nothing changes.
  template <class Model>
  std::string print_step(Model& model, const Gradients& gradients) const {
    return print_all(parameters(model), gradients);
  }

  double lr() const { return lr_; }
  void set_lr(double lr);

  // Does an element's new value depend on nothing but its own value, gradient and state? Then ranks can update parts of
  // a parameter (distributed::ShardedOptimizer). A part has as many axes as the parameter.
  virtual bool elementwise() const { return false; }

  // For saving: "first.weight/exp_avg" and "first.weight/step" (i64) for each updated parameter.
  std::map<std::string, Tensor> state() const;
  void load_state(const std::map<std::string, Tensor>& state);

 protected:
  struct Slots {
    std::int64_t step = 0;        // of this parameter, from 1
    std::vector<Tensor> tensors;  // in the order of the names; undefined before the first step
    Tensor count;                 // f64, instead of `step` where only the device knows how many were taken
  };

  // `slot_names` are PyTorch's names for the state tensors.
  Optimizer(const char* name, double lr, std::vector<const char*> slot_names);
  // The new parameter from the old one and its gradient, both at least f32; slots are replaced.
  virtual Tensor update(const std::string& name, const Tensor& parameter, const Tensor& gradient,
                        Slots& slots) const = 0;

  const char* name_;

 private:
  struct Change;
  void step_all(const Parameters& parameters, const Parameters& buffers, const Gradients& gradients,
                const Tensor& good = {}, const std::vector<Tensor>& also = {});
  std::string print_all(const Parameters& parameters, const Gradients& gradients) const;
  std::vector<Change> changes(const Parameters& parameters, const Gradients& gradients, const Tensor& good = {}) const;

  double lr_ = 0;
  std::vector<const char*> slot_names_;
  std::unordered_map<std::string, Slots> slots_;
};

}  // namespace optim
}  // namespace ebb
