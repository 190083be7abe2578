// SPDX-License-Identifier: MIT
#include <array>

#include "core/format_error.h"
#include "ebb/losses/preference.h"
#include "ebb/ops.h"
#include "losses/preference_options.h"
#include "losses/preference_terms.h"
#include "losses/reduction.h"

// Policy gradients of tokens: GRPO.
namespace ebb {

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

namespace {

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

}  // namespace

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

// ---- as the registry has them ---------------------------------------------------------------------------------------

std::vector<LossInfo> policy_entries() {
  return {
      describe("grpo_loss", "preference",
               "−min(ρ·A, clip(ρ)·A) + β·(e^d − d − 1);  ρ = e^(policy − old), d = ref − policy",
               {{"policy"}, {"advantages"}}, grpo_loss),
  };
}

}  // namespace ebb
