// SPDX-License-Identifier: MIT
#include "losses/reduction.h"

#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb {

Precision::Precision(const char* op, std::initializer_list<Tensor> operands) {
  const Tensor& first = *operands.begin();
  require(first.defined(), "{}: an operand is an empty Tensor; give it a value", op);
  require(is_floating(first.dtype()), Error::Kind::type, "{}: the prediction has dtype {}; cast it to a floating dtype",
          op, first.dtype());
  result_ = first.dtype();
  for (const Tensor& t : operands) {
    if (t.defined() && is_floating(t.dtype())) result_ = promote(result_, t.dtype());
  }
  compute_ = compute_dtype(result_);
}

Tensor Precision::wide(const Tensor& x) const { return x.dtype() == compute_ ? x : cast(x, compute_); }
Tensor Precision::rounded(const Tensor& loss) const { return loss.dtype() == result_ ? loss : cast(loss, result_); }

Tensor reduce(const char* op, const Tensor& terms, Reduction reduction, Batchmean batchmean) {
  switch (reduction) {
    case Reduction::none:
      return terms;
    case Reduction::mean:
      return mean(terms);
    case Reduction::sum:
      return sum(terms);
    case Reduction::batchmean:
      require(batchmean == Batchmean::allowed, "{}: it has no batchmean; use none, mean or sum", op);
      require(terms.rank() > 0, "{}: batchmean needs a batch axis, but the input is a scalar", op);
      return sum(terms) / static_cast<double>(terms.size(0));
  }
  fail(Error::Kind::value, "{}: unknown reduction", op);
}

Tensor reduce_weighted(const char* op, const Tensor& terms, const Tensor& total, Reduction reduction) {
  return reduction == Reduction::mean ? sum(terms) / total : reduce(op, terms, reduction);
}

void require_same_shape(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b) {
  require(a.defined() && b.defined(), "{}: an operand is an empty Tensor; give it a value", op);
  require(a.shape() == b.shape(), "{}: {} of shape {} and {} of shape {} must have the same shape", op, first,
          a.shape(), second, b.shape());
}

Tensor broadcast_weight(const char* op, const char* name, const Tensor& weight, const Shape& shape) {
  bool fits = weight.rank() <= shape.rank();
  for (int k = 1; fits && k <= weight.rank(); ++k) {
    const std::int64_t n = weight.shape()[weight.rank() - k];
    fits = n == 1 || n == shape[shape.rank() - k];
  }
  require(fits, "{}: {} of shape {} does not broadcast to the input's shape {}", op, name, weight.shape(), shape);
  return broadcast_to(weight, shape);
}

std::vector<Tensor> pull_back(const char* op, const Tensor& grad, const std::vector<Tensor>& inputs,
                              const FunctionOfMany& loss) {
  std::vector<Tensor> differentiable, result(inputs.size());
  for (const Tensor& x : inputs) {
    if (x.defined() && is_floating(x.dtype())) differentiable.push_back(x);
  }
  auto with = [&inputs](const std::vector<Tensor>& some) {
    std::vector<Tensor> all = inputs;
    std::size_t next = 0;
    for (Tensor& x : all) {
      if (x.defined() && is_floating(x.dtype())) x = some[next++];
    }
    return all;
  };
  // The gradient of Σ grad·loss: with a cotangent of one it is the loss's own.
  const std::vector<Tensor> cotangents = ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& some) {
    const Tensor value = loss(with(some));
    require(grad.shape() == value.shape(), "{}_backward: the gradient has shape {}, the loss {}", op, grad.shape(),
            value.shape());
    return sum(value * cast(grad, value.dtype()));
  }))(differentiable);
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && is_floating(inputs[i].dtype())) result[i] = cotangents[next++];
  }
  return result;
}

}  // namespace ebb
