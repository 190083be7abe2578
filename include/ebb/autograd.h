// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// ---- variables and their gradients ----------------------------------------------------------------------------------

// A value to differentiate with respect to. It starts a new history: nothing before it is differentiated.
Tensor variable(const Tensor& x);

// The same value, treated as a constant by differentiation.
Tensor stop_gradient(const Tensor& x);

// The gradients of one backward pass, as a value: the variables themselves do not change.
class Gradients {
 public:
  // The gradient of the loss with respect to this variable; zeros where the loss does not depend on it. A variable made
  // after these gradients, as an optimiser's step makes them, is an error.
  Tensor operator[](const Tensor& variable) const;
  bool contains(const Tensor& variable) const;  // does the loss depend on it?
  const std::vector<std::pair<Tensor, Tensor>>& all() const { return entries_; }  // (variable, gradient)

  explicit Gradients(std::vector<std::pair<Tensor, Tensor>> entries);

 private:
  std::vector<std::pair<Tensor, Tensor>> entries_;
  std::uint64_t made_;  // among the ids of nodes: variables from this one on are younger
};

struct BackwardOptions {
  bool keep_history = false;  // true: backward may be called again through the same values
  bool create_graph = false;  // true: the gradients can themselves be differentiated (implies keep_history)
  Tensor grad = {};           // the cotangent of the output; may be left out for a one-element loss
};
// Differentiates with respect to every variable the loss depends on. By default the history is consumed: activations are
// freed while the backward pass is computed.
Gradients backward(const Tensor& loss, const BackwardOptions& options = {});

// ---- functions of functions -----------------------------------------------------------------------------------------
// They nest to any depth (up to 30 transforms inside one another).

using Function = std::function<Tensor(const Tensor&)>;
using FunctionOfMany = std::function<Tensor(const std::vector<Tensor>&)>;

// x -> df/dx, for f with one element in its result.
Function grad(const Function& f);
std::function<std::vector<Tensor>(const std::vector<Tensor>&)> grad(const FunctionOfMany& f);

// x -> (f(x), df/dx); both come out of the same sweeps.
std::function<std::pair<Tensor, Tensor>(const Tensor&)> value_and_grad(const Function& f);
std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> value_and_grad(const FunctionOfMany& f);

// (f(x), pull) where pull(g) = gᵀ·J.
std::pair<Tensor, Function> vjp(const Function& f, const Tensor& x);
// (f(x), J·v).
std::pair<Tensor, Tensor> jvp(const Function& f, const Tensor& x, const Tensor& v);
// dy/dx in the shape y.shape + x.shape.
Tensor jacobian(const Function& f, const Tensor& x);
// H·v and H, for f with one element in its result; H in the shape x.shape + x.shape.
Tensor hvp(const Function& f, const Tensor& x, const Tensor& v);
Tensor hessian(const Function& f, const Tensor& x);

// ---- checkpointing --------------------------------------------------------------------------------------------------

// f(x), storing only its inputs: intermediate values are freed and recomputed in the backward pass, with the same
// random numbers. Gradients are bit-identical to those of the plain call; variables that f captures get gradients too.
Tensor checkpoint(const Function& f, const Tensor& x);
Tensor checkpoint(const FunctionOfMany& f, const std::vector<Tensor>& inputs);
// Runs layers in `segments` checkpointed segments; about sqrt(number of layers) segments keep the fewest activations.
Tensor checkpoint_sequential(const std::vector<Function>& layers, int segments, const Tensor& x);

// ---- functions with a custom rule -----------------------------------------------------------------------------------

// The cotangents of the inputs, one per input (undefined for none), from the cotangent of the output.
using CustomRule =
    std::function<std::vector<Tensor>(const Tensor& grad, const Tensor& output, const std::vector<Tensor>& inputs)>;
// forward(inputs), differentiated with `rule` instead of through its operations.
Tensor custom_function(const FunctionOfMany& forward, const CustomRule& rule, const std::vector<Tensor>& inputs);

}  // namespace ebb
