#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/tensor.h"

namespace ebb {

// ---- functions that are built once ----------------------------------------------------------------------------------
// A function of tensors builds its graph anew in every call; Ebb recognises the graph and computes it by the plan it
// made the first time. For small tensors the building takes longer than the computing. compile(f) calls f once for
// inputs of given shapes, dtypes and strides, and from then on only computes: same operations, same bits.
//
// f must be a function of its inputs: what it captures (tensors, numbers, options) stays as it was when f was called.
// Variables may not be captured (they change from step to step), and f may not look at the numbers of what it computes.
// Random numbers are drawn anew by every call, the same ones f itself would draw.
//
// The results are computed when the call returns and have no history. Where somebody may differentiate the call (an
// input is a variable, or the call is inside grad), f itself is called; put the gradient inside instead:
//
//     auto step = compile(value_and_grad([&](const Tensor& w) { return mse_loss(matmul(x, w), y); }));
//     auto [loss, g] = step(w);

using FunctionToMany = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

FunctionToMany compile(const FunctionToMany& f);
FunctionOfMany compile(const FunctionOfMany& f);
Function compile(const Function& f);
// What value_and_grad gives.
std::function<std::pair<Tensor, Tensor>(const Tensor&)> compile(
    const std::function<std::pair<Tensor, Tensor>(const Tensor&)>& f);
std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> compile(
    const std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)>& f);

}  // namespace ebb
