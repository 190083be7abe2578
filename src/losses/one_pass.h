#pragma once
#include <functional>
#include <vector>

#include "ebb/autograd.h"
#include "graph/node.h"

// Losses whose kernel makes value and gradient in one pass. The value is built without gradients, since nobody may ask
// for them; when a backward pass does, the gradient's call takes the value over.
namespace ebb {

// Where `output`, a node made by custom_function, is not computed yet, and `value` does not need it: from now on it is
// computed as `value`. Both must be the same numbers.
void compute_as(const Tensor& output, const Tensor& value);

// The cotangents of the floating inputs through f, made of f's own operations (differentiable like any).
std::vector<Tensor> pull_through(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const Tensor& grad);

// fast(inputs), with the derivatives of plain(inputs): the same numbers, made of operations that can be differentiated
// wherever the function can. For gradients that share their costly parts with the value, and are rarely differentiated.
Tensor differentiated_as(const FunctionOfMany& plain, const FunctionOfMany& fast, const std::vector<Tensor>& inputs);

}  // namespace ebb
