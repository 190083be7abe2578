#include "ebb/losses/divergence.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/gradients.h"
#include "losses/reduction.h"
#include "ops/build.h"

namespace ebb {
namespace {

void require_distributions(const char* op, const Tensor& input, const Tensor& target) {
  require_same_shape(op, "input", input, "target", target);
  require(input.rank() > 0, "{}: needs distributions along the last axis, but the input is a scalar", op);
}

// e^l·(l − log m) summed; 0 where e^l is 0, whatever the logarithms are.
Tensor relative_entropy(const Tensor& l, const Tensor& log_m) {
  const Tensor p = exp(l), nothing = p == 0;
  return sum(p * where(nothing, 0, where(nothing, 0, l) - log_m), -1);
}

}  // namespace

Tensor jsd_loss(const Tensor& input, const Tensor& target, const JsdOptions& o) {
  const char* op = "jsd_loss";
  require(o.beta > 0 && o.beta < 1, "{}: beta must be between 0 and 1, got {}", op, o.beta);
  require_distributions(op, input, target);
  const Precision precision(op, {input, target});
  const Tensor log_p = precision.wide(input), log_q = precision.wide(target);
  const Tensor m = o.beta * exp(log_q) + (1 - o.beta) * exp(log_p);
  const Tensor log_m = log(where(m == 0, 1, m));
  const Tensor terms = o.beta * relative_entropy(log_q, log_m) + (1 - o.beta) * relative_entropy(log_p, log_m);
  return precision.rounded(reduce(op, terms, o.reduction, Batchmean::allowed));
}
LossGradients jsd_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const JsdOptions& o) {
  return gradients("jsd_loss", jsd_loss, grad, input, target, o);
}

Tensor tvd_loss(const Tensor& input, const Tensor& target, const TvdOptions& o) {
  const char* op = "tvd_loss";
  require_distributions(op, input, target);
  const Precision p(op, {input, target});
  return p.rounded(reduce(op, 0.5 * sum(abs(p.wide(input) - p.wide(target)), -1), o.reduction, Batchmean::allowed));
}
LossGradients tvd_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const TvdOptions& o) {
  return gradients("tvd_loss", tvd_loss, grad, input, target, o);
}

// 0·log 0 = 0; the input may be 0 only where the target is.
Tensor generalized_kl(const Tensor& input, const Tensor& target, const GeneralizedKlOptions& o) {
  const char* op = "generalized_kl";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor x = check(p.wide(input), input >= 0, "generalized_kl: input must not be negative");
  const Tensor t = check(p.wide(target), target >= 0, "generalized_kl: target must not be negative");
  return p.rounded(reduce(op, xlogy(t, t) - xlogy(t, x) - t + x, o.reduction, Batchmean::allowed));
}
LossGradients generalized_kl_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const GeneralizedKlOptions& o) {
  return gradients("generalized_kl", generalized_kl, grad, input, target, o);
}

}  // namespace ebb
