// SPDX-License-Identifier: MIT
#include "losses/one_pass.h"

#include "autograd/level.h"
#include "graph/node.h"

namespace ebb {

Tensor LossKernel::losses(const Tensor& x) const {
  return custom_function([&](const std::vector<Tensor>& v) { return output_of(call(v[0], {}), 0); },
                         [self = *this](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
                           return std::vector<Tensor>{self.gradient(v[0], grad)};
                         },
                         {x});
}

Tensor LossKernel::gradient(const Tensor& x, const Tensor& cotangent) const {
  return custom_function(
      [&](const std::vector<Tensor>& v) { return output_of(call(v[0], v[1]), 1); },
      [second = second](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) { return second(grad, v); },
      {x, cotangent});
}

std::vector<Tensor> pull_through(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const Tensor& grad) {
  const GradientLevel level;
  const auto is_tracked = [](const Tensor& x) { return x.defined() && is_floating(x.dtype()); };
  std::vector<Tensor> arguments = inputs, tracked;
  Tensor y;
  {
    WithHistory on;
    for (Tensor& x : arguments) {
      if (!is_tracked(x)) continue;
      x = level.track(x);
      tracked.push_back(x);
    }
    y = f(arguments);
  }
  const std::vector<Tensor> found = level.cotangents(y, grad, tracked);
  std::vector<Tensor> cotangents(inputs.size());
  std::size_t next = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (is_tracked(inputs[k])) cotangents[k] = found[next++];
  }
  return cotangents;
}

Tensor differentiated_as(const FunctionOfMany& plain, const FunctionOfMany& fast, const std::vector<Tensor>& inputs) {
  return custom_function(
      fast,
      [plain](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) { return pull_through(plain, v, grad); },
      inputs);
}

std::vector<Tensor> differentiated_cotangents(const FunctionOfMany& plain, std::vector<Tensor> found,
                                              const std::vector<Tensor>& inputs, const Tensor& grad) {
  std::vector<Tensor> all = inputs;
  all.push_back(grad);
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (!found[k].defined()) continue;
    found[k] = differentiated_as(
        [plain, k](const std::vector<Tensor>& at) {
          return pull_through(plain, std::vector<Tensor>(at.begin(), at.end() - 1), at.back())[k];
        },
        [&](const std::vector<Tensor>&) { return found[k]; }, all);
  }
  return found;
}

}  // namespace ebb
