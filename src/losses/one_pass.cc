#include "losses/one_pass.h"

#include "autograd/engine.h"
#include "graph/history.h"
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
  struct Level {
    int depth = open_transform();
    ~Level() { close_transform(); }
  } level;
  ReversePass pass;
  pass.bits = 1u << level.depth;
  std::vector<Tensor> tracked;
  {
    WithHistory on;
    for (const Tensor& x : inputs) {
      tracked.push_back(x);
      if (!x.defined() || !is_floating(x.dtype())) continue;
      Tensor t = make_node(Op::track, x.dtype(), x.shape(), {x});
      t.node()->history = x.node()->history | pass.bits;
      tracked.back() = t;
      pass.targets.push_back(t);
    }
    pass.outputs = {f(tracked)};
  }
  pass.cotangents = {grad};
  const std::vector<Tensor> found = reverse(pass);
  std::vector<Tensor> cotangents(inputs.size());
  std::size_t next = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].defined() && is_floating(inputs[k].dtype())) cotangents[k] = found[next++];
  }
  return cotangents;
}

Tensor differentiated_as(const FunctionOfMany& plain, const FunctionOfMany& fast, const std::vector<Tensor>& inputs) {
  return custom_function(
      fast,
      [plain](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) { return pull_through(plain, v, grad); },
      inputs);
}

}  // namespace ebb
