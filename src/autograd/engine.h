// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "graph/node.h"

namespace ebb {

// The reverse pass: cotangents of `targets` (nodes, not necessarily variables) from cotangents of `outputs`. Only nodes
// whose history has a bit of `bits` are followed. Undefined where an output does not depend on a target.
struct ReversePass {
  std::vector<Tensor> outputs, cotangents;
  std::vector<Tensor> targets;  // empty: all variables found
  std::uint32_t bits = 1;
  bool consume = false;  // forget the traversed history
};
// Moves a gradient to its tensor's device, even if it is made of numbers alone, which belong to no device.
Tensor beside(const Tensor& gradient, const Tensor& x);

std::vector<Tensor> reverse(const ReversePass& pass, std::vector<Tensor>* found_variables = nullptr);

}  // namespace ebb
