// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "ebb/autograd.h"

// Losses whose kernel computes value and gradient in one pass. The value is a call without gradients, which may not be
// requested; if the gradient's call is evaluated with it, simplify takes the value from that one.
namespace ebb {

// A kernel that computes losses of x and, given their cotangent, the gradient of Σ cotangent·losses as its second
// output.
struct LossKernel {
  std::function<Tensor(const Tensor& x, const Tensor& cotangent)> call;
  // Cotangents of {x, cotangent} from that of the gradient.
  std::function<std::vector<Tensor>(const Tensor& grad, const std::vector<Tensor>& inputs)> second;

  Tensor losses(const Tensor& x) const;
  Tensor gradient(const Tensor& x, const Tensor& cotangent) const;
};

// The cotangents of the floating inputs through f, computed from f's own operations (differentiable like any).
std::vector<Tensor> pull_through(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const Tensor& grad);

// fast(inputs), with the derivatives of plain(inputs): the same numbers from operations that can be differentiated
// wherever the function can. For gradients that share their costly parts with the value, and are rarely differentiated.
Tensor differentiated_as(const FunctionOfMany& plain, const FunctionOfMany& fast, const std::vector<Tensor>& inputs);

// Cotangents of the inputs of `plain`, computed some other way (undefined unless requested), with the derivatives of
// those through `plain`.
std::vector<Tensor> differentiated_cotangents(const FunctionOfMany& plain, std::vector<Tensor> found,
                                              const std::vector<Tensor>& inputs, const Tensor& grad);

}  // namespace ebb
