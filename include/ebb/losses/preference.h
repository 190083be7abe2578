// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/losses/linear_cross_entropy.h"

// Losses for preference and policy optimisation of language models, from log-probabilities of whole answers [B] (sums
// over their tokens; averages for orpo and simpo), and fused forms that take hidden states and an LM head, where only
// few logits exist at a time. `*_backward` returns one cotangent per tensor argument, in order.
namespace ebb {

// ---- from log-probabilities -----------------------------------------------------------------------------------------

// −(1 − ε)·log σ(h) − ε·log σ(−h),  h = β·((chosen − rejected) − (ref_chosen − ref_rejected))
struct DpoOptions {
  double beta = 0.1;
  double label_smoothing = 0;  // ε: the share of labels believed to be swapped
  Reduction reduction = Reduction::mean;
};
Tensor dpo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& ref_chosen, const Tensor& ref_rejected,
                const DpoOptions& options = {});
std::vector<Tensor> dpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const Tensor& ref_chosen, const Tensor& ref_rejected,
                                      const DpoOptions& options = {});

// (h − 1/(2β))²,  h = (chosen − rejected) − (ref_chosen − ref_rejected)
struct IpoOptions {
  double beta = 0.1;
  Reduction reduction = Reduction::mean;
};
Tensor ipo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& ref_chosen, const Tensor& ref_rejected,
                const IpoOptions& options = {});
std::vector<Tensor> ipo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const Tensor& ref_chosen, const Tensor& ref_rejected,
                                      const IpoOptions& options = {});

// Individual answers, each desirable (true) or not:  w_d·(1 − σ(β·(r − z))) or w_u·(1 − σ(β·(z − r))),
// r = policy − reference, z = max(kl, 0) an estimate of their divergence, constant for differentiation
struct KtoOptions {
  double beta = 0.1;
  double desirable_weight = 1;
  double undesirable_weight = 1;
  Tensor kl = {};  // one number; default: 0
  Reduction reduction = Reduction::mean;
};
Tensor kto_loss(const Tensor& policy, const Tensor& reference, const Tensor& desirable, const KtoOptions& options = {});
std::vector<Tensor> kto_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& reference,
                                      const Tensor& desirable, const KtoOptions& options = {});

// −chosen − β·log σ(h),  h = log-odds of chosen − log-odds of rejected, of average log-probabilities
struct OrpoOptions {
  double beta = 0.1;
  bool likelihood = true;  // false: without the term −chosen
  Reduction reduction = Reduction::mean;
};
Tensor orpo_loss(const Tensor& chosen, const Tensor& rejected, const OrpoOptions& options = {});
std::vector<Tensor> orpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                       const OrpoOptions& options = {});

// −log σ(β·(chosen − rejected) − γ), of average log-probabilities
struct SimpoOptions {
  double beta = 2;
  double gamma = 1;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};
Tensor simpo_loss(const Tensor& chosen, const Tensor& rejected, const SimpoOptions& options = {});
std::vector<Tensor> simpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                        const SimpoOptions& options = {});

// −log σ(β·(chosen − rejected)) − α·chosen
struct CpoOptions {
  double beta = 0.1;
  double alpha = 1;  // of the likelihood of the chosen answer
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};
Tensor cpo_loss(const Tensor& chosen, const Tensor& rejected, const CpoOptions& options = {});
std::vector<Tensor> cpo_loss_backward(const Tensor& grad, const Tensor& chosen, const Tensor& rejected,
                                      const CpoOptions& options = {});

// Members of the GRPO family, by the names that TRL has for them. C is the number of tokens of an answer that count;
// `mean` is:
enum class GrpoLossType : std::uint8_t {
  grpo,     // over the tokens of each answer, then over answers
  bnpo,     // over all tokens that count
  dr_grpo,  // Σ / (B·max_completion_length): length has no influence
  dapo,     // Σ / num_items_in_batch
  cispo,  // as dapo; terms −min(ρ, 1 + high)·A·policy with a constant factor, so that no token loses its gradient
  gspo,   // as grpo; ρ is that of the answer, e^(Σ (policy − old)/C)
  sapo,   // as grpo; terms −(4/τ)·σ(τ·(ρ − 1))·A, a soft gate instead of the clip
  luspo,  // Σ over the tokens of each answer, then mean over answers; ρ as for gspo
};

// Token by token [B, T], with an advantage [B] for each answer, or [B, T] for each token:
//   −min(ρ·A, clip(ρ, 1 − low, 1 + high)·A) + β·(e^d − d − 1),  ρ = e^(policy − old),  d = reference − policy
struct GrpoOptions {
  GrpoLossType loss_type = GrpoLossType::grpo;
  double clip_low = 0.2;
  double clip_high = 0.2;
  double beta = 0.04;                      // of the divergence from the reference, if given
  Tensor old = {};                         // [B, T]; default: the policy itself, so that ρ = 1
  Tensor reference = {};                   // [B, T]
  Tensor mask = {};                        // [B, T]: tokens that count; default: all
  bool by_token = false;                   // mean over all tokens: bnpo
  double delta = 0;                        // > 0: the ratio that is not clipped is at most that, for answers with A < 0
  double sapo_temperature_pos = 1;         // τ of sapo where A > 0
  double sapo_temperature_neg = 1.05;      // τ of sapo elsewhere
  std::int64_t max_completion_length = 0;  // of dr_grpo; 0: T
  std::int64_t num_items_in_batch = 0;     // tokens that dapo and cispo divide by; 0: those that count here
  Reduction reduction = Reduction::mean;   // none: terms [B, T]
};
Tensor grpo_loss(const Tensor& policy, const Tensor& advantages, const GrpoOptions& options = {});
std::vector<Tensor> grpo_loss_backward(const Tensor& grad, const Tensor& policy, const Tensor& advantages,
                                       const GrpoOptions& options = {});

// ---- from hidden states and an LM head ------------------------------------------------------------------------------
// x [2B, T, H] and target [2B, T], the chosen answers first, then the rejected ones; tokens with ignore_index do not
// count. `reference` holds the reference model's log-probabilities of the answers [2B] (linear_sequence_log_probs of
// its own hidden states gives them).
//
// Logits exist for `chunk` rows at a time: for as many whole pairs (kto: answers, grpo: tokens) as fit. Their value and
// gradients are computed together, with three products. The logits of a pair with more rows are computed twice. The
// default of 0 means about 64 MB of logits, at least 128 rows; up to twice as many where one pair needs them.

Tensor linear_dpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const DpoOptions& options = {}, const LinearLogProbOptions& head_options = {});
Tensor linear_ipo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const IpoOptions& options = {}, const LinearLogProbOptions& head_options = {});
Tensor linear_orpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const OrpoOptions& options = {},
                        const LinearLogProbOptions& head_options = {});
Tensor linear_simpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const SimpoOptions& options = {},
                         const LinearLogProbOptions& head_options = {});
Tensor linear_cpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const CpoOptions& options = {},
                       const LinearLogProbOptions& head_options = {});
// Individual answers: x [B, T, H], reference and desirable [B].
Tensor linear_kto_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& reference,
                       const Tensor& desirable, const KtoOptions& options = {},
                       const LinearLogProbOptions& head_options = {});
// x [B, T, H], advantages [B]; tokens with ignore_index are masked.
Tensor linear_grpo_loss(const Tensor& x, const Tensor& head, const Tensor& target, const Tensor& advantages,
                        const GrpoOptions& options = {}, const LinearLogProbOptions& head_options = {});

}  // namespace ebb
