#include "ebb/losses/alignment.h"
#include "ebb/losses/contrastive.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/losses/preference.h"
#include "losses/registry_entries.h"

// Losses of sequences, embeddings, language models and preferences, as the registry describes them.
namespace ebb {
namespace {

const std::vector<LossInput> kAlignment{
    {"log_probs"}, {"targets", false}, {"input_lengths", false}, {"target_lengths", false}};
const std::vector<LossInput> kViews{{"first"}, {"second"}};
const std::vector<LossInput> kPair{{"chosen"}, {"rejected"}};
const std::vector<LossInput> kPairWithReference{{"chosen"}, {"rejected"}, {"ref_chosen"}, {"ref_rejected"}};
constexpr LossInput kBias{"bias", true, true};
const std::vector<LossInput> kLinear{{"x"}, {"head"}, {"target", false}, kBias};
const std::vector<LossInput> kLinearWithReference{{"x"}, {"head"}, {"target", false}, {"reference"}, kBias};
constexpr LossOption kBlank{"blank", "0", "the label that stands for none"};
constexpr LossOption kIgnoreIndex{"ignore_index", "-100", "a target that does not count"};
constexpr LossOption kSoftcap{"softcap", "0", "> 0: bounds the logits by softcap·tanh(x/softcap)"};
constexpr LossOption kChunk{"chunk", "0", "rows whose logits exist at a time; 0: chosen"};
constexpr LossOption kTemperature{"temperature", "1", "divides the logits; not together with a softcap"};
constexpr LossOption kSmoothing{"label_smoothing", "0", "the share of labels believed to be swapped"};

using A = const LossArguments&;

// Of the fused forms, whose bias is that input.
LinearLogProbOptions head_options(A a, std::size_t bias) {
  return {.bias = a.input(bias),
          .ignore_index = a.integer("ignore_index", -100),
          .softcap = a.number("softcap", 0),
          .temperature = a.number("temperature", 1),
          .chunk = a.integer("chunk", 0)};
}
DpoOptions dpo(A a) {
  return {.beta = a.number("beta", 0.1), .label_smoothing = a.number("label_smoothing", 0), .reduction = a.reduction()};
}
IpoOptions ipo(A a) { return {.beta = a.number("beta", 0.1), .reduction = a.reduction()}; }
OrpoOptions orpo(A a) {
  return {.beta = a.number("beta", 0.1), .likelihood = a.flag("likelihood", true), .reduction = a.reduction()};
}
SimpoOptions simpo(A a) {
  return {.beta = a.number("beta", 2),
          .gamma = a.number("gamma", 1),
          .label_smoothing = a.number("label_smoothing", 0),
          .reduction = a.reduction()};
}
CpoOptions cpo(A a) {
  return {.beta = a.number("beta", 0.1),
          .alpha = a.number("alpha", 1),
          .label_smoothing = a.number("label_smoothing", 0),
          .reduction = a.reduction()};
}
KtoOptions kto(A a, std::size_t kl) {
  return {.beta = a.number("beta", 0.1),
          .desirable_weight = a.number("desirable_weight", 1),
          .undesirable_weight = a.number("undesirable_weight", 1),
          .kl = a.input(kl),
          .reduction = a.reduction()};
}
GrpoOptions grpo(A a, std::size_t old) {
  return {.clip_low = a.number("clip_low", 0.2),
          .clip_high = a.number("clip_high", 0.2),
          .beta = a.number("beta", 0.04),
          .old = a.input(old),
          .reference = a.input(old + 1),
          .mask = a.input(old + 2),
          .by_token = a.flag("by_token", false),
          .reduction = a.reduction()};
}

const std::vector<LossOption> kDpoOptions{
    {"beta", "0.1", "how strongly the reference holds the policy"}, kSmoothing, kReductionOption};
const std::vector<LossOption> kIpoOptions{{"beta", "0.1", "how strongly the reference holds the policy"},
                                          kReductionOption};
const std::vector<LossOption> kOrpoOptions{
    {"beta", "0.1", "the weight of the odds"}, {"likelihood", "1", "0: without the term −chosen"}, kReductionOption};
const std::vector<LossOption> kSimpoOptions{
    {"beta", "2", "the scale of the difference"}, {"gamma", "1", "the margin"}, kSmoothing, kReductionOption};
const std::vector<LossOption> kCpoOptions{{"beta", "0.1", "the scale of the difference"},
                                          {"alpha", "1", "the weight of the likelihood of the chosen answer"},
                                          kSmoothing,
                                          kReductionOption};
const std::vector<LossOption> kKtoOptions{{"beta", "0.1", "how strongly the reference holds the policy"},
                                          {"desirable_weight", "1", "what a desirable answer counts"},
                                          {"undesirable_weight", "1", "what an undesirable answer counts"},
                                          kReductionOption};
const std::vector<LossOption> kGrpoOptions{{"clip_low", "0.2", "how far the ratio may fall below 1"},
                                           {"clip_high", "0.2", "how far the ratio may rise above 1"},
                                           {"beta", "0.04", "the weight of the divergence from the reference"},
                                           {"by_token", "0", "1: the mean is over all tokens"},
                                           kReductionOption};

// The options of a loss and those of the head that its fused form has.
std::vector<LossOption> with_head(std::vector<LossOption> options) {
  options.insert(options.end() - 1, {kIgnoreIndex, kSoftcap, kTemperature, kChunk});
  return options;
}

}  // namespace

std::vector<LossInfo> alignment_entries() {
  return {
      {"ctc_loss",
       "alignment",
       "−log Σ over alignments of Π p",
       kAlignment,
       {kBlank, {"zero_infinity", "0", "1: a sample with no possible alignment counts 0"}, kReductionOption},
       [](A a) {
         return ctc_loss(a.input(0), a.input(1), a.input(2), a.input(3),
                         {.blank = a.integer("blank", 0),
                          .reduction = a.reduction(),
                          .zero_infinity = a.flag("zero_infinity", false)});
       }},
      {"rnnt_loss",
       "alignment",
       "−log Σ over paths through the lattice of Π p",
       kAlignment,
       {kBlank, kReductionOption},
       [](A a) {
         return rnnt_loss(a.input(0), a.input(1), a.input(2), a.input(3),
                          {.blank = a.integer("blank", 0), .reduction = a.reduction()});
       }},
  };
}

std::vector<LossInfo> contrastive_entries() {
  const LossOption reduction = kReductionOption;
  return {
      {"info_nce",
       "contrastive",
       "−log e^(q_i·k_i/τ) / Σ_j e^(q_i·k_j/τ)",
       {{"query"}, {"key"}, {"negatives", true, true}},
       {{"temperature", "0.1", "τ"}, {"normalize", "1", "0: rows keep their lengths"}, reduction},
       [](A a) {
         return info_nce(a.input(0), a.input(1),
                         {.negatives = a.input(2),
                          .temperature = a.number("temperature", 0.1),
                          .normalize = a.flag("normalize", true),
                          .reduction = a.reduction()});
       }},
      {"nt_xent",
       "contrastive",
       "−log e^(z_i·z'_i/τ) / Σ_{j≠i} e^(z_i·z_j/τ)",
       kViews,
       {{"temperature", "0.5", "τ"}, reduction},
       [](A a) {
         return nt_xent(a.input(0), a.input(1),
                        {.temperature = a.number("temperature", 0.5), .reduction = a.reduction()});
       }},
      {"supcon_loss",
       "contrastive",
       "−mean_{p: same label} log e^(z_i·z_p/τ) / Σ_{j≠i} e^(z_i·z_j/τ)",
       {{"features"}, {"labels", false}},
       {{"temperature", "0.07", "τ"}, reduction},
       [](A a) {
         return supcon_loss(a.input(0), a.input(1),
                            {.temperature = a.number("temperature", 0.07), .reduction = a.reduction()});
       }},
      {"arcface_loss",
       "contrastive",
       "cross_entropy(s·cos θ, y) with cos(θ_y + m) for the target",
       {{"embeddings"}, {"weight"}, {"target", false}},
       {{"margin", "0.5", "an angle"}, {"scale", "64", "of the cosines"}, reduction},
       [](A a) {
         return arcface_loss(
             a.input(0), a.input(1), a.input(2),
             {.margin = a.number("margin", 0.5), .scale = a.number("scale", 64), .reduction = a.reduction()});
       }},
      {"cosface_loss",
       "contrastive",
       "cross_entropy(s·cos θ, y) with cos θ_y − m for the target",
       {{"embeddings"}, {"weight"}, {"target", false}},
       {{"margin", "0.35", "taken from the target's cosine"}, {"scale", "64", "of the cosines"}, reduction},
       [](A a) {
         return cosface_loss(
             a.input(0), a.input(1), a.input(2),
             {.margin = a.number("margin", 0.35), .scale = a.number("scale", 64), .reduction = a.reduction()});
       }},
      {"barlow_twins_loss",
       "contrastive",
       "Σ (1 − c_ii)² + λ·Σ_{i≠j} c_ij²",
       kViews,
       {{"lambda", "5e-3", "the weight of the redundancy"}, {"eps", "1e-5", "added to the variances"}},
       [](A a) {
         return barlow_twins_loss(a.input(0), a.input(1),
                                  {.lambda = a.number("lambda", 5e-3), .eps = a.number("eps", 1e-5)});
       }},
      {"vicreg_loss",
       "contrastive",
       "i·mse + v·mean max(0, 1 − std)/2 + c·Σ_{i≠j} cov_ij²/D",
       kViews,
       {{"invariance", "25", "the weight of the difference of the views"},
        {"variance", "25", "the weight of too little spread"},
        {"covariance", "1", "the weight of the redundancy"},
        {"eps", "1e-4", "under the root of the standard deviation"}},
       [](A a) {
         return vicreg_loss(a.input(0), a.input(1),
                            {.invariance = a.number("invariance", 25),
                             .variance = a.number("variance", 25),
                             .covariance = a.number("covariance", 1),
                             .eps = a.number("eps", 1e-4)});
       }},
  };
}

std::vector<LossInfo> preference_entries() {
  return {
      {"dpo_loss", "preference", "−log σ(β·((c − r) − (c_ref − r_ref)))", kPairWithReference, kDpoOptions,
       [](A a) { return dpo_loss(a.input(0), a.input(1), a.input(2), a.input(3), dpo(a)); }},
      {"ipo_loss", "preference", "((c − r) − (c_ref − r_ref) − 1/(2β))²", kPairWithReference, kIpoOptions,
       [](A a) { return ipo_loss(a.input(0), a.input(1), a.input(2), a.input(3), ipo(a)); }},
      {"kto_loss",
       "preference",
       "w·(1 − σ(±β·(policy − reference − kl)))",
       {{"policy"}, {"reference"}, {"desirable", false}, {"kl", false, true}},
       kKtoOptions,
       [](A a) { return kto_loss(a.input(0), a.input(1), a.input(2), kto(a, 3)); }},
      {"orpo_loss", "preference", "−c − β·log σ(log-odds c − log-odds r)", kPair, kOrpoOptions,
       [](A a) { return orpo_loss(a.input(0), a.input(1), orpo(a)); }},
      {"simpo_loss", "preference", "−log σ(β·(c − r) − γ)", kPair, kSimpoOptions,
       [](A a) { return simpo_loss(a.input(0), a.input(1), simpo(a)); }},
      {"cpo_loss", "preference", "−log σ(β·(c − r)) − α·c", kPair, kCpoOptions,
       [](A a) { return cpo_loss(a.input(0), a.input(1), cpo(a)); }},
      {"grpo_loss",
       "preference",
       "−min(ρ·A, clip(ρ)·A) + β·(e^d − d − 1);  ρ = e^(policy − old), d = ref − policy",
       {{"policy"}, {"advantages"}, {"old", true, true}, {"reference", true, true}, {"mask", false, true}},
       kGrpoOptions,
       [](A a) { return grpo_loss(a.input(0), a.input(1), grpo(a, 2)); }},
  };
}

std::vector<LossInfo> linear_entries() {
  return {
      {"linear_cross_entropy",
       "linear",
       "cross_entropy(x·headᵀ + bias, y), without the logits",
       {{"x"}, {"head"}, {"target", false}, {"bias", true, true}, {"weight", false, true}},
       {kIgnoreIndex,
        {"label_smoothing", "0", "the share of the target spread over all classes"},
        {"z_loss", "0", "adds z_loss·(log Σ e^x)²"},
        kSoftcap,
        kChunk,
        kReductionOption},
       [](A a) {
         return linear_cross_entropy(a.input(0), a.input(1), a.input(2),
                                     {.bias = a.input(3),
                                      .weight = a.input(4),
                                      .ignore_index = a.integer("ignore_index", -100),
                                      .label_smoothing = a.number("label_smoothing", 0),
                                      .z_loss = a.number("z_loss", 0),
                                      .softcap = a.number("softcap", 0),
                                      .reduction = a.reduction(),
                                      .chunk = a.integer("chunk", 0)});
       }},
      {"linear_dpo_loss", "linear", "dpo_loss of answers' log-probabilities, from hidden states", kLinearWithReference,
       with_head(kDpoOptions),
       [](A a) { return linear_dpo_loss(a.input(0), a.input(1), a.input(2), a.input(3), dpo(a), head_options(a, 4)); }},
      {"linear_ipo_loss", "linear", "ipo_loss of answers' log-probabilities, from hidden states", kLinearWithReference,
       with_head(kIpoOptions),
       [](A a) { return linear_ipo_loss(a.input(0), a.input(1), a.input(2), a.input(3), ipo(a), head_options(a, 4)); }},
      {"linear_orpo_loss", "linear", "orpo_loss of answers' log-probabilities, from hidden states", kLinear,
       with_head(kOrpoOptions),
       [](A a) { return linear_orpo_loss(a.input(0), a.input(1), a.input(2), orpo(a), head_options(a, 3)); }},
      {"linear_simpo_loss", "linear", "simpo_loss of answers' log-probabilities, from hidden states", kLinear,
       with_head(kSimpoOptions),
       [](A a) { return linear_simpo_loss(a.input(0), a.input(1), a.input(2), simpo(a), head_options(a, 3)); }},
      {"linear_cpo_loss", "linear", "cpo_loss of answers' log-probabilities, from hidden states", kLinear,
       with_head(kCpoOptions),
       [](A a) { return linear_cpo_loss(a.input(0), a.input(1), a.input(2), cpo(a), head_options(a, 3)); }},
      {"linear_kto_loss",
       "linear",
       "kto_loss of answers' log-probabilities, from hidden states",
       {{"x"}, {"head"}, {"target", false}, {"reference"}, {"desirable", false}, {"kl", false, true}, kBias},
       with_head(kKtoOptions),
       [](A a) {
         return linear_kto_loss(a.input(0), a.input(1), a.input(2), a.input(3), a.input(4), kto(a, 5),
                                head_options(a, 6));
       }},
      {"linear_grpo_loss",
       "linear",
       "grpo_loss of tokens' log-probabilities, from hidden states",
       {{"x"},
        {"head"},
        {"target", false},
        {"advantages"},
        {"old", true, true},
        {"reference", true, true},
        {"mask", false, true},
        kBias},
       with_head(kGrpoOptions),
       [](A a) {
         return linear_grpo_loss(a.input(0), a.input(1), a.input(2), a.input(3), grpo(a, 4), head_options(a, 7));
       }},
  };
}

}  // namespace ebb
