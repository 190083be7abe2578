// SPDX-License-Identifier: MIT
#include "ebb/losses/binary.h"

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "losses/deferred.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "losses/one_pass.h"
#include "ops/build.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

Tensor probability(const Tensor& p, const char* label) { return check(p, logical_and(p >= 0, p <= 1), label); }

// log p and log(1 − p), clamped at −100 so that a certain and wrong prediction has a large but finite cost
Tensor bounded_log(const Tensor& p) { return maximum(log(p), -100); }
Tensor bounded_log_of_rest(const Tensor& p) { return maximum(log1p(-p), -100); }

// σ(x) − [x >= 0]: a sigmoid minus the step it approaches, with all its digits in both tails. Its derivative is σ',
// given explicitly because −|x| has none at 0.
Tensor sigmoid_residue(const Tensor& x) {
  return custom_function(
      [](const Tensors& v) {
        const Tensor e = exp(-abs(v[0])), r = e / (1 + e);
        return where(v[0] >= 0, -r, r);
      },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        const Tensor s = sigmoid(v[0]);
        return Tensors{grad * (s * (1 - s))};
      },
      {x});
}

// The slope of the line that bce_with_logits approaches far from 0: 1 − y on the right, −q·y on the left.
Tensor asymptote(const Tensor& x, const Tensor& y, const Tensor& q) {
  return where(x >= 0, 1 - y, q.defined() ? -(q * y) : -y);
}
// 1 + (q − 1)·y, without an operation on q alone: q may be one number per column
Tensor curve_weight(const Tensor& y, const Tensor& q) { return (1 - y) + q * y; }

// Binary cross-entropy of a logit, l = 1 + (q − 1)·y:
//   (1 − y)·x + l·log(1 + e^−x)  =  c·x + l·log(1 + e^−|x|),   c the slope of the asymptote on x's side
//   dx = l·σ(x) − q·y = c + l·(σ(x) − [x >= 0])       dy = q·softplus(−x) − softplus(x)       dq = y·softplus(−x)
// x = ±inf with the agreeing target has c = 0 and costs 0.
Tensor logit_terms(const Tensor& logits, const Tensor& target, const Tensor& pos_weight) {
  Tensors inputs{logits, target};
  if (pos_weight.defined()) inputs.push_back(pos_weight);
  auto q_of = [](const Tensors& v) { return v.size() > 2 ? v[2] : Tensor(); };
  return custom_function(
      [q_of](const Tensors& v) {
        const Tensor c = asymptote(v[0], v[1], q_of(v)), line = where(c == 0, 0, c * v[0]);
        const Tensor curve = log1p_unit(exp(-abs(v[0])));
        return v.size() > 2 ? line + curve_weight(v[1], v[2]) * curve : line + curve;
      },
      [q_of](const Tensor& grad, const Tensor&, const Tensors& v) {
        const Tensor c = asymptote(v[0], v[1], q_of(v)), residue = sigmoid_residue(v[0]);
        if (v.size() == 2) return Tensors{grad * (c + residue), -grad * v[0]};
        const Tensor left = softplus(-v[0]), right = softplus(v[0]);
        return Tensors{grad * (c + curve_weight(v[1], v[2]) * residue), grad * (v[2] * left - right),
                       grad * (v[1] * left)};
      },
      inputs);
}

// Binary cross-entropy of a probability.
//   −[y·log p + (1 − y)·log(1 − p)]      dp = (p − y) / max(p·(1 − p), 1e-12)      dy = log(1 − p) − log p
Tensor bce_formula(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& o) {
  const char* op = "binary_cross_entropy";
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input, target});
  const Tensor p = probability(precision.wide(input), "binary_cross_entropy: input must be a probability in [0, 1]");
  Tensor terms = custom_function(
      [](const Tensors& v) { return (v[1] - 1) * bounded_log_of_rest(v[0]) - v[1] * bounded_log(v[0]); },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        return Tensors{grad * ((v[0] - v[1]) / maximum(v[0] * (1 - v[0]), 1e-12)),
                       grad * (bounded_log_of_rest(v[0]) - bounded_log(v[0]))};
      },
      {p, precision.wide(target)});
  if (o.weight.defined()) terms = broadcast_weight(op, "weight", precision.wide(o.weight), terms.shape()) * terms;
  return precision.rounded(reduce(op, terms, o.reduction));
}

Tensor bce_with_logits_formula(const Tensor& input, const Tensor& target, const BceWithLogitsOptions& o) {
  const char* op = "binary_cross_entropy_with_logits";
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input, target});
  Tensor q;
  if (o.pos_weight.defined()) q = broadcast_weight(op, "pos_weight", precision.wide(o.pos_weight), input.shape());
  Tensor terms = logit_terms(precision.wide(input), precision.wide(target), q);
  if (o.weight.defined()) terms = broadcast_weight(op, "weight", precision.wide(o.weight), terms.shape()) * terms;
  return precision.rounded(reduce(op, terms, o.reduction));
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& o) {
  return deferred_loss<bce_formula>(input, target, o);
}
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, const BceWithLogitsOptions& o) {
  return deferred_loss<bce_with_logits_formula>(input, target, o);
}

// (1/C)·Σ_c w_c·bce_with_logits(x_c, y_c)
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& o) {
  const char* op = "multilabel_soft_margin_loss";
  require_same_shape(op, "input", input, "target", target);
  require(input.rank() > 0, "{}: the input must be [C] or [..., C], but it is a scalar", op);
  const Precision precision(op, {input, target});
  Tensor terms = logit_terms(precision.wide(input), precision.wide(target), {});
  if (o.weight.defined()) terms = broadcast_weight(op, "weight", precision.wide(o.weight), terms.shape()) * terms;
  return precision.rounded(reduce(op, mean(terms, -1), o.reduction));
}

// ---- focal losses: nearly correct predictions count little ----------------------------------------------------------

namespace {

// Weights of positives and negatives.
struct Balance {
  double positive, negative;
};
Balance balance(const char* op, const FocalOptions& o) {
  require(o.gamma >= 0, "{}: gamma must not be negative, got {}", op, o.gamma);
  require(o.alpha <= 1, "{}: alpha must be at most 1 (negative for none), got {}", op, o.alpha);
  return o.alpha < 0 ? Balance{1, 1} : Balance{o.alpha, 1 - o.alpha};
}

// y·positive + (1 − y)·negative: soft labels blend the two sides. A side of weight 0 is left out of the value even if
// it is infinite; the derivatives are those of the blend.
Tensor blend(const Tensor& y, const Tensor& positive, const Tensor& negative) {
  return custom_function(
      [](const Tensors& v) { return where(v[0] == 0, v[2], where(v[0] == 1, v[1], v[0] * v[1] + (1 - v[0]) * v[2])); },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        return Tensors{grad * (v[1] - v[2]), grad * v[0], grad * (1 - v[0])};
      },
      {y, positive, negative});
}

// s^γ for s = σ(x), log s = −softplus(−x)
Tensor sigmoid_power(const Tensor& s, const Tensor& minus_log_s, double gamma) {
  return gamma == 2 ? square(s) : gamma == 1 ? s : exp(-gamma * minus_log_s);
}
Tensor power(const Tensor& x, double gamma) { return gamma == 2 ? square(x) : gamma == 1 ? x : pow(x, gamma); }

struct Sides {
  Tensor positive, negative;
};

// With s = σ(x), q = σ(−x): positive α·q^γ·softplus(−x), negative (1 − α)·s^γ·softplus(x)
Sides focal_sides(const Tensor& x, const Balance& b, double gamma) {
  const Tensor left = softplus(-x), right = softplus(x);
  return {b.positive * (sigmoid_power(sigmoid(-x), right, gamma) * left),
          b.negative * (sigmoid_power(sigmoid(x), left, gamma) * right)};
}
// Their derivatives −α·q^γ·(γ·s·softplus(−x) + q)  and  (1 − α)·s^γ·(γ·q·softplus(x) + s)
Sides focal_slopes(const Tensor& x, const Balance& b, double gamma) {
  const Tensor left = softplus(-x), right = softplus(x), s = sigmoid(x), q = sigmoid(-x);
  return {-b.positive * (sigmoid_power(q, right, gamma) * (gamma * (s * left) + q)),
          b.negative * (sigmoid_power(s, left, gamma) * (gamma * (q * right) + s))};
}

// On probabilities: −α·(1 − p)^γ·log p  and  −(1 − α)·p^γ·log(1 − p)
Sides probability_sides(const Tensor& p, const Balance& b, double gamma) {
  const Tensor lp = bounded_log(p), lq = bounded_log_of_rest(p);
  if (gamma == 0) return {-b.positive * lp, -b.negative * lq};
  return {-b.positive * (power(1 - p, gamma) * lp), -b.negative * (power(p, gamma) * lq)};
}
// α·[γ·(1 − p)^(γ−1)·log p − (1 − p)^γ/p]  and  (1 − α)·[p^γ/(1 − p) − γ·p^(γ−1)·log(1 − p)]. The logarithm vanishes
// where the power of γ − 1 may be infinite: there the power counts as 1.
Sides probability_slopes(const Tensor& p, const Balance& b, double gamma) {
  const Tensor q = 1 - p, over_p = maximum(p, 1e-12), over_q = maximum(q, 1e-12);
  if (gamma == 0) return {-b.positive / over_p, b.negative / over_q};
  const Tensor up = power(where(q == 0, 1, q), gamma - 1), down = power(where(p == 0, 1, p), gamma - 1);
  return {b.positive * (gamma * (up * bounded_log(p)) - power(q, gamma) / over_p),
          b.negative * (power(p, gamma) / over_q - gamma * (down * bounded_log_of_rest(p)))};
}

// ---- the same, both sides at once, with the fewest operations per element for value and gradient together. Labels
// blend the sides as weights: α·y and (1 − α)·(1 − y).

struct LabelShares {
  Tensor positive, negative;
};
LabelShares label_shares(const Tensor& y, const Balance& b) {
  return {b.positive * y, fma(y, -b.negative, b.negative)};
}

// With a = |x|, r = σ(a) and k = σ(−a): x speaks against one side, which costs r^γ·softplus(a), and for the other,
// which costs k^γ·softplus(−a). Multiplied by their weights, with softplus(a) = a + softplus(−a):
//   value  against·softplus(a) + in_favour·softplus(−a)
//   slope  ±[against·(γ·k·softplus(a) + r) − in_favour·(γ·r·softplus(−a) + k)],   + where x >= 0
// x = ±inf costs nothing if no weight speaks against it; its slope is that weight.
struct FocalParts {
  Tensor right, r, k, near, far, against, in_favour;
};
FocalParts focal_parts(const Tensor& x, const Tensor& y, const Balance& b, double gamma) {
  FocalParts f;
  const Tensor e = exp(-abs(x));
  const LabelShares share = label_shares(y, b);
  f.right = x >= 0;
  f.r = reciprocal(1 + e), f.k = e * f.r;
  f.near = log1p_unit(e), f.far = abs(x) + f.near;
  f.against = where(f.right, share.negative, share.positive);
  f.in_favour = where(f.right, share.positive, share.negative);
  if (gamma == 0) return f;
  f.against = f.against * sigmoid_power(f.r, f.near, gamma);
  f.in_favour = f.in_favour * sigmoid_power(f.k, f.far, gamma);
  return f;
}
Tensor focal_value(const Tensor& x, const Tensor& y, const Balance& b, double gamma) {
  const FocalParts f = focal_parts(x, y, b, gamma);
  return fma(f.in_favour, f.near, where(f.against == 0, 0, f.against * f.far));
}
Tensor focal_gradient(const Tensor& grad, const Tensor& x, const Tensor& y, const Balance& b, double gamma) {
  const FocalParts f = focal_parts(x, y, b, gamma);
  const Tensor far = minimum(f.far, 1e30);  // times k, which is 0 there
  return where(f.right, grad, -grad) *
         (f.against * fma(f.k * far, gamma, f.r) - f.in_favour * fma(f.r * f.near, gamma, f.k));
}

// On probabilities, with q = 1 − p, u = −α·y·q^(γ−1) and d = −(1 − α)·(1 − y)·p^(γ−1):
//   value  u·q·log p + d·p·log q
//   slope  d·(γ·log q − p/q) − u·(γ·log p − q/p)
struct ProbabilityParts {
  Tensor q, log_p, log_q, u, d;
};
ProbabilityParts probability_parts(const Tensor& p, const Tensor& y, const Balance& b, double gamma) {
  ProbabilityParts f;
  f.q = 1 - p;
  f.log_p = bounded_log(p), f.log_q = bounded_log_of_rest(p);
  const LabelShares share = label_shares(y, {-b.positive, -b.negative});
  auto less = [gamma](const Tensor& x) { return power(gamma < 1 ? where(x == 0, 1, x) : x, gamma - 1); };
  f.u = share.positive, f.d = share.negative;
  if (gamma != 0 && gamma != 1) f.u = f.u * less(f.q), f.d = f.d * less(p);
  return f;
}
Tensor probability_value(const Tensor& p, const Tensor& y, const Balance& b, double gamma) {
  const ProbabilityParts f = probability_parts(p, y, b, gamma);
  if (gamma == 0) return f.u * f.log_p + f.d * f.log_q;
  return f.u * (f.q * f.log_p) + f.d * (p * f.log_q);
}
Tensor probability_gradient(const Tensor& grad, const Tensor& p, const Tensor& y, const Balance& b, double gamma) {
  const ProbabilityParts f = probability_parts(p, y, b, gamma);
  const Tensor over_p = maximum(p, 1e-12), over_q = maximum(f.q, 1e-12);
  if (gamma == 0) return grad * (f.u / over_p - f.d / over_q);
  return grad * (f.d * (gamma * f.log_q - p / over_q) - f.u * (gamma * f.log_p - f.q / over_p));
}

// Value and gradient as given; derivatives of the gradient, and the derivative by y, are those of the sides.
template <class Value, class Gradient, class Side>
Tensor focal(const Tensor& x, const Tensor& y, const Balance& b, double gamma, Value value, Gradient gradient,
             Side sides, Side slopes) {
  return custom_function([=](const Tensors& v) { return value(v[0], v[1], b, gamma); },
                         [=](const Tensor& grad, const Tensor&, const Tensors& v) {
                           const Tensor dx = differentiated_as(
                               [=](const Tensors& v) {
                                 const Sides d = slopes(v[1], b, gamma);
                                 return v[0] * blend(v[2], d.positive, d.negative);
                               },
                               [=](const Tensors& v) { return gradient(v[0], v[1], v[2], b, gamma); },
                               {grad, v[0], v[1]});
                           const Sides s = sides(v[0], b, gamma);
                           return Tensors{dx, grad * (s.positive - s.negative)};
                         },
                         {x, y});
}

}  // namespace

Tensor sigmoid_focal_loss(const Tensor& input, const Tensor& target, const FocalOptions& o) {
  const char* op = "sigmoid_focal_loss";
  const Balance b = balance(op, o);
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input, target});
  const Tensor terms = focal(precision.wide(input), precision.wide(target), b, o.gamma, focal_value, focal_gradient,
                             focal_sides, focal_slopes);
  return precision.rounded(reduce(op, terms, o.reduction));
}

Tensor focal_loss_on_probabilities(const Tensor& input, const Tensor& target, const FocalOptions& o) {
  const char* op = "focal_loss_on_probabilities";
  const Balance b = balance(op, o);
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input, target});
  const Tensor p =
      probability(precision.wide(input), "focal_loss_on_probabilities: input must be a probability in [0, 1]");
  const Tensor terms = focal(p, precision.wide(target), b, o.gamma, probability_value, probability_gradient,
                             probability_sides, probability_slopes);
  return precision.rounded(reduce(op, terms, o.reduction));
}

// Asymmetric loss (Ridnik et al., 2021): a focal loss whose negatives fade faster and, below the probability m, vanish.
//   positive  (1 − p)^γ₊·(−log p) = σ(−x)^γ₊·softplus(−x)       negative  q^γ₋·(−log(1 − q)),   q = max(σ(x) − m, 0)
// Where q is 0 its power may have an infinite derivative, but the term has derivative 0. Without m, q = σ(x) and its
// logarithm is a softplus, which keeps its digits.
Tensor asymmetric_loss(const Tensor& input, const Tensor& target, const AsymmetricOptions& o) {
  const char* op = "asymmetric_loss";
  require(o.gamma_pos >= 0 && o.gamma_neg >= 0, "{}: gamma_pos and gamma_neg must not be negative, got {} and {}", op,
          o.gamma_pos, o.gamma_neg);
  require(o.clip >= 0 && o.clip < 1, "{}: clip must be in [0, 1), got {}", op, o.clip);
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input, target});
  const Tensor x = precision.wide(input), left = softplus(-x), right = softplus(x);
  Tensor positive = left, negative = right;
  if (o.gamma_pos > 0) positive = sigmoid_power(sigmoid(-x), right, o.gamma_pos) * left;
  if (o.clip > 0) {
    const Tensor shifted = sigmoid(x) - o.clip, gone = shifted <= 0, q = where(gone, 0, shifted);
    negative = -log1p(-q);
    if (o.gamma_neg > 0) negative = where(gone, 0, power(where(gone, 1, q), o.gamma_neg)) * negative;
  } else if (o.gamma_neg > 0) {
    negative = sigmoid_power(sigmoid(x), left, o.gamma_neg) * right;
  }
  return precision.rounded(reduce(op, blend(precision.wide(target), positive, negative), o.reduction));
}

// ---- gradients ------------------------------------------------------------------------------------------------------

LossGradients binary_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                            const BinaryCrossEntropyOptions& o) {
  return gradients("binary_cross_entropy", binary_cross_entropy, grad, input, target, o);
}
BceWithLogitsGradients binary_cross_entropy_with_logits_backward(const Tensor& grad, const Tensor& input,
                                                                 const Tensor& target, const BceWithLogitsOptions& o) {
  const Tensors g = pull_back("binary_cross_entropy_with_logits", grad, {input, target, o.weight, o.pos_weight},
                              [&](const Tensors& v) {
                                return binary_cross_entropy_with_logits(
                                    v[0], v[1], {.weight = v[2], .pos_weight = v[3], .reduction = o.reduction});
                              });
  return {g[0], g[1], g[2], g[3]};
}
LossGradients multilabel_soft_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                   const BinaryCrossEntropyOptions& o) {
  return gradients("multilabel_soft_margin_loss", multilabel_soft_margin_loss, grad, input, target, o);
}
LossGradients sigmoid_focal_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                          const FocalOptions& o) {
  return gradients("sigmoid_focal_loss", sigmoid_focal_loss, grad, input, target, o);
}
LossGradients focal_loss_on_probabilities_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                                   const FocalOptions& o) {
  return gradients("focal_loss_on_probabilities", focal_loss_on_probabilities, grad, input, target, o);
}
LossGradients asymmetric_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                       const AsymmetricOptions& o) {
  return gradients("asymmetric_loss", asymmetric_loss, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, BinaryCrossEntropyOptions& o) {
  v("weight", o.weight);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, BceWithLogitsOptions& o) {
  v("weight", o.weight);
  v("pos_weight", o.pos_weight);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, FocalOptions& o) {
  v("alpha", o.alpha, "how much a positive counts, a negative 1 − alpha; negative: both 1");
  v("gamma", o.gamma, "how fast a term fades as the prediction gets right");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, AsymmetricOptions& o) {
  v("gamma_pos", o.gamma_pos, "how fast a positive fades as the prediction gets right");
  v("gamma_neg", o.gamma_neg, "how fast a negative fades as the prediction gets right");
  v("clip", o.clip, "negatives with a probability below it do not count");
  v("reduction", o.reduction);
}

std::vector<LossInfo> binary_entries() {
  return {
      describe("binary_cross_entropy", "binary", "−w·[y·max(log p, −100) + (1 − y)·max(log(1 − p), −100)]",
               {{"input"}, {"target"}}, binary_cross_entropy),
      describe("binary_cross_entropy_with_logits", "binary", "w·[(1 − y)·x + (1 + (q − 1)·y)·log(1 + e^−x)]",
               {{"input"}, {"target"}}, binary_cross_entropy_with_logits),
      describe("multilabel_soft_margin_loss", "binary", "(1/C)·Σ w_c·bce_with_logits(x_c, y_c)",
               {{"input"}, {"target"}}, multilabel_soft_margin_loss),
      describe("sigmoid_focal_loss", "binary",
               "y·α·(1 − p)^γ·(−log p) + (1 − y)·(1 − α)·p^γ·(−log(1 − p));  p = sigmoid(x)", {{"input"}, {"target"}},
               sigmoid_focal_loss),
      describe("focal_loss_on_probabilities", "binary", "y·α·(1 − p)^γ·(−log p) + (1 − y)·(1 − α)·p^γ·(−log(1 − p))",
               {{"input"}, {"target"}}, focal_loss_on_probabilities),
      describe("asymmetric_loss", "binary",
               "y·(1 − p)^γ₊·(−log p) + (1 − y)·q^γ₋·(−log(1 − q));  p = sigmoid(x), q = max(p − m, 0)",
               {{"input"}, {"target"}}, asymmetric_loss),
  };
}

}  // namespace ebb
