// SPDX-License-Identifier: MIT
#include "ebb/losses/preference.h"

#include <limits>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/one_pass.h"
#include "losses/preference_options.h"
#include "losses/preference_terms.h"
#include "losses/reduction.h"

namespace ebb {
namespace {

void require_smoothing(const char* op, double e) {
  require(e >= 0 && e <= 1, "{}: label_smoothing must be in [0, 1], got {}", op, e);
}
void require_beta(const char* op, double beta) { require(beta > 0, "{}: beta must be positive, got {}", op, beta); }

// −(1 − ε)·log σ(h) − ε·log σ(−h) of u = −h, the evidence against the chosen answer
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

Tensor one_number(const char* op, const Tensor& kl) {
  require(kl.numel() == 1, "{}: kl must be one number, got shape {}", op, kl.shape());
  return reshape(kl, Sizes(Shape{}));
}

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
// Where w is so large that the 1 does not count, log w = (r − c) + log of the quotient, even if w overflows.
struct OddsRatio {
  Tensor loss, share;             // −log σ(z), σ(−z)
  Tensor of_chosen, of_rejected;  // e^c − 1, e^r − 1
};
OddsRatio odds_ratio(const Tensor& c, const Tensor& r) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  OddsRatio o;
  o.of_chosen = expm1(c), o.of_rejected = expm1(r);
  const Tensor quotient = where(maximum(c, r) > 0, kNaN, abs(o.of_chosen / o.of_rejected));  // not a log-probability
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

// ---- for the registry -----------------------------------------------------------------------------------------------

std::vector<LossInfo> preference_entries() {
  return {
      describe("dpo_loss", "preference", "−log σ(β·((c − r) − (c_ref − r_ref)))",
               {{"chosen"}, {"rejected"}, {"ref_chosen"}, {"ref_rejected"}}, dpo_loss),
      describe("ipo_loss", "preference", "((c − r) − (c_ref − r_ref) − 1/(2β))²",
               {{"chosen"}, {"rejected"}, {"ref_chosen"}, {"ref_rejected"}}, ipo_loss),
      describe("kto_loss", "preference", "w·(1 − σ(±β·(policy − reference − kl)))",
               {{"policy"}, {"reference"}, {"desirable", false}}, kto_loss),
      describe("orpo_loss", "preference", "−c − β·log σ(log-odds c − log-odds r)", {{"chosen"}, {"rejected"}},
               orpo_loss),
      describe("simpo_loss", "preference", "−log σ(β·(c − r) − γ)", {{"chosen"}, {"rejected"}}, simpo_loss),
      describe("cpo_loss", "preference", "−log σ(β·(c − r)) − α·c", {{"chosen"}, {"rejected"}}, cpo_loss),
  };
}

}  // namespace ebb
