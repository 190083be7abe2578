// SPDX-License-Identifier: MIT
#include "ebb/losses/divergence.h"

#include <cmath>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "losses/one_pass.h"
#include "losses/reduction.h"
#include "ops/build.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

void require_distributions(const char* op, const Tensor& input, const Tensor& target) {
  require_same_shape(op, "input", input, "target", target);
  require(input.rank() > 0, "{}: needs distributions along the last axis, but the input is a scalar", op);
}

// With p = (1 − β)·e^lp, q = β·e^lq and m = p + q the divergence is Σ p·(lp − log m) + q·(lq − log m), and what its
// terms give by way of m cancels: the derivatives are the terms,
//   d/dlp = p·(lp − log m)        d/dlq = q·(lq − log m)
// Each is 0 where its exponential is, whatever the logarithms are.
struct JsdTerms {
  Tensor p, q;
};
JsdTerms jsd_terms(const Tensor& log_p, const Tensor& log_q, double beta) {
  const Tensor p = (1 - beta) * exp(log_p), q = beta * exp(log_q), log_m = log(p + q);
  return {p * where(p == 0, 0, log_p - log_m), q * where(q == 0, 0, log_q - log_m)};
}
// The same, with poles removed before the selection.
JsdTerms smooth_jsd_terms(const Tensor& log_p, const Tensor& log_q, double beta) {
  const Tensor p = (1 - beta) * exp(log_p), q = beta * exp(log_q), m = p + q, log_m = log(where(m == 0, 1, m));
  return {p * where(p == 0, 0, where(p == 0, 0, log_p) - log_m), q * where(q == 0, 0, where(q == 0, 0, log_q) - log_m)};
}

}  // namespace

Tensor jsd_loss(const Tensor& input, const Tensor& target, const JsdOptions& o) {
  const char* op = "jsd_loss";
  require(o.beta > 0 && o.beta < 1, "{}: beta must be between 0 and 1, got {}", op, o.beta);
  require_distributions(op, input, target);
  const Precision precision(op, {input, target});
  const Tensor terms = custom_function(
      [beta = o.beta](const Tensors& v) {
        const JsdTerms t = jsd_terms(v[0], v[1], beta);
        return t.p + t.q;
      },
      [beta = o.beta](const Tensor& grad, const Tensor&, const Tensors& v) {
        auto slope = [&](Tensor JsdTerms::*which) {
          return differentiated_as([=](const Tensors& v) { return smooth_jsd_terms(v[0], v[1], beta).*which; },
                                   [=](const Tensors& v) { return jsd_terms(v[0], v[1], beta).*which; }, v);
        };
        return Tensors{grad * slope(&JsdTerms::p), grad * slope(&JsdTerms::q)};
      },
      {precision.wide(input), precision.wide(target)});
  return precision.rounded(reduce(op, sum(terms, -1), o.reduction, Batchmean::allowed));
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

namespace {

// t/x, and 0 where t is 0, whatever x is.
Tensor ratio_of(const Tensor& x, const Tensor& t) {
  return differentiated_as([](const Tensors& v) { return v[1] / where(logical_and(v[0] == 0, v[1] == 0), 1, v[0]); },
                           [](const Tensors& v) { return v[1] / where(v[1] == 0, 1, v[0]); }, {x, t});
}

// log(t/x), kept finite where only the quotient overflows: the factors 2^±k bring any two numbers together. A ratio
// below 1e-30 adds nothing visible to x, so its logarithm may stop there.
Tensor log_ratio_of(const Tensor& x, const Tensor& t) {
  const double k = x.dtype() == DType::f64 ? 540 : 80;
  const Tensor ratio = ratio_of(x, t), beyond = logical_and(isinf(ratio), isfinite(t));
  const Tensor nearer = (t * std::exp2(-k)) / (x * std::exp2(k));
  return log(where(beyond, nearer, maximum(ratio, 1e-30))) +
         where(beyond, 2 * k * std::numbers::ln2, zeros_like(ratio));
}

}  // namespace

// t·log(t/x) − t + x          dx = 1 − t/x        dt = log(t/x)
// 0·log 0 = 0; the input may be 0 only where the target is. Where t/x overflows, so does the gradient.
Tensor generalized_kl(const Tensor& input, const Tensor& target, const GeneralizedKlOptions& o) {
  const char* op = "generalized_kl";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor x = check(p.wide(input), input >= 0, "generalized_kl: input must not be negative");
  const Tensor t = check(p.wide(target), target >= 0, "generalized_kl: target must not be negative");
  const Tensor terms =
      custom_function([](const Tensors& v) { return fma(v[1], log_ratio_of(v[0], v[1]), v[0] - v[1]); },
                      [](const Tensor& grad, const Tensor&, const Tensors& v) {
                        const Tensor none = v[1] == 0, x = where(v[0] == 0, 1, v[0]);
                        return Tensors{grad * (1 - ratio_of(v[0], v[1])),
                                       grad * where(none, -1 - log(x), log(where(none, 1, v[1])) - log(v[0]))};
                      },
                      {x, t});
  return p.rounded(reduce(op, terms, o.reduction, Batchmean::allowed));
}
LossGradients generalized_kl_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const GeneralizedKlOptions& o) {
  return gradients("generalized_kl", generalized_kl, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, JsdOptions& o) {
  v("beta", o.beta, "the share of the target in the mixture");
  v("reduction", o.reduction, kWithBatchmean);
}

template <class V>
void each_option(V& v, TvdOptions& o) {
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, GeneralizedKlOptions& o) {
  v("reduction", o.reduction);
}

std::vector<LossInfo> divergence_entries() {
  return {
      describe("jsd_loss", "divergence", "β·KL(q‖m) + (1 − β)·KL(p‖m);  m = β·q + (1 − β)·p, of log-probabilities",
               {{"input"}, {"target"}}, jsd_loss),
      describe("tvd_loss", "divergence", "½·Σ |p − q|", {{"input"}, {"target"}}, tvd_loss),
      describe("generalized_kl", "divergence", "t·log(t/x) − t + x", {{"input"}, {"target"}}, generalized_kl),
  };
}

}  // namespace ebb
