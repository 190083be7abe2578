// SPDX-License-Identifier: MIT
#include "ebb/losses/linear_heads.h"

#include "core/format_error.h"
#include "ebb/losses/divergence.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/dft.h"
#include "losses/linear_answers.h"
#include "losses/preference_options.h"
#include "losses/products.h"
#include "losses/reduction.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

}  // namespace

// Each token is an answer of its own: a term depends on no other.
Tensor linear_dft_loss(const Tensor& x, const Tensor& head, const Tensor& target, const LinearDftOptions& o,
                       const LinearLogProbOptions& h) {
  const char* op = "linear_dft_loss";
  require(
      x.rank() >= 1 && head.rank() == 2 && x.shape().without(x.rank() - 1) == target.shape(),
      "{}: hidden states of shape {}, a head of shape {} and target of shape {} do not fit; give [.., H], [V, H] and "
      "[..]",
      op, x.shape(), head.shape(), target.shape());
  const DType dtype = promote(x.dtype(), head.dtype()), wide = compute_dtype(dtype);
  const std::int64_t rows = target.numel();
  const Tensor weights = token_weights(op, o.token_weight, target.shape(), wide);
  AnswerLoss loss;
  if (weights.defined()) loss.further.push_back(reshape(weights, {rows}));
  loss.terms = [](const Tensor& log_probs, const Tensors& further) {
    const Tensor terms = dft_terms(reshape(log_probs, {-1}));
    return further.empty() ? terms : terms * further[0];
  };
  const Tensor kept = target != h.ignore_index;
  const Tensor total = sum(weights.defined() ? where(kept, weights, 0) : cast(kept, wide));
  loss.reduce = [=](const Tensor& terms) {
    return reduce_weighted(op, o.reduction == Reduction::none ? reshape(terms, target.shape()) : terms, total,
                           o.reduction);
  };
  const Tensor flat = reshape(x, {rows, 1, x.size(-1)});
  return cast(linear_answer_loss(flat, head, reshape(target, {rows, 1}), h, loss), dtype);
}

namespace {

// log softmax(x·headᵀ/τ), in f32 for halves.
Tensor log_probs_of(const Precision& p, const Tensor& x, const Tensor& head, double temperature) {
  const Tensor rows = reshape(x, {-1, x.size(-1)});
  const Tensor logits = rounds_factors(p.result(), x.device(), rows.size(0), head.size(0), head.size(1))
                            ? rounded_product(p.wide(rows), p.wide(head), {.b = true})
                            : matmul(p.wide(rows), t(p.wide(head)));
  return log_softmax(temperature == 1 ? logits : logits * (1 / temperature), -1);
}

// Terms [.., ] of student and teacher from their log-probabilities [N, V], reduced over the counted rows.
template <class Options, class Formula>
Tensor loss_of_heads(const char* op, const Tensor& x, const Tensor& head, const Tensor& teacher,
                     const Tensor& teacher_head, const Options& o, const Formula& formula) {
  for (const auto& [states, weight, who] :
       {std::tuple{x, head, "hidden states"}, std::tuple{teacher, teacher_head, "the teacher's hidden states"}}) {
    require(states.defined() && weight.defined(), "{}: an operand is an empty Tensor; give it a value", op);
    require(states.rank() >= 1 && weight.rank() == 2 && states.size(-1) == weight.size(1),
            "{}: {} of shape {} and a head of shape {} do not fit; give [.., H] and [V, H]", op, who, states.shape(),
            weight.shape());
    require(is_floating(states.dtype()) && is_floating(weight.dtype()), Error::Kind::type,
            "{}: {} and their head must be floating, got {} and {}", op, who, states.dtype(), weight.dtype());
  }
  const Shape batch = x.shape().without(x.rank() - 1);
  require(teacher.shape().without(teacher.rank() - 1) == batch,
          "{}: hidden states of shape {} and the teacher's of shape {} are not of the same tokens", op, x.shape(),
          teacher.shape());
  require(head.size(0) == teacher_head.size(0) && head.size(0) > 0,
          "{}: heads of shape {} and {} must have the same classes, at least one", op, head.shape(),
          teacher_head.shape());
  require(o.temperature > 0, "{}: temperature must be positive, got {}", op, o.temperature);
  require(!o.mask.defined() || o.mask.shape() == batch, "{}: mask of shape {} does not fit tokens of shape {}", op,
          o.mask.defined() ? o.mask.shape() : Shape{}, batch);
  const Precision p(op, {x, head, teacher, teacher_head});
  const Tensor terms = reshape(
      formula(log_probs_of(p, x, head, o.temperature), log_probs_of(p, teacher, teacher_head, o.temperature)), batch);
  if (!o.mask.defined()) return p.rounded(reduce(op, terms, o.reduction));
  const Tensor kept = o.mask != 0;
  return p.rounded(reduce_weighted(op, where(kept, terms, 0), sum(cast(kept, terms.dtype())), o.reduction));
}

// Σ a·(log a − log b); a class with a = 0 counts 0, whatever the logarithms are.
Tensor kl_terms(const Tensor& log_a, const Tensor& log_b) {
  const Tensor a = exp(log_a);
  return sum(a * where(a == 0, 0, log_a - log_b), -1);
}

}  // namespace

Tensor linear_kl_loss(const Tensor& x, const Tensor& head, const Tensor& teacher, const Tensor& teacher_head,
                      const LinearKlOptions& o) {
  return loss_of_heads("linear_kl_loss", x, head, teacher, teacher_head, o,
                       [&o](const Tensor& p, const Tensor& q) { return o.reverse ? kl_terms(p, q) : kl_terms(q, p); });
}

Tensor linear_jsd_loss(const Tensor& x, const Tensor& head, const Tensor& teacher, const Tensor& teacher_head,
                       const LinearJsdOptions& o) {
  const char* op = "linear_jsd_loss";
  require(o.beta > 0 && o.beta < 1, "{}: beta must be between 0 and 1, got {}; linear_kl_loss has the limits", op,
          o.beta);
  return loss_of_heads(op, x, head, teacher, teacher_head, o, [&o](const Tensor& p, const Tensor& q) {
    return jsd_loss(p, q, {.beta = o.beta, .reduction = Reduction::none});
  });
}

// ---- for the registry -----------------------------------------------------------------------------------------------

namespace {

constexpr const char* kDivides = "divides the logits of both";

}  // namespace

template <class V>
void each_option(V& v, LinearDftOptions& o) {
  v("token_weight", o.token_weight, HasGradient::no);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LinearKlOptions& o) {
  v("reverse", o.reverse, "KL(p‖q) instead of KL(q‖p)");
  v("temperature", o.temperature, kDivides);
  v("mask", o.mask, HasGradient::no);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LinearJsdOptions& o) {
  v("beta", o.beta, "the share of the teacher in the mixture");
  v("temperature", o.temperature, kDivides);
  v("mask", o.mask, HasGradient::no);
  v("reduction", o.reduction);
}

std::vector<LossInfo> linear_head_entries() {
  return {
      describe("linear_dft_loss", "linear", "dft_loss of the logits, from hidden states",
               {{"x"}, {"head"}, {"target", false}}, linear_dft_loss),
      describe("linear_kl_loss", "linear", "KL(q‖p);  p = softmax(x·headᵀ/τ), q that of the teacher",
               {{"x"}, {"head"}, {"teacher"}, {"teacher_head"}}, linear_kl_loss),
      describe("linear_jsd_loss", "linear",
               "β·KL(q‖m) + (1 − β)·KL(p‖m);  m = β·q + (1 − β)·p, of a student's p and a teacher's q",
               {{"x"}, {"head"}, {"teacher"}, {"teacher_head"}}, linear_jsd_loss),
  };
}

}  // namespace ebb
