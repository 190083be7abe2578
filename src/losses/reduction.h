// SPDX-License-Identifier: MIT
#pragma once
#include <initializer_list>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// Shared code of all losses before and after the formula.
namespace ebb {

// The dtype of a loss is the common floating dtype of its predictions and targets; the formula is computed in f32, or
// in f64 if that is the dtype, and rounded once at the end. Undefined tensors are ignored; integers are converted.
class Precision {
 public:
  Precision(const char* op, std::initializer_list<Tensor> operands);  // the first must be floating
  Tensor wide(const Tensor& x) const;
  Tensor rounded(const Tensor& loss) const;
  DType compute() const { return compute_; }
  DType result() const { return result_; }

 private:
  DType result_, compute_;
};

// Sum, mean or none. The mean over no elements is NaN, the sum 0. batchmean only where the loss has it.
enum class Batchmean { refused, allowed };
Tensor reduce(const char* op, const Tensor& terms, Reduction reduction, Batchmean batchmean = Batchmean::refused);

// The same for terms multiplied by weights whose sum is `total`: the mean is Σ terms / total.
Tensor reduce_weighted(const char* op, const Tensor& terms, const Tensor& total, Reduction reduction);

void require_same_shape(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);
// Broadcasts a weight, which may have fewer or smaller axes than the input, to its shape.
Tensor broadcast_weight(const char* op, const char* name, const Tensor& weight, const Shape& shape);

// The cotangents of `inputs` when the loss has cotangent `grad`, by the rules the backward pass uses; undefined for
// inputs that are undefined or not floating.
std::vector<Tensor> pull_back(const char* op, const Tensor& grad, const std::vector<Tensor>& inputs,
                              const FunctionOfMany& loss);

}  // namespace ebb
