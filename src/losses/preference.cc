#include "ebb/losses/preference.h"

#include <array>
#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/linear_answers.h"
#include "losses/one_pass.h"
#include "losses/reduction.h"

namespace ebb {
namespace {

void require_smoothing(const char* op, double e) {
  require(e >= 0 && e <= 1, "{}: label_smoothing must be in [0, 1], got {}", op, e);
}
void require_beta(const char* op, double beta) { require(beta > 0, "{}: beta must be positive, got {}", op, beta); }

// −(1 − ε)·log σ(h) − ε·log σ(−h) of u = −h, what speaks against the chosen answer
Tensor preferred(const Tensor& u, double smoothing) {
  if (smoothing == 0) return softplus(u);
  return (1 - smoothing) * softplus(u) + smoothing * softplus(-u);
}

// How much more the policy prefers the chosen answer than the reference does.
Tensor advantage_over_reference(const char* op, const Precision& p, const Tensor& chosen, const Tensor& rejected,
                                const Tensor& ref_chosen, const Tensor& ref_rejected) {
  require_same_shape(op, "chosen", chosen, "rejected", rejected);
  require_same_shape(op, "chosen", chosen, "ref_chosen", ref_chosen);
  require_same_shape(op, "chosen", chosen, "ref_rejected", ref_rejected);
  return (p.wide(chosen) - p.wide(rejected)) - (p.wide(ref_chosen) - p.wide(ref_rejected));
}

}  // namespace

// DPO (Rafailov et al., 2023).
Tensor dpo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& ref_chosen, const Tensor& ref_rejected,
                const DpoOptions& o) {
  const char* op = "dpo_loss";
  require_beta(op, o.beta);
  require_smoothing(op, o.label_smoothing);
  const Precision p(op, {chosen, rejected, ref_chosen, ref_rejected});
  const Tensor u = -o.beta * advantage_over_reference(op, p, chosen, rejected, ref_chosen, ref_rejected);
  return p.rounded(reduce(op, preferred(u, o.label_smoothing), o.reduction));
}
std::vector<Tensor> dpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const Tensor& ref_chosen, const Tensor& ref_rejected, const DpoOptions& o) {
  return pull_back("dpo_loss", grad, {chosen, rejected, ref_chosen, ref_rejected},
                   [&o](const std::vector<Tensor>& v) { return dpo_loss(v[0], v[1], v[2], v[3], o); });
}

// IPO (Azar et al., 2023).
Tensor ipo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& ref_chosen, const Tensor& ref_rejected,
                const IpoOptions& o) {
  const char* op = "ipo_loss";
  require_beta(op, o.beta);
  const Precision p(op, {chosen, rejected, ref_chosen, ref_rejected});
  const Tensor h = advantage_over_reference(op, p, chosen, rejected, ref_chosen, ref_rejected);
  return p.rounded(reduce(op, square(h - 1 / (2 * o.beta)), o.reduction));
}
std::vector<Tensor> ipo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const Tensor& ref_chosen, const Tensor& ref_rejected, const IpoOptions& o) {
  return pull_back("ipo_loss", grad, {chosen, rejected, ref_chosen, ref_rejected},
                   [&o](const std::vector<Tensor>& v) { return ipo_loss(v[0], v[1], v[2], v[3], o); });
}

namespace {

Tensor one_number(const char* op, const Tensor& kl) {
  require(kl.numel() == 1, "{}: kl must be one number, got shape {}", op, kl.shape());
  return reshape(kl, Sizes(Shape{}));
}

}  // namespace

// KTO (Ethayarajh et al., 2024).   1 − σ(h) = σ(−h): one sigmoid, of ±β·r.   derivative ±β·w·s·(1 − s)
Tensor kto_loss(const Tensor& policy, const Tensor& reference, const Tensor& desirable, const KtoOptions& o) {
  const char* op = "kto_loss";
  require_beta(op, o.beta);
  require_same_shape(op, "policy", policy, "reference", reference);
  require_same_shape(op, "policy", policy, "desirable", desirable);
  require(desirable.dtype() == DType::bool_, Error::Kind::type, "{}: desirable must be bool, got {}", op,
          desirable.dtype());
  const Precision p(op, {policy, reference});
  Tensor r = p.wide(policy) - p.wide(reference);
  if (o.kl.defined()) r = r - maximum(p.wide(stop_gradient(one_number(op, o.kl))), 0);
  auto choose = [desirable](const Tensor& yes, const Tensor& no) { return where(desirable, yes, no); };
  auto probability = [choose, beta = o.beta](const Tensor& r) {
    const Tensor b = full({}, beta, r.dtype());
    return sigmoid(choose(-b, b) * r);
  };
  const Tensor terms = custom_function(
      [=](const std::vector<Tensor>& v) {
        const Tensor one = ones({}, v[0].dtype()), s = probability(v[0]);
        return o.desirable_weight == o.undesirable_weight
                   ? o.desirable_weight * s
                   : choose(o.desirable_weight * one, o.undesirable_weight * one) * s;
      },
      [=](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        const Tensor s = probability(v[0]);
        return std::vector<Tensor>{choose(-o.beta * o.desirable_weight * grad, o.beta * o.undesirable_weight * grad) *
                                   (s * (1 - s))};
      },
      {r});
  return p.rounded(reduce(op, terms, o.reduction));
}
std::vector<Tensor> kto_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& reference,
                                      const Tensor& desirable, const KtoOptions& o) {
  return pull_back("kto_loss", grad, {policy, reference, desirable},
                   [&o](const std::vector<Tensor>& v) { return kto_loss(v[0], v[1], v[2], o); });
}

namespace {

// The odds ratio of ORPO. log odds of e^l = l − log(1 − e^l), whose derivative is 1/(1 − e^l); z is the chosen answer's
// less the rejected one's.    −log σ(z) = log(1 + w),   w = e^−z = e^(r − c)·(1 − e^c)/(1 − e^r),   σ(−z) = w/(1 + w)
// Where w is so large that the 1 does not count, log w = (r − c) + log of the quotient, whatever w overflows to.
struct OddsRatio {
  Tensor loss, share;             // −log σ(z), σ(−z)
  Tensor of_chosen, of_rejected;  // e^c − 1, e^r − 1
};
OddsRatio odds_ratio(const Tensor& c, const Tensor& r) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  OddsRatio o;
  o.of_chosen = expm1(c), o.of_rejected = expm1(r);
  const Tensor quotient = where(maximum(c, r) > 0, kNaN, abs(o.of_chosen / o.of_rejected));  // no log-probability
  const Tensor difference = r - c, w = exp(difference) * quotient, large = w > 1e15;
  o.loss = log1p(where(large, quotient - 1, w)) + where(large, difference, 0);
  o.share = where(large, 1, w / (1 + w));
  return o;
}
Tensor odds_share(const Tensor& c, const Tensor& r) {
  const auto log_odds = [](const Tensor& l) { return l - log(-expm1(l)); };
  return sigmoid(log_odds(r) - log_odds(c));
}

Tensor odds_ratio_loss(const Tensor& chosen, const Tensor& rejected) {
  using Tensors = std::vector<Tensor>;
  return custom_function(
      [](const Tensors& v) { return odds_ratio(v[0], v[1]).loss; },
      [](const Tensor& grad, const Tensor&, const Tensors& v) {
        const Tensors all{grad, v[0], v[1]};
        return Tensors{differentiated_as([](const Tensors& g) { return g[0] * odds_share(g[1], g[2]) / expm1(g[1]); },
                                         [](const Tensors& g) {
                                           const OddsRatio o = odds_ratio(g[1], g[2]);
                                           return g[0] * o.share / o.of_chosen;
                                         },
                                         all),
                       differentiated_as([](const Tensors& g) { return -g[0] * odds_share(g[1], g[2]) / expm1(g[2]); },
                                         [](const Tensors& g) {
                                           const OddsRatio o = odds_ratio(g[1], g[2]);
                                           return -(g[0] * o.share / o.of_rejected);
                                         },
                                         all)};
      },
      {chosen, rejected});
}

}  // namespace

// ORPO (Hong et al., 2024).
Tensor orpo_loss(const Tensor& chosen, const Tensor& rejected, const OrpoOptions& o) {
  const char* op = "orpo_loss";
  require_beta(op, o.beta);
  require_same_shape(op, "chosen", chosen, "rejected", rejected);
  const Precision p(op, {chosen, rejected});
  const Tensor c = p.wide(chosen);
  Tensor terms = o.beta * odds_ratio_loss(c, p.wide(rejected));
  if (o.likelihood) terms = terms - c;
  return p.rounded(reduce(op, terms, o.reduction));
}
std::vector<Tensor> orpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                       const OrpoOptions& o) {
  return pull_back("orpo_loss", grad, {chosen, rejected},
                   [&o](const std::vector<Tensor>& v) { return orpo_loss(v[0], v[1], o); });
}

// SimPO (Meng et al., 2024).
Tensor simpo_loss(const Tensor& chosen, const Tensor& rejected, const SimpoOptions& o) {
  const char* op = "simpo_loss";
  require_beta(op, o.beta);
  require_smoothing(op, o.label_smoothing);
  require_same_shape(op, "chosen", chosen, "rejected", rejected);
  const Precision p(op, {chosen, rejected});
  const Tensor u = fma(p.wide(chosen) - p.wide(rejected), -o.beta, o.gamma);
  return p.rounded(reduce(op, preferred(u, o.label_smoothing), o.reduction));
}
std::vector<Tensor> simpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                        const SimpoOptions& o) {
  return pull_back("simpo_loss", grad, {chosen, rejected},
                   [&o](const std::vector<Tensor>& v) { return simpo_loss(v[0], v[1], o); });
}

// CPO (Xu et al., 2024).
Tensor cpo_loss(const Tensor& chosen, const Tensor& rejected, const CpoOptions& o) {
  const char* op = "cpo_loss";
  require_beta(op, o.beta);
  require_smoothing(op, o.label_smoothing);
  require_same_shape(op, "chosen", chosen, "rejected", rejected);
  const Precision p(op, {chosen, rejected});
  const Tensor c = p.wide(chosen);
  Tensor terms = preferred(-o.beta * (c - p.wide(rejected)), o.label_smoothing);
  if (o.alpha != 0) terms = terms - o.alpha * c;
  return p.rounded(reduce(op, terms, o.reduction));
}
std::vector<Tensor> cpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const CpoOptions& o) {
  return pull_back("cpo_loss", grad, {chosen, rejected},
                   [&o](const std::vector<Tensor>& v) { return cpo_loss(v[0], v[1], o); });
}

namespace {

void check_grpo(const char* op, const Shape& policy, const Tensor& advantages, const GrpoOptions& o) {
  require(policy.rank() == 2, "{}: policy must be log-probabilities [B, T], got shape {}", op, policy);
  require(advantages.shape() == Shape{policy[0]}, "{}: advantages of shape {} do not fit {} answers", op,
          advantages.shape(), policy[0]);
  require(o.clip_low >= 0 && o.clip_low < 1 && o.clip_high >= 0,
          "{}: clips must be in [0, 1) and [0, inf), got {} and {}", op, o.clip_low, o.clip_high);
  for (const auto& [name, x] :
       {std::pair{"old", o.old}, std::pair{"reference", o.reference}, std::pair{"mask", o.mask}}) {
    require(!x.defined() || x.shape() == policy, "{}: policy of shape {} and {} of shape {} must have the same shape",
            op, policy, name, x.defined() ? x.shape() : Shape{});
  }
}

// −min(r·a, clamp(r)·a) = max(r·n, clamp(r)·n),   n = −a.    dr = n, 0 where the clamped one is larger: inside the clip
// both are the same
Tensor clipped_ratio(const Tensor& ratio, const Tensor& advantages, const GrpoOptions& o) {
  auto parts = [low = 1 - o.clip_low, high = 1 + o.clip_high](const std::vector<Tensor>& v) {
    const Tensor n = -v[1];
    return std::array{n, v[0] * n, clamp(v[0], low, high), clamp(v[0], low, high) * n};
  };
  return custom_function(
      [parts](const std::vector<Tensor>& v) {
        const auto [n, free, clamped, held] = parts(v);
        return maximum(free, held);
      },
      [parts](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        const auto [n, free, clamped, held] = parts(v);
        const Tensor chosen = where(free < held, clamped, where(free == held, 0.5 * (v[0] + clamped), v[0]));
        return std::vector<Tensor>{where(free < held, 0, grad * n), -grad * chosen};
      },
      {ratio, broadcast_to(advantages, ratio.shape())});
}

// The unbiased estimate e^d − d − 1 >= 0 of the divergence from a reference, d = reference − l; expm1 keeps its digits
// near 0, and is its derivative.
Tensor divergence_estimate(const Tensor& l, const Tensor& reference) {
  return custom_function(
      [](const std::vector<Tensor>& v) {
        const Tensor d = v[1] - v[0];
        return expm1(d) - d;
      },
      [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        const Tensor e = expm1(v[1] - v[0]);
        return std::vector<Tensor>{-grad * e, grad * e};
      },
      {l, reference});
}

// GRPO (Shao et al., 2024). Advantages repeat along the policy's axes; the terms are not rounded.
Tensor grpo_terms(const Precision& p, const Tensor& policy, const Tensor& advantages, const GrpoOptions& o) {
  const Tensor l = p.wide(policy);
  const Tensor ratio = exp(l - (o.old.defined() ? p.wide(o.old) : stop_gradient(l)));
  Tensor terms = clipped_ratio(ratio, p.wide(advantages), o);
  if (o.reference.defined() && o.beta != 0) {
    terms = fma(divergence_estimate(l, p.wide(o.reference)), o.beta, terms);
  }
  return o.mask.defined() ? where(o.mask != 0, terms, 0) : terms;
}

Tensor reduce_tokens(const char* op, const Tensor& terms, const GrpoOptions& o) {
  if (o.reduction != Reduction::mean) return reduce(op, terms, o.reduction);
  const Tensor mask = o.mask.defined() ? o.mask != 0 : ones(terms.shape(), DType::bool_);
  const Tensor counts = cast(mask, terms.dtype());
  if (o.by_token) return sum(terms) / sum(counts);
  return mean(sum(terms, -1) / maximum(sum(counts, -1), 1));
}

}  // namespace

Tensor grpo_loss(const Tensor& policy, const Tensor& advantages, const GrpoOptions& o) {
  const char* op = "grpo_loss";
  check_grpo(op, policy.shape(), advantages, o);
  const Precision p(op, {policy, advantages});
  return p.rounded(reduce_tokens(op, grpo_terms(p, policy, reshape(advantages, {-1, 1}), o), o));
}
std::vector<Tensor> grpo_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& advantages,
                                       const GrpoOptions& o) {
  return pull_back("grpo_loss", grad, {policy, advantages},
                   [&o](const std::vector<Tensor>& v) { return grpo_loss(v[0], v[1], o); });
}

// ---- from hidden states and an LM head ------------------------------------------------------------------------------

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

// The loss `formula` gives to pairs; with a reference, also to its pairs.
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
// Each token is an answer of its own here: a term needs no other.
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
  const Shape tokens{target.numel(), 1}, batch = target.shape();
  const auto by_token = [&](const Tensor& t) { return reshape(t, tokens); };
  AnswerLoss loss;
  loss.further = {by_token(expand(reshape(advantages, {-1, 1}), batch)), by_token(all.mask)};
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

}  // namespace ebb
