#include "ebb/losses/preference.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/linear_log_probs.h"
#include "losses/reduction.h"

namespace ebb {
namespace {

void require_smoothing(const char* op, double e) {
  require(e >= 0 && e <= 1, "{}: label_smoothing must be in [0, 1], got {}", op, e);
}
void require_beta(const char* op, double beta) { require(beta > 0, "{}: beta must be positive, got {}", op, beta); }

// −(1 − ε)·log σ(h) − ε·log σ(−h)
Tensor preferred(const Tensor& h, double smoothing) {
  if (smoothing == 0) return -log_sigmoid(h);
  return -((1 - smoothing) * log_sigmoid(h) + smoothing * log_sigmoid(-h));
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
  const Tensor h = o.beta * advantage_over_reference(op, p, chosen, rejected, ref_chosen, ref_rejected);
  return p.rounded(reduce(op, preferred(h, o.label_smoothing), o.reduction));
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

// KTO (Ethayarajh et al., 2024).   1 − σ(h) = σ(−h)
Tensor kto_loss(const Tensor& policy, const Tensor& reference, const Tensor& desirable, const KtoOptions& o) {
  const char* op = "kto_loss";
  require_beta(op, o.beta);
  require_same_shape(op, "policy", policy, "reference", reference);
  require_same_shape(op, "policy", policy, "desirable", desirable);
  require(desirable.dtype() == DType::bool_, Error::Kind::type, "{}: desirable must be bool, got {}", op,
          desirable.dtype());
  require(!o.kl.defined() || o.kl.numel() == 1, "{}: kl must be one number, got shape {}", op,
          o.kl.defined() ? o.kl.shape() : Shape{});
  const Precision p(op, {policy, reference});
  Tensor r = p.wide(policy) - p.wide(reference);
  if (o.kl.defined()) r = r - reshape(maximum(p.wide(stop_gradient(o.kl)), 0), Sizes(Shape{}));
  const Tensor h = o.beta * r;
  const Tensor terms = where(desirable, o.desirable_weight * sigmoid(-h), o.undesirable_weight * sigmoid(h));
  return p.rounded(reduce(op, terms, o.reduction));
}
std::vector<Tensor> kto_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& reference,
                                      const Tensor& desirable, const KtoOptions& o) {
  return pull_back("kto_loss", grad, {policy, reference, desirable},
                   [&o](const std::vector<Tensor>& v) { return kto_loss(v[0], v[1], v[2], o); });
}

// ORPO (Hong et al., 2024).   log odds of e^l = l − log(1 − e^l)
Tensor orpo_loss(const Tensor& chosen, const Tensor& rejected, const OrpoOptions& o) {
  const char* op = "orpo_loss";
  require_beta(op, o.beta);
  require_same_shape(op, "chosen", chosen, "rejected", rejected);
  const Precision p(op, {chosen, rejected});
  const Tensor c = p.wide(chosen), r = p.wide(rejected);
  const auto log_odds = [](const Tensor& l) { return l - log(-expm1(l)); };
  Tensor terms = -(o.beta * log_sigmoid(log_odds(c) - log_odds(r)));
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
  const Tensor h = o.beta * (p.wide(chosen) - p.wide(rejected)) - o.gamma;
  return p.rounded(reduce(op, preferred(h, o.label_smoothing), o.reduction));
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
  Tensor terms = preferred(o.beta * (c - p.wide(rejected)), o.label_smoothing);
  if (o.alpha != 0) terms = terms - o.alpha * c;
  return p.rounded(reduce(op, terms, o.reduction));
}
std::vector<Tensor> cpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const CpoOptions& o) {
  return pull_back("cpo_loss", grad, {chosen, rejected},
                   [&o](const std::vector<Tensor>& v) { return cpo_loss(v[0], v[1], o); });
}

// GRPO (Shao et al., 2024). The divergence is the unbiased estimate e^d − d − 1 >= 0; expm1 keeps its digits near 0.
Tensor grpo_loss(const Tensor& policy, const Tensor& advantages, const GrpoOptions& o) {
  const char* op = "grpo_loss";
  require(policy.rank() == 2, "{}: policy must be log-probabilities [B, T], got shape {}", op, policy.shape());
  require(advantages.shape() == Shape{policy.size(0)}, "{}: advantages of shape {} do not fit {} answers", op,
          advantages.shape(), policy.size(0));
  require(o.clip_low >= 0 && o.clip_low < 1 && o.clip_high >= 0,
          "{}: clips must be in [0, 1) and [0, inf), got {} and {}", op, o.clip_low, o.clip_high);
  for (const auto& [name, x] :
       {std::pair{"old", o.old}, std::pair{"reference", o.reference}, std::pair{"mask", o.mask}}) {
    if (x.defined()) require_same_shape(op, "policy", policy, name, x);
  }
  const Precision p(op, {policy, advantages});
  const Tensor l = p.wide(policy), a = reshape(p.wide(advantages), {-1, 1});
  const Tensor ratio = exp(l - (o.old.defined() ? p.wide(o.old) : stop_gradient(l)));
  Tensor terms = -minimum(ratio * a, clamp(ratio, 1 - o.clip_low, 1 + o.clip_high) * a);
  if (o.reference.defined() && o.beta != 0) {
    const Tensor d = p.wide(o.reference) - l;
    terms = terms + o.beta * (expm1(d) - d);
  }
  const Tensor mask = o.mask.defined() ? o.mask != 0 : ones(policy.shape(), DType::bool_);
  terms = where(mask, terms, 0);
  const Tensor counts = cast(mask, l.dtype());
  if (o.reduction != Reduction::mean) return p.rounded(reduce(op, terms, o.reduction));
  if (o.by_token) return p.rounded(sum(terms) / sum(counts));
  return p.rounded(mean(sum(terms, -1) / maximum(sum(counts, -1), 1)));
}
std::vector<Tensor> grpo_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& advantages,
                                       const GrpoOptions& o) {
  return pull_back("grpo_loss", grad, {policy, advantages},
                   [&o](const std::vector<Tensor>& v) { return grpo_loss(v[0], v[1], o); });
}

// ---- from hidden states and an LM head ------------------------------------------------------------------------------

namespace {

struct Answers {
  Tensor chosen, rejected;
};

Answers halves(const char* op, const Tensor& both) {
  require(both.rank() == 1 && both.size(0) % 2 == 0,
          "{}: needs as many rejected answers as chosen ones, the chosen first, got shape {}", op, both.shape());
  const std::int64_t n = both.size(0) / 2;
  return {narrow(both, 0, 0, n), narrow(both, 0, n, n)};
}

Answers answers(const char* op, const Tensor& x, const Tensor& head, const Tensor& target,
                const LinearLogProbOptions& o, bool average) {
  require(target.rank() == 2, "{}: target must be [2B, T], got shape {}", op, target.shape());
  return halves(op, wide_sequence_log_probs(x, head, target, o, average));
}

// Rounded once, at the end.
Tensor rounded_like(const Tensor& loss, const Tensor& x, const Tensor& head) {
  return cast(loss, promote(x.dtype(), head.dtype()));
}

}  // namespace

Tensor linear_dpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const DpoOptions& o, const LinearLogProbOptions& h) {
  const Answers a = answers("linear_dpo_loss", x, head, target, h, false), r = halves("linear_dpo_loss", reference);
  return rounded_like(dpo_loss(a.chosen, a.rejected, r.chosen, r.rejected, o), x, head);
}
Tensor linear_ipo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const IpoOptions& o, const LinearLogProbOptions& h) {
  const Answers a = answers("linear_ipo_loss", x, head, target, h, false), r = halves("linear_ipo_loss", reference);
  return rounded_like(ipo_loss(a.chosen, a.rejected, r.chosen, r.rejected, o), x, head);
}
Tensor linear_orpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const OrpoOptions& o,
                        const LinearLogProbOptions& h) {
  const Answers a = answers("linear_orpo_loss", x, head, target, h, true);
  return rounded_like(orpo_loss(a.chosen, a.rejected, o), x, head);
}
Tensor linear_simpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const SimpoOptions& o,
                         const LinearLogProbOptions& h) {
  const Answers a = answers("linear_simpo_loss", x, head, target, h, true);
  return rounded_like(simpo_loss(a.chosen, a.rejected, o), x, head);
}
Tensor linear_cpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const CpoOptions& o,
                       const LinearLogProbOptions& h) {
  const Answers a = answers("linear_cpo_loss", x, head, target, h, false);
  return rounded_like(cpo_loss(a.chosen, a.rejected, o), x, head);
}
Tensor linear_kto_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const Tensor& desirable, const KtoOptions& o, const LinearLogProbOptions& h) {
  return rounded_like(kto_loss(wide_sequence_log_probs(x, head, target, h, false), reference, desirable, o), x, head);
}
Tensor linear_grpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& advantages,
                        const GrpoOptions& o, const LinearLogProbOptions& h) {
  GrpoOptions with = o;
  const Tensor counts = target != h.ignore_index;
  with.mask = o.mask.defined() ? logical_and(o.mask != 0, counts) : counts;
  return rounded_like(grpo_loss(wide_log_probs(x, head, target, h), advantages, with), x, head);
}

}  // namespace ebb
