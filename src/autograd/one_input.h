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

}  // namespace ebb
