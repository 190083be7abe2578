// SPDX-License-Identifier: MIT
#include <array>
#include <string_view>
#include <utility>

#include "core/format_error.h"
#include "ebb/losses/preference.h"
#include "ebb/ops.h"
#include "losses/preference_options.h"
#include "losses/preference_terms.h"
#include "losses/reduction.h"

// Policy gradients of tokens: GRPO and its family.
namespace ebb {
namespace {

constexpr std::pair<std::string_view, GrpoLossType> kTypes[] = {
    {"grpo", GrpoLossType::grpo}, {"bnpo", GrpoLossType::bnpo},   {"dr_grpo", GrpoLossType::dr_grpo},
    {"dapo", GrpoLossType::dapo}, {"cispo", GrpoLossType::cispo}, {"gspo", GrpoLossType::gspo},
    {"sapo", GrpoLossType::sapo}, {"luspo", GrpoLossType::luspo}};

}  // namespace

std::string_view name_of(GrpoLossType type) { return kTypes[static_cast<int>(type)].first; }

GrpoLossType grpo_loss_type_from_name(std::string_view given) {
  for (const auto& [text, type] : kTypes) {
    if (text == given) return type;
  }
  fail(Error::Kind::value, "loss_type: '{}' is not grpo, bnpo, dr_grpo, dapo, cispo, gspo, sapo or luspo", given);
}

bool has_ratio_of_answer(const GrpoOptions& o) {
  return o.loss_type == GrpoLossType::gspo || o.loss_type == GrpoLossType::luspo;
}

void check_grpo(const char* op, const Shape& policy, const Tensor& advantages, const GrpoOptions& o) {
  require(policy.rank() == 2, "{}: policy must be log-probabilities [B, T], got shape {}", op, policy);
  require(advantages.shape() == Shape{policy[0]} || advantages.shape() == policy,
          "{}: advantages of shape {} do not fit {} answers of {} tokens; give [B] or [B, T]", op, advantages.shape(),
          policy[0], policy[1]);
  require(!o.by_token || o.loss_type == GrpoLossType::grpo, "{}: by_token is for loss_type grpo, got {}", op,
          name_of(o.loss_type));
  require(o.delta == 0 || o.delta > 1 + o.clip_high,
          "{}: delta must be above 1 + clip_high = {}, or 0 for none, got {}", op, 1 + o.clip_high, o.delta);
  require(o.sapo_temperature_pos > 0 && o.sapo_temperature_neg > 0, "{}: temperatures must be positive, got {} and {}",
          op, o.sapo_temperature_pos, o.sapo_temperature_neg);
  require(o.max_completion_length >= 0 && o.num_items_in_batch >= 0,
          "{}: max_completion_length and num_items_in_batch must not be negative, got {} and {}", op,
          o.max_completion_length, o.num_items_in_batch);
  require(o.clip_low >= 0 && o.clip_low < 1 && o.clip_high >= 0,
          "{}: clips must be in [0, 1) and [0, inf), got {} and {}", op, o.clip_low, o.clip_high);
  for (const auto& [name, x] :
       {std::pair{"old", o.old}, std::pair{"reference", o.reference}, std::pair{"mask", o.mask}}) {
    require(!x.defined() || x.shape() == policy, "{}: policy of shape {} and {} of shape {} must have the same shape",
            op, policy, name, x.defined() ? x.shape() : Shape{});
  }
}

namespace {

// −min(r·a, clamp(r)·a) = max(r·n, clamp(r)·n),   n = −a.    dr = n, 0 where the clamped one is larger: inside the clip
// both are the same. With a delta, r is at most that in the first one.
Tensor clipped_ratio(const Tensor& ratio, const Tensor& advantages, const GrpoOptions& o) {
  const Shape shape = broadcast_shapes("grpo_loss", ratio.shape(), advantages.shape());
  auto parts = [low = 1 - o.clip_low, high = 1 + o.clip_high, delta = o.delta](const std::vector<Tensor>& v) {
    const Tensor n = -v[1], r = delta > 0 ? minimum(v[0], delta) : v[0], clamped = clamp(v[0], low, high);
    return std::array{n, r, r * n, clamped, clamped * n};
  };
  return custom_function(
      [parts](const std::vector<Tensor>& v) {
        const auto [n, r, free, clamped, held] = parts(v);
        return maximum(free, held);
      },
      [parts, delta = o.delta](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        const auto [n, r, free, clamped, held] = parts(v);
        const Tensor chosen = where(free < held, clamped, where(free == held, 0.5 * (r + clamped), r));
        const Tensor flat = delta > 0 ? logical_or(free<held, v[0]> delta) : free < held;
        return std::vector<Tensor>{where(flat, 0, grad * n), -grad * chosen};
      },
      {broadcast_to(ratio, shape), broadcast_to(advantages, shape)});
}

// CISPO (MiniMax, 2025): the gradient of every token, weighted by its clipped ratio.
Tensor weighted_log_prob(const Tensor& l, const Tensor& ratio, const Tensor& advantages, const GrpoOptions& o) {
  return -(minimum(stop_gradient(ratio), 1 + o.clip_high) * advantages * l);
}

// SAPO (Qwen, 2025): (4/τ)·σ(τ·(r − 1)), which is r near 1 up to a constant, and flat far from it.
Tensor soft_gate(const Tensor& ratio, const Tensor& advantages, const GrpoOptions& o) {
  const Tensor t = where(advantages > 0, full({}, o.sapo_temperature_pos, ratio.dtype()), o.sapo_temperature_neg);
  return -(sigmoid(t * (ratio - 1)) * (4 / t) * advantages);
}

// Mean of x, which is 0 elsewhere, over the counted tokens, [B, 1].
Tensor mean_of_answer(const Tensor& x, const Tensor& mask) {
  if (!mask.defined()) return mean(x, -1, true);
  return sum(x, -1, true) / maximum(sum(cast(mask != 0, x.dtype()), -1, true), 1);
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

}  // namespace

// GRPO (Shao et al., 2024). Advantages repeat along the policy's axes; the terms are not rounded.
Tensor grpo_terms(const Precision& p, const Tensor& policy, const Tensor& advantages, const GrpoOptions& o) {
  // Values of ignored tokens are arbitrary, possibly NaN.
  const auto counted = [&o](const Tensor& x) { return o.mask.defined() ? where(o.mask != 0, x, 0) : x; };
  const Tensor l = counted(p.wide(policy));
  Tensor log_ratio = counted(l - (o.old.defined() ? p.wide(o.old) : stop_gradient(l)));
  if (has_ratio_of_answer(o)) log_ratio = mean_of_answer(log_ratio, o.mask);
  const Tensor ratio = exp(log_ratio), a = p.wide(advantages);
  Tensor terms = o.loss_type == GrpoLossType::cispo  ? weighted_log_prob(l, ratio, a, o)
                 : o.loss_type == GrpoLossType::sapo ? soft_gate(ratio, a, o)
                                                     : clipped_ratio(ratio, a, o);
  terms = broadcast_to(terms, l.shape());
  if (o.reference.defined() && o.beta != 0) {
    terms = fma(divergence_estimate(l, counted(p.wide(o.reference))), o.beta, terms);
  }
  return counted(terms);
}

Tensor reduce_tokens(const char* op, const Tensor& terms, const GrpoOptions& o) {
  if (o.reduction != Reduction::mean) return reduce(op, terms, o.reduction);
  const Tensor mask = o.mask.defined() ? o.mask != 0 : ones(terms.shape(), DType::bool_);
  const Tensor counts = cast(mask, terms.dtype());
  if (o.by_token) return sum(terms) / sum(counts);
  const auto answers = static_cast<double>(terms.size(0));
  switch (o.loss_type) {
    case GrpoLossType::bnpo:
      return sum(terms) / maximum(sum(counts), 1);
    case GrpoLossType::dr_grpo: {
      const std::int64_t length = o.max_completion_length > 0 ? o.max_completion_length : terms.size(1);
      return sum(terms) / (answers * static_cast<double>(length));
    }
    case GrpoLossType::dapo:
    case GrpoLossType::cispo:
      return o.num_items_in_batch > 0 ? sum(terms) / static_cast<double>(o.num_items_in_batch)
                                      : sum(terms) / maximum(sum(counts), 1);
    case GrpoLossType::luspo:
      return sum(terms) / answers;
    case GrpoLossType::grpo:
    case GrpoLossType::gspo:
    case GrpoLossType::sapo:
      break;
  }
  return mean(sum(terms, -1) / maximum(sum(counts, -1), 1));
}

Tensor by_answer(const Tensor& advantages) {
  return advantages.rank() == 1 ? reshape(advantages, {-1, 1}) : advantages;
}

Tensor grpo_loss(const Tensor& policy, const Tensor& advantages, const GrpoOptions& o) {
  const char* op = "grpo_loss";
  check_grpo(op, policy.shape(), advantages, o);
  const Precision p(op, {policy, advantages});
  return p.rounded(reduce_tokens(op, grpo_terms(p, policy, by_answer(advantages), o), o));
}
std::vector<Tensor> grpo_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& advantages,
                                       const GrpoOptions& o) {
  return pull_back("grpo_loss", grad, {policy, advantages},
                   [&o](const std::vector<Tensor>& v) { return grpo_loss(v[0], v[1], o); });
}

// ---- for the registry -----------------------------------------------------------------------------------------------

std::vector<LossInfo> policy_entries() {
  return {
      describe("grpo_loss", "preference",
               "−min(ρ·A, clip(ρ)·A) + β·(e^d − d − 1);  ρ = e^(policy − old), d = ref − policy",
               {{"policy"}, {"advantages"}}, grpo_loss),
  };
}

}  // namespace ebb
