// SPDX-License-Identifier: MIT
#include "ebb/losses/regression.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/deferred.h"
#include "losses/describe.h"
#include "losses/difference.h"
#include "losses/gradients.h"

namespace ebb {
namespace {

// With c = d clamped to [−delta, delta], Huber's loss is c·(d − c/2) and its derivative c: one formula for both pieces.
Tensor huber_term(const Tensor& difference, double delta) {
  return custom_function(
      [delta](const std::vector<Tensor>& v) {
        const Tensor c = clamp(v[0], -delta, delta);
        return c * fma(c, -0.5, v[0]);
      },
      [delta](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        return std::vector<Tensor>{grad * clamp(v[0], -delta, delta)};
      },
      {difference});
}

// Squared error.      d², derivative 2d
Tensor mse_formula(const Tensor& input, const Tensor& target, const WeightedOptions& o) {
  return of_difference("mse_loss", input, target, o.weight, o.reduction, [](const Tensor& d) { return square(d); });
}

// Absolute error.     |d|, derivative sign d, 0 at 0
Tensor l1_formula(const Tensor& input, const Tensor& target, const WeightedOptions& o) {
  return of_difference("l1_loss", input, target, o.weight, o.reduction, [](const Tensor& d) { return abs(d); });
}

// Huber: quadratic near the target, linear far from it; smooth where they meet.
//   |d| <= delta : d²/2            |d| > delta : delta·(|d| − delta/2)
Tensor huber_formula(const Tensor& input, const Tensor& target, const HuberOptions& o) {
  require(o.delta > 0, "huber_loss: delta must be positive, got {}", o.delta);
  return of_difference("huber_loss", input, target, o.weight, o.reduction,
                       [&](const Tensor& d) { return huber_term(d, o.delta); });
}

// Huber's loss divided by beta: its slope far from the target is 1 for every beta, so that beta = 0 is l1_loss.
//   |d| < beta : d²/(2·beta)       |d| >= beta : |d| − beta/2
Tensor smooth_l1_formula(const Tensor& input, const Tensor& target, const SmoothL1Options& o) {
  require(o.beta >= 0, "smooth_l1_loss: beta must not be negative, got {}", o.beta);
  return of_difference("smooth_l1_loss", input, target, {}, o.reduction,
                       [&](const Tensor& d) { return o.beta == 0 ? abs(d) : huber_term(d, o.beta) / o.beta; });
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, const WeightedOptions& o) {
  return deferred_loss<mse_formula>(input, target, o);
}
Tensor l1_loss(const Tensor& input, const Tensor& target, const WeightedOptions& o) {
  return deferred_loss<l1_formula>(input, target, o);
}
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& o) {
  return deferred_loss<huber_formula>(input, target, o);
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& o) {
  return deferred_loss<smooth_l1_formula>(input, target, o);
}

LossGradients mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const WeightedOptions& o) {
  return gradients("mse_loss", mse_loss, grad, input, target, o);
}
LossGradients l1_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                               const WeightedOptions& o) {
  return gradients("l1_loss", l1_loss, grad, input, target, o);
}
LossGradients smooth_l1_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const SmoothL1Options& o) {
  return gradients("smooth_l1_loss", smooth_l1_loss, grad, input, target, o);
}
LossGradients huber_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                  const HuberOptions& o) {
  return gradients("huber_loss", huber_loss, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, WeightedOptions& o) {
  v("weight", o.weight);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SmoothL1Options& o) {
  v("beta", o.beta, "where the parabola becomes a line; 0 is l1_loss");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, HuberOptions& o) {
  v("delta", o.delta, "where the parabola becomes a line");
  v("weight", o.weight);
  v("reduction", o.reduction);
}

std::vector<LossInfo> regression_entries() {
  return {
      describe("mse_loss", "regression", "(x − t)²", {{"input"}, {"target"}}, mse_loss),
      describe("l1_loss", "regression", "|x − t|", {{"input"}, {"target"}}, l1_loss),
      describe("smooth_l1_loss", "regression", "|d| < β: d²/(2β), else |d| − β/2;  d = x − t", {{"input"}, {"target"}},
               smooth_l1_loss),
      describe("huber_loss", "regression", "|d| ≤ δ: d²/2, else δ·(|d| − δ/2);  d = x − t", {{"input"}, {"target"}},
               huber_loss),
  };
}

}  // namespace ebb
