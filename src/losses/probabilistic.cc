// SPDX-License-Identifier: MIT
#include "ebb/losses/probabilistic.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "ops/build.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// t·(log t − x), 0 where t = 0         dx = −t        dt = log t + 1 − x: −inf at t = 0, but 0 where x = −inf agrees
Tensor divergence_terms(const Tensor& x, const Tensor& t) {
  return custom_function([](const Tensors& v) { return where(v[1] == 0, 0, v[1] * (log(v[1]) - v[0])); },
                         [](const Tensor& grad, const Tensor&, const Tensors& v) {
                           const Tensor agree = logical_and(v[1] == 0, v[0] == kMinusInfinity);
                           return Tensors{-grad * v[1], where(agree, 0, grad * ((log(v[1]) - v[0]) + 1))};
                         },
                         {x, t});
}

// e^t·(t − x), 0 where t = −inf        dx = −e^t      dt = e^t·(t − x + 1)
Tensor log_divergence_terms(const Tensor& x, const Tensor& t) {
  return custom_function(
      [](const Tensors& v) { return where(v[1] == kMinusInfinity, 0, exp(v[1]) * (v[1] - v[0])); },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        const Tensor e = exp(v[1]);
        return Tensors{-grad * e, where(v[1] == kMinusInfinity, 0, grad * (e * ((v[1] - v[0]) + 1)))};
      },
      {x, t});
}

// e^x − t·x; no count and a rate of 0 (x = −inf) cost 0         dx = e^x − t      dt = −x
Tensor rate_terms(const Tensor& x, const Tensor& t) {
  return custom_function([](const Tensors& v) { return exp(v[0]) - where(v[1] == 0, 0, v[1] * v[0]); },
                         [](const Tensor& grad, const Tensor&, const Tensors& v) {
                           return Tensors{grad * (exp(v[0]) - v[1]), -grad * v[0]};
                         },
                         {x, t});
}

}  // namespace

// Kullback-Leibler divergence of the target from a prediction given as log-probabilities.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& o) {
  const char* op = "kl_div";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor x = p.wide(input), t = p.wide(target);
  const Tensor terms = o.log_target ? log_divergence_terms(x, t) : divergence_terms(x, t);
  return p.rounded(reduce(op, terms, o.reduction, Batchmean::allowed));
}

// Σ p·log(p/q), 0 where p = 0          dp = log(p/q) + 1        dq = −p/q
Tensor kl_divergence(const Tensor& p, const Tensor& q, const KlDivergenceOptions& o) {
  const char* op = "kl_divergence";
  require_same_shape(op, "p", p, "q", q);
  require(p.rank() > 0, "{}: needs distributions along an axis, but p is a scalar", op);
  require(o.epsilon >= 0, "{}: epsilon must not be negative, got {}", op, o.epsilon);
  const int axis = normalize_axis(op, o.axis, p.rank());
  const Precision precision(op, {p, q});
  const Tensor raised = o.epsilon > 0 ? clamp(precision.wide(q), o.epsilon) : precision.wide(q);
  const Tensor terms = custom_function(
      [](const Tensors& v) { return where(v[0] == 0, 0, v[0] * log(v[0] / v[1])); },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        const Tensor ratio = v[0] / v[1], none = v[0] == 0;
        return Tensors{where(logical_and(none, v[1] == 0), 0, grad * (log(ratio) + 1)), where(none, 0, -grad * ratio)};
      },
      {precision.wide(p), raised});
  return precision.rounded(reduce(op, sum(terms, axis), o.reduction, Batchmean::allowed));
}

// Counts. The rate is e^x (log_input) or x; log t! is omitted, or taken from Stirling's formula (full).
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllOptions& o) {
  const char* op = "poisson_nll_loss";
  require_same_shape(op, "input", input, "target", target);
  require(o.eps > 0, "{}: eps must be positive, got {}", op, o.eps);
  const Precision p(op, {input, target});
  const Tensor x = p.wide(input), t = p.wide(target);
  Tensor terms;
  if (o.log_input) {
    terms = rate_terms(x, t);
  } else {
    terms = x - t * log(x + o.eps);
  }
  if (o.full) {
    const Tensor large = t > 1, n = where(large, t, 1);
    terms = terms + where(large, n * log(n) - n + 0.5 * log(2 * std::numbers::pi * n), 0);
  }
  return p.rounded(reduce(op, terms, o.reduction));
}

// A normal distribution with a variance of its own for every element.
//   ½·(log v + d²·r), r = 1/v         dd = d·r       dv = ½·r·(1 − d²·r)
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, const GaussianNllOptions& o) {
  const char* op = "gaussian_nll_loss";
  const Precision precision(op, {input, target, var});
  const Shape shape = common_shape(op, {input, target});
  require(o.eps > 0, "{}: eps must be positive, got {}", op, o.eps);
  Tensor v = var;
  if (shape.rank() > 0 && var.shape() != shape && var.shape() == shape.without(shape.rank() - 1)) {
    v = unsqueeze(var, -1);
  }
  // Without an axis its numbers could belong to the first or the last one, so only that of the rows may be missing.
  bool fits = v.rank() == 0 || v.rank() == shape.rank();
  for (int k = 0; fits && k < v.rank(); ++k) fits = v.size(k) == shape[k] || v.size(k) == 1;
  require(fits, "{}: var of shape {} must have the input's shape {}, 1 in place of some sizes, or lack the last", op,
          var.shape(), shape);
  v = precision.wide(v);
  v = clamp(check(v, v >= 0, "gaussian_nll_loss: var must not be negative"), o.eps);
  Tensor terms = custom_function([](const Tensors& w) { return 0.5 * (log(w[1]) + square(w[0]) * reciprocal(w[1])); },
                                 [](const Tensor& grad, const Tensor&, const Tensors& w) {
                                   const Tensor r = reciprocal(w[1]);
                                   return Tensors{grad * (w[0] * r), (0.5 * grad) * (r * (1 - square(w[0]) * r))};
                                 },
                                 {precision.wide(input) - precision.wide(target), broadcast_to(v, shape)});
  if (o.full) terms = terms + 0.5 * std::log(2 * std::numbers::pi);
  return precision.rounded(reduce(op, terms, o.reduction));
}

// ---- gradients ------------------------------------------------------------------------------------------------------

LossGradients kl_div_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const KlDivOptions& o) {
  return gradients("kl_div", kl_div, grad, input, target, o);
}
DivergenceGradients kl_divergence_backward(const Tensor& grad, const Tensor& p, const Tensor& q,
                                           const KlDivergenceOptions& o) {
  const LossGradients g = gradients("kl_divergence", kl_divergence, grad, p, q, o);
  return {g.input, g.target};
}
LossGradients poisson_nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                        const PoissonNllOptions& o) {
  return gradients("poisson_nll_loss", poisson_nll_loss, grad, input, target, o);
}
GaussianNllGradients gaussian_nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                const Tensor& var, const GaussianNllOptions& o) {
  const auto g = pull_back("gaussian_nll_loss", grad, {input, target, var},
                           [&](const Tensors& v) { return gaussian_nll_loss(v[0], v[1], v[2], o); });
  return {g[0], g[1], g[2]};
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, KlDivOptions& o) {
  v("log_target", o.log_target, "the target holds log-probabilities");
  v("reduction", o.reduction, kWithBatchmean);
}

template <class V>
void each_option(V& v, KlDivergenceOptions& o) {
  v("epsilon", o.epsilon, "q is kept at or above it");
  v("axis", o.axis, "along which the distributions lie");
  v("reduction", o.reduction, kWithBatchmean);
}

template <class V>
void each_option(V& v, PoissonNllOptions& o) {
  v("log_input", o.log_input, "the input is the logarithm of the rate, not the rate");
  v("full", o.full, "adds Stirling's t·log t − t + ½·log(2πt) where t > 1");
  v("eps", o.eps, "keeps the logarithm of a rate finite");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, GaussianNllOptions& o) {
  v("full", o.full, "adds ½·log 2π");
  v("eps", o.eps, "the least variance");
  v("reduction", o.reduction);
}

std::vector<LossInfo> probabilistic_entries() {
  return {
      describe("kl_div", "probabilistic", "t·(log t − x), or e^t·(t − x) with log_target", {{"input"}, {"target"}},
               kl_div),
      describe("kl_divergence", "probabilistic", "Σ p·log(p/q)", {{"p"}, {"q"}}, kl_divergence),
      describe("poisson_nll_loss", "probabilistic", "e^x − t·x, or x − t·log(x + ε) without log_input",
               {{"input"}, {"target"}}, poisson_nll_loss),
      describe("gaussian_nll_loss", "probabilistic", "½·(log v + (x − t)²/v);  v = max(var, ε)",
               {{"input"}, {"target"}, {"var"}}, gaussian_nll_loss),
  };
}

}  // namespace ebb
