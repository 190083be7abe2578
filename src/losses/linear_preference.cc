// SPDX-License-Identifier: MIT
#include "core/format_error.h"
#include "ebb/losses/preference.h"
#include "ebb/ops.h"
#include "losses/linear_answers.h"
#include "losses/preference_options.h"
#include "losses/preference_terms.h"
#include "losses/reduction.h"
#include "ops/build.h"

// Preference losses from hidden states and an LM head.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

// Rounded once, at the end.
Tensor rounded_like(const Tensor& loss, const Tensor& x, const Tensor& head) {
  return cast(loss, promote(x.dtype(), head.dtype()));
}

void require_answers(const char* op, const Tensor& target, const char* shape) {
  require(target.rank() == 2, "{}: target must be {}, got shape {}", op, shape, target.shape());
}

struct Pairs {
  Tensor chosen, rejected;
};

void require_pairs(const char* op, const Tensor& both, int rank) {
  require(both.rank() == rank && both.size(0) % 2 == 0,
          "{}: needs as many rejected answers as chosen ones, the chosen first, got shape {}", op, both.shape());
}

Pairs halves(const char* op, const Tensor& both) {
  require_pairs(op, both, 1);
  const std::int64_t n = both.size(0) / 2;
  return {narrow(both, 0, 0, n), narrow(both, 0, n, n)};
}

enum class Answer { total, average };  // of its tokens' log-probabilities

// The loss that `formula` assigns to pairs; with a reference, also to its pairs.
template <class Options>
Tensor loss_of_pairs(const char* op, const Tensor& x, const Tensor& head, const Tensor& target,
                     const LinearLogProbOptions& h, Answer answer, const Options& o, const Tensors& reference,
                     Tensor (*formula)(const Pairs& policy, const Pairs& reference, const Options& o)) {
  require_answers(op, target, "[2B, T]");
  require_pairs(op, target, 2);
  Options terms_of = o;
  terms_of.reduction = Reduction::none;
  AnswerLoss loss;
  loss.sides = 2;
  loss.further = reference;
  const bool has_reference = !reference.empty();
  const DType wide = compute_dtype(promote(x.dtype(), head.dtype()));
  if (answer == Answer::average) loss.further.push_back(sum(cast(target != h.ignore_index, wide), -1));
  loss.terms = [=](const Tensor& log_probs, const Tensors& further) {
    Tensor answers = sum(log_probs, -1);
    if (answer == Answer::average) answers = answers / further.back();
    return formula(halves(op, answers), has_reference ? halves(op, further[0]) : Pairs{}, terms_of);
  };
  loss.reduce = [op, reduction = o.reduction](const Tensor& terms) { return reduce(op, terms, reduction); };
  return rounded_like(linear_answer_loss(x, head, target, h, loss), x, head);
}

}  // namespace

Tensor linear_dpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const DpoOptions& o, const LinearLogProbOptions& h) {
  return loss_of_pairs<DpoOptions>("linear_dpo_loss", x, head, target, h, Answer::total, o, {reference},
                                   [](const Pairs& p, const Pairs& r, const DpoOptions& each) {
                                     return dpo_loss(p.chosen, p.rejected, r.chosen, r.rejected, each);
                                   });
}
Tensor linear_ipo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const IpoOptions& o, const LinearLogProbOptions& h) {
  return loss_of_pairs<IpoOptions>("linear_ipo_loss", x, head, target, h, Answer::total, o, {reference},
                                   [](const Pairs& p, const Pairs& r, const IpoOptions& each) {
                                     return ipo_loss(p.chosen, p.rejected, r.chosen, r.rejected, each);
                                   });
}
Tensor linear_orpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const OrpoOptions& o,
                        const LinearLogProbOptions& h) {
  return loss_of_pairs<OrpoOptions>(
      "linear_orpo_loss", x, head, target, h, Answer::average, o, {},
      [](const Pairs& p, const Pairs&, const OrpoOptions& each) { return orpo_loss(p.chosen, p.rejected, each); });
}
Tensor linear_simpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const SimpoOptions& o,
                         const LinearLogProbOptions& h) {
  return loss_of_pairs<SimpoOptions>(
      "linear_simpo_loss", x, head, target, h, Answer::average, o, {},
      [](const Pairs& p, const Pairs&, const SimpoOptions& each) { return simpo_loss(p.chosen, p.rejected, each); });
}
Tensor linear_cpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const CpoOptions& o,
                       const LinearLogProbOptions& h) {
  return loss_of_pairs<CpoOptions>(
      "linear_cpo_loss", x, head, target, h, Answer::total, o, {},
      [](const Pairs& p, const Pairs&, const CpoOptions& each) { return cpo_loss(p.chosen, p.rejected, each); });
}
Tensor linear_kto_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const Tensor& desirable, const KtoOptions& o, const LinearLogProbOptions& h) {
  const char* op = "linear_kto_loss";
  require_answers(op, target, "[B, T]");
  KtoOptions each = o;
  each.reduction = Reduction::none;
  each.kl = {};
  AnswerLoss loss;
  loss.further = {reference, desirable};
  if (o.kl.defined()) loss.further.push_back(stop_gradient(one_number(op, o.kl)));
  loss.terms = [each](const Tensor& log_probs, const Tensors& further) {
    KtoOptions with = each;
    if (further.size() > 2) with.kl = further[2];
    return kto_loss(sum(log_probs, -1), further[0], further[1], with);
  };
  loss.reduce = [op, reduction = o.reduction](const Tensor& terms) { return reduce(op, terms, reduction); };
  return rounded_like(linear_answer_loss(x, head, target, h, loss), x, head);
}
namespace {

// Members of the family whose ratio is per answer: a term is that of the answer, reduced over its tokens.
Tensor grpo_by_answer(const char* op, const Tensor& x, const Tensor& head, const Tensor& target,
                      const Tensor& advantages, const GrpoOptions& o, const LinearLogProbOptions& h) {
  if (o.reduction == Reduction::none) {  // terms per token: needs all log-probabilities at once
    return grpo_terms(Precision(op, {x, head, advantages}), linear_log_probs(x, head, target, h), by_answer(advantages),
                      o);
  }
  AnswerLoss loss;
  loss.further = {by_answer(advantages), o.mask};
  for (const Tensor& t : {o.old, o.reference})
    if (t.defined()) loss.further.push_back(t);
  GrpoOptions each = o;
  each.old = each.reference = each.mask = {};
  loss.terms = [op, each, has_old = o.old.defined(), has_reference = o.reference.defined()](const Tensor& log_probs,
                                                                                            const Tensors& further) {
    GrpoOptions with = each;
    with.mask = further[1];
    if (has_old) with.old = further[2];
    if (has_reference) with.reference = further.back();
    const Tensor terms = sum(grpo_terms(Precision(op, {log_probs, further[0]}), log_probs, further[0], with), -1);
    if (with.reduction == Reduction::sum || with.loss_type == GrpoLossType::luspo) return terms;
    return terms / maximum(sum(cast(further[1] != 0, terms.dtype()), -1), 1);
  };
  loss.reduce = [op, reduction = o.reduction](const Tensor& terms) { return reduce(op, terms, reduction); };
  return linear_answer_loss(x, head, target, h, loss);
}

}  // namespace

// Each token is an answer of its own here, since a term depends on no other.
Tensor linear_grpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& advantages,
                        const GrpoOptions& o, const LinearLogProbOptions& h) {
  const char* op = "linear_grpo_loss";
  check_grpo(op, target.shape(), advantages, o);
  require(x.rank() == 3 && x.shape().without(2) == target.shape(),
          "{}: hidden states of shape {} and target of shape {} do not fit; give [B, T, H] and [B, T]", op, x.shape(),
          target.shape());
  const Tensor counts = target != h.ignore_index;
  GrpoOptions each = o, all = o;  // options of a token's term, and of the reduction
  each.old = each.reference = each.mask = all.old = all.reference = {};
  all.mask = o.mask.defined() ? logical_and(o.mask != 0, counts) : counts;
  if (has_ratio_of_answer(o)) {
    GrpoOptions with = o;
    with.mask = all.mask;
    return rounded_like(grpo_by_answer(op, x, head, target, advantages, with, h), x, head);
  }
  const Shape tokens{target.numel(), 1}, batch = target.shape();
  const auto by_token = [&](const Tensor& t) { return reshape(t, tokens); };
  AnswerLoss loss;
  loss.further = {by_token(expand(by_answer(widen(advantages)), batch)), by_token(all.mask)};
  for (const Tensor& t : {o.old, o.reference})
    if (t.defined()) loss.further.push_back(by_token(t));
  loss.terms = [op, each, has_old = o.old.defined(), has_reference = o.reference.defined()](const Tensor& log_probs,
                                                                                            const Tensors& further) {
    GrpoOptions with = each;
    with.mask = further[1];
    if (has_old) with.old = further[2];
    if (has_reference) with.reference = further.back();
    return reshape(grpo_terms(Precision(op, {log_probs, further[0]}), log_probs, further[0], with), {-1});
  };
  loss.reduce = [op, all, batch](const Tensor& terms) { return reduce_tokens(op, reshape(terms, batch), all); };
  const Tensor rows = reshape(x, {target.numel(), 1, x.size(2)});
  return rounded_like(linear_answer_loss(rows, head, reshape(target, tokens), h, loss), x, head);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

std::vector<LossInfo> linear_preference_entries() {
  return {
      describe("linear_dpo_loss", "linear", "dpo_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}, {"reference"}}, linear_dpo_loss),
      describe("linear_ipo_loss", "linear", "ipo_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}, {"reference"}}, linear_ipo_loss),
      describe("linear_orpo_loss", "linear", "orpo_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}}, linear_orpo_loss),
      describe("linear_simpo_loss", "linear", "simpo_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}}, linear_simpo_loss),
      describe("linear_cpo_loss", "linear", "cpo_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}}, linear_cpo_loss),
      describe("linear_kto_loss", "linear", "kto_loss of answers' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}, {"reference"}, {"desirable", false}}, linear_kto_loss),
      describe("linear_grpo_loss", "linear", "grpo_loss of tokens' log-probabilities, from hidden states",
               {{"x"}, {"head"}, {"target", false}, {"advantages"}}, linear_grpo_loss),
  };
}

}  // namespace ebb
