// SPDX-License-Identifier: MIT
#include "ebb/second_order.h"

#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb {

Tensor diagonal_hessian(const Function& f, const Tensor& x, int samples) {
  require(samples >= 0, "diagonal_hessian: the number of samples must not be negative, got {}", samples);
  if (samples == 0) {
    const std::int64_t n = x.numel();
    std::vector<Tensor> elements;
    for (std::int64_t i = 0; i < n; ++i) {
      const Tensor unit = reshape(cast(arange(n) == i, x.dtype()), x.shape());
      elements.push_back(sum(hvp(f, x, unit) * unit).eval());
    }
    return n == 0 ? zeros_like(x) : reshape(stack(elements), x.shape());
  }
  Tensor total = zeros_like(x);
  for (int k = 0; k < samples; ++k) {
    const Tensor signs = 2.0 * bernoulli(x.shape(), 0.5, x.dtype()) - 1.0;
    total = (total + signs * hvp(f, x, signs)).eval();
  }
  return total / static_cast<double>(samples);
}

Tensor fisher_diagonal(const Function& f, const Tensor& x) {
  const Tensor j = jacobian(f, x);
  require(j.rank() == x.rank() + 1,
          "fisher_diagonal: f must return a vector, one number per sample; its Jacobian has shape {} for x of shape {}",
          j.shape(), x.shape());
  return mean(square(j), 0);
}

Tensor gauss_newton_product(const Function& model, const Function& loss, const Tensor& x, const Tensor& v) {
  const auto [outputs, moved] = jvp(model, x, v);
  const Tensor curved = hvp(loss, outputs, moved);
  return vjp(model, x).second(curved);
}

}  // namespace ebb
