// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/tensor.h"

namespace ebb {

// ---- functions that are built once ----------------------------------------------------------------------------------
// A function of tensors builds its graph in every call; Ebb recognises the graph and reuses the plan it made the first
// time. For small tensors building takes longer than computing. compile(f) calls f once for inputs of given shapes,
// dtypes and strides, and from then on only computes: same operations, bit-identical results.
//
// f must be a function of its inputs: what it captures (tensors, numbers, options) stays as it was when f was called.
// Variables must not be captured (they change from step to step), and f must not read the values it computes. Random
// numbers are drawn afresh in every call, the same ones f itself would draw.
//
// The results are already evaluated when the call returns and have no history. Where the call may be differentiated (an
// input is a variable, or the call is inside grad), f itself is called; compile the gradient instead:
//
//     auto step = compile(value_and_grad([&](const Tensor& w) { return mse_loss(matmul(x, w), y); }));
//     auto [loss, g] = step(w);

using FunctionToMany = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

FunctionToMany compile(const FunctionToMany& f);
FunctionOfMany compile(const FunctionOfMany& f);
Function compile(const Function& f);
// For the result of value_and_grad.
std::function<std::pair<Tensor, Tensor>(const Tensor&)> compile(
    const std::function<std::pair<Tensor, Tensor>(const Tensor&)>& f);
std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> compile(
    const std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)>& f);

}  // namespace ebb
