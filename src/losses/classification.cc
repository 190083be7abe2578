// SPDX-License-Identifier: MIT
#include "ebb/losses/classification.h"

#include <cmath>
#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/deferred.h"
#include "losses/describe.h"
#include "losses/dft.h"
#include "losses/gradients.h"

// The gradients here are those of the formulas' own operations: with m = max x (a constant for differentiation, see
// shifted_exp), e = exp(x − m), s = Σ e,
//   −log p_y = log s − (x_y − m)        d(−log p_y)/dx = e·(g/s) − place(g at y)
// which is one exponential and one multiplication per element, and one division per row.
namespace ebb {
namespace {

Tensor softcapped(const Tensor& x, double cap) { return cap > 0 ? cap * tanh(x / cap) : x; }

// The terms of rows that stay, without the axis of the classes.
Tensor kept_terms(const Tensor& terms, const Targets& t, const Shape& shape) {
  return reshape(where(t.keep, terms, 0), shape);
}

// Sum, mean or none of the kept rows, each multiplied by its weight.
Tensor reduce_kept(const char* op, const Tensor& terms, const Targets& t, const Shape& shape,
                   const Tensor& token_weight, Reduction reduction) {
  const Tensor kept = kept_terms(terms, t, shape), weights = token_weights(op, token_weight, shape, terms.dtype());
  if (!weights.defined()) return reduce_weighted(op, kept, t.total, reduction);
  return reduce_weighted(op, kept * weights, sum(reshape(t.weight, shape) * weights), reduction);
}

// Negative log-likelihood.    −w_y·x_y
Tensor nll_formula(const Tensor& input, const Tensor& target, const NllOptions& o) {
  const char* op = "nll_loss";
  const Precision p(op, {input});
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  if (o.weight.defined()) require_class_weight(op, "weight", o.weight, input.size(axis));
  const Targets t = prepare_targets(target, axis, input.size(axis), o.ignore_index, o.weight, p.compute());
  const Tensor picked = p.wide(gather_class(input, axis, t.index, "nll_loss: target"));  // widened after: one per row
  const Tensor terms = -(t.weight * picked);
  return p.rounded(reduce_weighted(op, kept_terms(terms, t, target.shape()), t.total, o.reduction));
}

// −Σ_c w_c·t_c·logp_c = (Σ w·t)·log s − Σ w·t·z. A class of probability 0 and logit −inf counts 0.
Tensor cross_entropy_of_probabilities(const Precision& p, const Tensor& x, int axis, const Tensor& target,
                                      const CrossEntropyOptions& o) {
  const char* op = "cross_entropy";
  const auto classes = static_cast<double>(x.size(axis));
  const LogSoftmax parts = log_softmax_parts(x, axis);
  Tensor t = p.wide(target);
  if (o.label_smoothing > 0) t = t * (1 - o.label_smoothing) + o.label_smoothing / classes;
  const Tensor nothing = logical_and(t == 0, parts.z == -std::numeric_limits<double>::infinity());
  const Tensor wt = o.weight.defined() ? along_classes(p.wide(o.weight), x, axis) * t : t;
  Tensor terms = sum(wt, axis, true) * parts.log_s - sum(wt * where(nothing, 0, parts.z), axis, true);
  if (o.z_loss != 0) terms = terms + o.z_loss * square(parts.lse);
  terms = reshape(terms, x.shape().without(axis));
  const Tensor weights = token_weights(op, o.token_weight, terms.shape(), terms.dtype());
  return weights.defined() ? reduce_weighted(op, terms * weights, sum(weights), o.reduction)
                           : reduce(op, terms, o.reduction);
}

// (1 − ε)·w_y·(log s − z_y) + (ε/C)·[(Σ_c w_c)·log s − Σ_c w_c·z_c]
Tensor cross_entropy_of_indices(const Precision& p, const Tensor& input, int axis, const Tensor& target,
                                const CrossEntropyOptions& o) {
  const char* op = "cross_entropy";
  const std::int64_t classes = input.size(axis);
  const Targets t = prepare_targets(target, axis, classes, o.ignore_index, o.weight, p.compute());
  const Tensor x = softcapped(p.wide(input), o.softcap);
  const LogSoftmax parts = log_softmax_parts(x, axis);
  const double eps = o.label_smoothing;
  const Tensor nll = parts.log_s - pick_class(parts.z, axis, t.index, "cross_entropy: target");
  Tensor terms = o.weight.defined() ? t.weight * nll : nll;
  if (eps > 0) {
    Tensor all;
    if (o.weight.defined()) {
      const Tensor w = p.wide(o.weight);
      all = sum(w) * parts.log_s - sum(along_classes(w, x, axis) * parts.z, axis, true);
    } else {
      all = static_cast<double>(classes) * parts.log_s - sum(parts.z, axis, true);
    }
    terms = (1 - eps) * terms + (eps / static_cast<double>(classes)) * all;
  }
  if (o.z_loss != 0) {
    const Tensor z = o.z_loss * square(parts.lse);
    terms = terms + (o.weight.defined() ? t.weight * z : z);
  }
  return reduce_kept(op, terms, t, target.shape(), o.token_weight, o.reduction);
}

Tensor cross_entropy_formula(const Tensor& input, const Tensor& target, const CrossEntropyOptions& o) {
  const char* op = "cross_entropy";
  require(target.defined(), "{}: the target is an empty Tensor; give it a value", op);
  require(o.label_smoothing >= 0 && o.label_smoothing <= 1, "{}: label_smoothing must be in [0, 1], got {}", op,
          o.label_smoothing);
  require(o.softcap >= 0, "{}: softcap must be positive, or 0 for none, got {}", op, o.softcap);
  const Precision p(op, {input, target});
  const int axis = class_axis(op, input);
  if (o.weight.defined()) require_class_weight(op, "weight", o.weight, input.size(axis));
  if (is_floating(target.dtype()) && target.shape() == input.shape()) {
    require(o.ignore_index < 0, "{}: ignore_index = {} is for class indices, but the target holds probabilities", op,
            o.ignore_index);
    return p.rounded(cross_entropy_of_probabilities(p, softcapped(p.wide(input), o.softcap), axis, target, o));
  }
  require(
      !is_floating(target.dtype()), Error::Kind::type,
      "{}: a target of dtype {} holds probabilities and must have the input's shape {}, but it has {}; class indices "
      "must be integers",
      op, target.dtype(), input.shape(), target.shape());
  require_class_indices(op, input, axis, target);
  return p.rounded(cross_entropy_of_indices(p, input, axis, target, o));
}

}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& o) {
  return deferred_loss<nll_formula>(input, target, o);
}
Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& o) {
  return deferred_loss<cross_entropy_formula>(input, target, o);
}

// Dynamic fine-tuning (Wu et al., 2025).    −sg(p_y)·log p_y
Tensor dft_loss(const Tensor& input, const Tensor& target, const DftOptions& o) {
  const char* op = "dft_loss";
  const Precision p(op, {input});
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  const Targets t = prepare_targets(target, axis, input.size(axis), o.ignore_index, {}, p.compute());
  const LogSoftmax parts = log_softmax_parts(p.wide(input), axis);
  const Tensor l = pick_class(parts.z, axis, t.index, "dft_loss: target") - parts.log_s;
  return p.rounded(reduce_kept(op, dft_terms(l), t, target.shape(), o.token_weight, o.reduction));
}

// Focal loss of a softmax: a nearly certain class counts little.
//   −α_y·(1 − p_y)^γ·log p_y,   l = log p_y,   1 − p_y = −(e^l − 1)
Tensor softmax_focal_loss(const Tensor& input, const Tensor& target, const SoftmaxFocalOptions& o) {
  const char* op = "softmax_focal_loss";
  require(o.gamma >= 0, "{}: gamma must not be negative, got {}", op, o.gamma);
  const Precision p(op, {input});
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  if (o.alpha.defined()) require_class_weight(op, "alpha", o.alpha, input.size(axis));
  // The mean is over the number of kept targets, whatever alpha is.
  const std::int64_t classes = input.size(axis);
  const Targets t = prepare_targets(target, axis, classes, o.ignore_index, {}, p.compute());
  const LogSoftmax parts = log_softmax_parts(p.wide(input), axis);
  const Tensor l = pick_class(parts.z, axis, t.index, "softmax_focal_loss: target") - parts.log_s;
  Tensor terms = -l;
  if (o.gamma > 0) {
    // At p_y = 1 the power has an infinite derivative for gamma < 1, but the loss has derivative 0.
    const Tensor u = -expm1(l), certain = u == 0;
    terms = where(certain, 0, pow(where(certain, 1, u), o.gamma)) * terms;
  }
  if (o.alpha.defined()) {
    terms = prepare_targets(target, axis, classes, o.ignore_index, o.alpha, p.compute()).weight * terms;
  }
  return p.rounded(reduce_weighted(op, kept_terms(terms, t, target.shape()), t.total, o.reduction));
}

LossGradients nll_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const NllOptions& o) {
  return gradients("nll_loss", nll_loss, grad, input, target, o);
}
LossGradients cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                     const CrossEntropyOptions& o) {
  return gradients("cross_entropy", cross_entropy, grad, input, target, o);
}
LossGradients dft_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const DftOptions& o) {
  return gradients("dft_loss", dft_loss, grad, input, target, o);
}
LossGradients softmax_focal_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                          const SoftmaxFocalOptions& o) {
  const auto g = pull_back("softmax_focal_loss", grad, {input, target, o.alpha}, [&](const std::vector<Tensor>& v) {
    SoftmaxFocalOptions with = o;
    with.alpha = v[2];
    return softmax_focal_loss(v[0], v[1], with);
  });
  return {g[0], g[1], g[2]};
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, NllOptions& o) {
  v("weight", o.weight);
  v("ignore_index", o.ignore_index, kIgnored);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, CrossEntropyOptions& o) {
  v("weight", o.weight);
  v("ignore_index", o.ignore_index, kIgnored);
  v("label_smoothing", o.label_smoothing, "the share of the target spread over all classes");
  v("z_loss", o.z_loss, "adds z_loss·(log Σ e^x)²");
  v("softcap", o.softcap, kSoftcapped);
  v("token_weight", o.token_weight, HasGradient::no);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, DftOptions& o) {
  v("ignore_index", o.ignore_index, kIgnored);
  v("token_weight", o.token_weight, HasGradient::no);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SoftmaxFocalOptions& o) {
  v("alpha", o.alpha);
  v("gamma", o.gamma, "how fast a term fades as the prediction gets right");
  v("ignore_index", o.ignore_index, kIgnored);
  v("reduction", o.reduction);
}

std::vector<LossInfo> classification_entries() {
  return {
      describe("nll_loss", "classification", "−w_y·x_y", {{"input"}, {"target", false}}, nll_loss),
      describe("cross_entropy", "classification",
               "(1 − ε)·(−w_y·logp_y) + (ε/C)·Σ −w_c·logp_c, or −Σ w_c·t_c·logp_c;  logp = log_softmax(x)",
               {{"input"}, {"target"}}, cross_entropy),
      describe("dft_loss", "classification", "−sg(p_y)·log p_y;  p = softmax(x), sg(p) a constant",
               {{"input"}, {"target", false}}, dft_loss),
      describe("softmax_focal_loss", "classification", "−α_y·(1 − p_y)^γ·log p_y;  p = softmax(x)",
               {{"input"}, {"target", false}}, softmax_focal_loss),
  };
}

}  // namespace ebb
