// SPDX-License-Identifier: MIT
#pragma once
#include <initializer_list>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// The work of every loss before and after its formula.
namespace ebb {

// The dtype of a loss is the common floating dtype of its predictions and targets; the formula is computed in f32, or
// in f64 where that is the dtype, and rounded once at the end. Undefined tensors are passed over, integers follow.
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

// Σ, mean or nothing. Mean of nothing is NaN, sum of nothing 0. batchmean only where the loss has it.
enum class Batchmean { refused, allowed };
Tensor reduce(const char* op, const Tensor& terms, Reduction reduction, Batchmean batchmean = Batchmean::refused);

// The same for terms that were multiplied by weights whose sum is `total`: the mean is Σ terms / total.
Tensor reduce_weighted(const char* op, const Tensor& terms, const Tensor& total, Reduction reduction);

void require_same_shape(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);
// A weight that may have fewer or smaller axes than the input, repeated to its shape.
Tensor broadcast_weight(const char* op, const char* name, const Tensor& weight, const Shape& shape);

// The cotangents of `inputs` when the loss has cotangent `grad`, by the rules the backward pass uses; undefined for
// inputs that are undefined or not floating.
std::vector<Tensor> pull_back(const char* op, const Tensor& grad, const std::vector<Tensor>& inputs,
                              const FunctionOfMany& loss);

}  // namespace ebb
