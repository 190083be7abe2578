// SPDX-License-Identifier: MIT
#pragma once
#include "autograd/rules.h"
#include "ops/build.h"

namespace ebb {

// The cotangent of an operation on one tensor as a function of (g, x) or (g, y), computed in f32 or f64.
template <class Derivative>
Tensor one(const char* op, const Tensor& grad, const Tensor& of, Derivative derivative) {
  require_cotangent(op, grad, of.shape());
  const auto [g, x] = widened(grad, of);
  return cotangent(derivative(g, x), of);
}

// Rules that are functions of (g, x) or (g, y), some with one extra argument.
template <Tensor (*backward)(const Tensor&, const Tensor&)>
std::vector<Tensor> of_input(const RuleContext& c) {
  return {backward(c.grad, c.inputs[0])};
}
template <Tensor (*backward)(const Tensor&, const Tensor&)>
std::vector<Tensor> of_output(const RuleContext& c) {
  return {backward(c.grad, c.output)};
}
template <Tensor (*backward)(const Tensor&, const Tensor&, double)>
std::vector<Tensor> of_input(const RuleContext& c) {
  return {backward(c.grad, c.inputs[0], 0)};
}
template <Tensor (*backward)(const Tensor&, const Tensor&, double)>
std::vector<Tensor> of_output(const RuleContext& c) {
  return {backward(c.grad, c.output, 0)};
}
template <Tensor (*backward)(const Tensor&, const Tensor&, TensorOrScalar)>
std::vector<Tensor> of_input(const RuleContext& c) {
  return {backward(c.grad, c.inputs[0], c.inputs[1]), {}};
}
template <Tensor (*backward)(const Tensor&, const Tensor&, int axis)>
std::vector<Tensor> of_output(const RuleContext& c) {
  return {backward(c.grad, c.output, static_cast<int>(c.attrs.i[0]))};
}

}  // namespace ebb
