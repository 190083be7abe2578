// SPDX-License-Identifier: MIT
#include "worker/cases.h"

// The cost of differentiation itself: a node, second derivatives, recomputation.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;

constexpr int kChain = 200, kLayers = 16;

Case autograd(const char* name, std::function<Inputs(Size)> inputs) {
  Case c;
  c.suite = "autograd";
  c.name = name;
  c.inputs = std::move(inputs);
  c.gradients_only = c.f32_only = true;
  c.sizes = {Size::large};
  return c;
}

// 200 multiplications and 200 additions one after the other, so few numbers that only the nodes cost
Tensor chain(const Tensors& in) {
  Tensor x = in[0];
  for (int k = 0; k < kChain; ++k) x = x * in[1] + in[2];
  return sum(x);
}

Tensor smooth(const Tensor& x) { return sum(softplus(x) * sin(x)); }
Tensor energy(const Tensor& a, const Tensor& x) { return logsumexp(matmul(a, x)) + sum(pow(x, 4.0)); }

Tensor layers(const Tensors& in, bool checkpointed) {
  std::vector<Function> all;
  for (int k = 0; k < kLayers; ++k) {
    all.push_back([w = in[1][k]](const Tensor& x) { return gelu(matmul(x, w)); });
  }
  if (checkpointed) return mean(square(checkpoint_sequential(all, 4, in[0])));
  Tensor x = in[0];
  for (const Function& layer : all) x = layer(x);
  return mean(square(x));
}
Inputs network(Size s) {
  const std::int64_t rows = s == Size::tiny ? 3 : 4096, width = s == Size::tiny ? 4 : 128;
  return {{"x", Kind::normal, {rows, width}, true}, {"w", Kind::weights, {kLayers, width, width}, true}};
}

}  // namespace

std::vector<Case> autograd_cases() {
  Case nodes = autograd("chain of 400 nodes", [](Size) {
    return Inputs{{"x", Kind::normal, {16}, true}, {"m", Kind::uniform, {16}, true}, {"a", Kind::normal, {16}, true}};
  });
  nodes.loss = chain;
  nodes.nodes = 2 * kChain;

  Case product = autograd("hvp", [](Size s) {
    const Shape n{s == Size::tiny ? 11 : 1 << 20};
    return Inputs{{"x", Kind::normal, n}, {"v", Kind::normal, n}};
  });
  product.compute = [](const Tensors& in) { return Tensors{hvp(smooth, in[0], in[1])}; };

  Case full = autograd("hessian", [](Size s) {
    const std::int64_t n = s == Size::tiny ? 5 : 64;
    return Inputs{{"a", Kind::normal, {2 * n, n}}, {"x", Kind::normal, {n}}};
  });
  full.compute = [](const Tensors& in) {
    return Tensors{hessian([&](const Tensor& x) { return energy(in[0], x); }, in[1])};
  };

  Case plain = autograd("16 layers", network);
  plain.loss = [](const Tensors& in) { return layers(in, false); };
  Case checkpointed = autograd("16 layers checkpointed", network);
  checkpointed.loss = [](const Tensors& in) { return layers(in, true); };
  return {nodes, product, full, plain, checkpointed};
}

}  // namespace bench
