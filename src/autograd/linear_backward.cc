// SPDX-License-Identifier: MIT
#include "autograd/rules.h"
#include "ebb/backward/linear.h"
#include "ebb/ops.h"

namespace ebb {

// The rows of x and grad are flattened: one product per factor.
std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  require(weight.rank() == 2 && x.rank() >= 1 && x.size(-1) == weight.size(1),
          "linear_backward: an input of shape {} and a weight of shape {} do not fit", x.shape(), weight.shape());
  const std::int64_t out = weight.size(0), in = weight.size(1), rows = x.numel() / std::max<std::int64_t>(in, 1);
  require_cotangent("linear_backward", grad, x.shape().with(x.rank() - 1, out));
  const Tensor g = reshape(grad, {rows, out}), flat = reshape(x, {rows, in});
  return {reshape(matmul(g, weight), x.shape()), matmul(t(g), flat), sum(g, 0)};
}

}  // namespace ebb
