// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cases/loss_cases.h"
#include "ebb/autograd.h"
#include "ebb/gradcheck.h"
#include "ebb/losses.h"

// Every loss of the registry, called by name and by its C++ function: the same bits. A new loss needs no row here: the
// registry holds its function and its options struct.
namespace ebb {
namespace {

using cases::loss_cases;
using cases::LossCase;
using V = const LossInputValues&;

Tensor at(V v, const char* name) { return v.find(name)->second; }
LinearLogProbOptions head(V v) { return {.bias = at(v, "bias"), .ignore_index = 4, .temperature = 1.3, .chunk = 3}; }

// The function of C++, with the options of the loss's case and without any.
struct Direct {
  Tensor (*with_options)(V);
  Tensor (*plain)(V);
};

#define TWO(NAME, A, B, ...)                                                                                    \
  {                                                                                                             \
#NAME, {                                                                                                    \
      [](V v) { return NAME(at(v, A), at(v, B), {__VA_ARGS__}); }, [](V v) { return NAME(at(v, A), at(v, B)); } \
    }                                                                                                           \
  }
#define THREE(NAME, A, B, C, ...)                                            \
  {                                                                          \
#NAME, {                                                                 \
      [](V v) { return NAME(at(v, A), at(v, B), at(v, C), {__VA_ARGS__}); }, \
          [](V v) { return NAME(at(v, A), at(v, B), at(v, C)); }             \
    }                                                                        \
  }
#define FOUR(NAME, A, B, C, D, ...)                                                    \
  {                                                                                    \
#NAME, {                                                                           \
      [](V v) { return NAME(at(v, A), at(v, B), at(v, C), at(v, D), {__VA_ARGS__}); }, \
          [](V v) { return NAME(at(v, A), at(v, B), at(v, C), at(v, D)); }             \
    }                                                                                  \
  }
#define ON_TARGET(NAME, ...) TWO(NAME, "input", "target", __VA_ARGS__)
// After the options come those of the head.
#define LINEAR(NAME, ...)                                                                           \
  {                                                                                                 \
#NAME, {                                                                                        \
      [](V v) { return NAME(at(v, "x"), at(v, "head"), at(v, "target"), {__VA_ARGS__}, head(v)); }, \
          [](V v) { return NAME(at(v, "x"), at(v, "head"), at(v, "target")); }                      \
    }                                                                                               \
  }
#define LINEAR_WITH(NAME, A, ...)                                                                             \
  {                                                                                                           \
#NAME, {                                                                                                  \
      [](V v) { return NAME(at(v, "x"), at(v, "head"), at(v, "target"), at(v, A), {__VA_ARGS__}, head(v)); }, \
          [](V v) { return NAME(at(v, "x"), at(v, "head"), at(v, "target"), at(v, A)); }                      \
    }                                                                                                         \
  }
#define LINEAR_WITH_TWO(NAME, A, B, ...)                                                                     \
  {                                                                                                          \
#NAME, {                                                                                                 \
      [](V v) {                                                                                              \
        return NAME(at(v, "x"), at(v, "head"), at(v, "target"), at(v, A), at(v, B), {__VA_ARGS__}, head(v)); \
      },                                                                                                     \
          [](V v) { return NAME(at(v, "x"), at(v, "head"), at(v, "target"), at(v, A), at(v, B)); }           \
    }                                                                                                        \
  }

const std::map<std::string_view, Direct>& direct_calls() {
  static const std::map<std::string_view, Direct> calls{
      ON_TARGET(mse_loss, .weight = at(v, "weight")),
      ON_TARGET(l1_loss, .weight = at(v, "weight")),
      ON_TARGET(smooth_l1_loss, .beta = 0.7),
      ON_TARGET(huber_loss, .delta = 0.7, .weight = at(v, "weight")),
      ON_TARGET(pinball_loss, .quantile = 0.8),
      ON_TARGET(log_cosh_loss, ),
      ON_TARGET(wing_loss, .width = 1.3, .curvature = 0.6),
      ON_TARGET(binary_cross_entropy, .weight = at(v, "weight")),
      ON_TARGET(binary_cross_entropy_with_logits, .weight = at(v, "weight"), .pos_weight = at(v, "pos_weight")),
      ON_TARGET(multilabel_soft_margin_loss, .weight = at(v, "weight")),
      ON_TARGET(sigmoid_focal_loss, .alpha = 0.4, .gamma = 1.5),
      ON_TARGET(focal_loss_on_probabilities, .alpha = 0.4, .gamma = 1.5),
      ON_TARGET(hinge_loss, ),
      ON_TARGET(hinge_embedding_loss, .margin = 0.6),
      THREE(margin_ranking_loss, "input1", "input2", "target", .margin = 0.4),
      ON_TARGET(soft_margin_loss, ),
      ON_TARGET(perceptron_loss, ),
      ON_TARGET(poisson_nll_loss, .log_input = false, .full = true, .eps = 1e-3),
      THREE(gaussian_nll_loss, "input", "target", "var", .full = true, .eps = 0.7),
      ON_TARGET(generalized_kl, ),
      ON_TARGET(nll_loss, .weight = at(v, "weight"), .ignore_index = 3),
      ON_TARGET(cross_entropy, .weight = at(v, "weight"), .ignore_index = 3, .label_smoothing = 0.1, .z_loss = 0.05,
                .softcap = 3),
      ON_TARGET(dft_loss, .ignore_index = 3, .token_weight = at(v, "token_weight")),
      {"load_balancing_loss",
       {[](V v) { return load_balancing_loss(at(v, "logits"), {.top_k = 1, .mask = at(v, "mask")}); },
        [](V v) { return load_balancing_loss(at(v, "logits")); }}},
      {"router_z_loss",
       {[](V v) { return router_z_loss(at(v, "logits"), {.mask = at(v, "mask")}); },
        [](V v) { return router_z_loss(at(v, "logits")); }}},
      ON_TARGET(softmax_focal_loss, .alpha = at(v, "alpha"), .gamma = 1.5, .ignore_index = 3),
      ON_TARGET(poly_loss, .epsilon = 0.7, .ignore_index = 3),
      ON_TARGET(sparsemax_loss, .ignore_index = 3),
      ON_TARGET(listnet_loss, ),
      ON_TARGET(multi_margin_loss, .p = 2, .margin = 0.7, .weight = at(v, "weight")),
      ON_TARGET(multilabel_margin_loss, ),
      ON_TARGET(kl_div, .log_target = true),
      TWO(kl_divergence, "p", "q", .epsilon = 0.2, .axis = 0),
      ON_TARGET(jsd_loss, .beta = 0.3),
      ON_TARGET(tvd_loss, ),
      ON_TARGET(dice_loss, .smooth = 0.5, .kept_axes = 0),
      ON_TARGET(iou_loss, .smooth = 0.5, .kept_axes = 0),
      ON_TARGET(tversky_loss, .alpha = 0.3, .beta = 0.7, .smooth = 0.5, .kept_axes = 0),
      ON_TARGET(lovasz_hinge, .per_sample = false),
      ON_TARGET(lovasz_softmax, .present_only = false, .ignore_index = 2),
      THREE(triplet_margin_loss, "anchor", "positive", "negative", .margin = 3, .p = 3, .eps = 1e-4, .swap = true),
      THREE(triplet_margin_with_distance_loss, "anchor", "positive", "negative", .margin = 3, .swap = true),
      THREE(cosine_embedding_loss, "input1", "input2", "target", .margin = -0.9),
      TWO(cosine_similarity_loss, "input1", "input2", .axis = 0),
      TWO(info_nce, "query", "key", .negatives = at(v, "negatives"), .temperature = 0.5, .normalize = false),
      TWO(siglip_loss, "first", "second", .scale = at(v, "scale"), .bias = at(v, "bias"), .normalize = false),
      TWO(nt_xent, "first", "second", .temperature = 0.7),
      TWO(supcon_loss, "features", "labels", .temperature = 0.7),
      THREE(arcface_loss, "embeddings", "weight", "target", .margin = 0.3, .scale = 4),
      THREE(cosface_loss, "embeddings", "weight", "target", .margin = 0.2, .scale = 4),
      TWO(barlow_twins_loss, "first", "second", .lambda = 0.1, .eps = 1e-3),
      TWO(vicreg_loss, "first", "second", .invariance = 2, .variance = 3, .covariance = 0.5, .eps = 1e-2),
      FOUR(ctc_loss, "log_probs", "targets", "input_lengths", "target_lengths", .zero_infinity = true),
      FOUR(rnnt_loss, "log_probs", "targets", "input_lengths", "target_lengths", .blank = 0),
      FOUR(dpo_loss, "chosen", "rejected", "ref_chosen", "ref_rejected", .beta = 0.7, .label_smoothing = 0.1),
      FOUR(ipo_loss, "chosen", "rejected", "ref_chosen", "ref_rejected", .beta = 0.7),
      THREE(kto_loss, "policy", "reference", "desirable", .beta = 0.7, .desirable_weight = 1.2,
            .undesirable_weight = 0.8, .kl = at(v, "kl")),
      TWO(orpo_loss, "chosen", "rejected", .beta = 0.7, .likelihood = false),
      TWO(simpo_loss, "chosen", "rejected", .beta = 1.5, .gamma = 0.4, .label_smoothing = 0.1),
      TWO(cpo_loss, "chosen", "rejected", .beta = 0.7, .alpha = 0.6, .label_smoothing = 0.1),
      TWO(grpo_loss, "policy", "advantages", .clip_low = 0.3, .clip_high = 0.4, .beta = 0.2, .old = at(v, "old"),
          .reference = at(v, "reference"), .mask = at(v, "mask"), .by_token = true),
      THREE(linear_cross_entropy, "x", "head", "target", .bias = at(v, "bias"), .weight = at(v, "weight"),
            .ignore_index = 4, .label_smoothing = 0.1, .z_loss = 0.05, .softcap = 3, .chunk = 3),
      LINEAR(linear_dft_loss, .token_weight = at(v, "token_weight")),
      FOUR(linear_kl_loss, "x", "head", "teacher", "teacher_head", .reverse = true, .temperature = 1.3,
           .mask = at(v, "mask")),
      FOUR(linear_jsd_loss, "x", "head", "teacher", "teacher_head", .beta = 0.3, .temperature = 1.3,
           .mask = at(v, "mask")),
      LINEAR_WITH(linear_dpo_loss, "reference", .beta = 0.7, .label_smoothing = 0.1),
      LINEAR_WITH(linear_ipo_loss, "reference", .beta = 0.7),
      LINEAR(linear_orpo_loss, .beta = 0.7, .likelihood = false),
      LINEAR(linear_simpo_loss, .beta = 1.5, .gamma = 0.4, .label_smoothing = 0.1),
      LINEAR(linear_cpo_loss, .beta = 0.7, .alpha = 0.6, .label_smoothing = 0.1),
      LINEAR_WITH_TWO(linear_kto_loss, "reference", "desirable", .beta = 0.7, .desirable_weight = 1.2,
                      .undesirable_weight = 0.8, .kl = at(v, "kl")),
      LINEAR_WITH(linear_grpo_loss, "advantages", .clip_low = 0.3, .clip_high = 0.4, .beta = 0.2, .old = at(v, "old"),
                  .reference = at(v, "reference"), .by_token = true),
  };
  return calls;
}

TEST(CallByName, EveryLossHasACase) {
  std::set<std::string_view> seen;
  for (const LossCase& c : loss_cases()) EXPECT_TRUE(seen.insert(c.loss).second) << c.loss;
  for (const LossInfo& loss : loss_registry()) {
    EXPECT_TRUE(seen.contains(loss.name)) << loss.name << " has no case in tools/cases/loss_cases.h";
  }
}

TEST(CallByName, IsTheDirectCall) {
  for (const LossCase& c : loss_cases()) {
    const Tensor by_name = call_loss(c.loss, c.inputs, c.options);
    EXPECT_TRUE(std::isfinite(by_name.item())) << c.loss;
    const auto direct = direct_calls().find(c.loss);
    if (direct == direct_calls().end()) continue;
    const Tensor expected = direct->second.with_options(c.inputs);
    EXPECT_EQ(by_name.shape(), expected.shape()) << c.loss;
    EXPECT_EQ(by_name.to_vector(), expected.to_vector()) << c.loss;
  }
}

// The registry's defaults, read back from their text and passed by name, equal the function called without options:
// reveals a name tied to the wrong member of the struct, and a default that loses digits.
TEST(CallByName, DefaultsAreThoseOfTheFunction) {
  const auto all = loss_cases();
  for (const auto& [loss, direct] : direct_calls()) {
    const auto c = std::find_if(all.begin(), all.end(), [name = loss](const LossCase& k) { return k.loss == name; });
    ASSERT_NE(c, all.end()) << loss;
    LossInputValues needed;
    for (const LossInput& input : loss_info(loss).inputs) {
      if (!input.optional) needed[std::string(input.name)] = c->inputs.find(input.name)->second;
    }
    LossOptionValues defaults;
    for (const LossOption& o : loss_info(loss).options) {
      defaults[o.name] = loss_option_from_text(loss, o.name, o.default_value);
    }
    // As text: logarithms are no targets of a plain kl_div, and a NaN equals nothing.
    const std::string expected = fmt::format("{}", direct.plain(needed).item());
    EXPECT_EQ(fmt::format("{}", call_loss(loss, needed, defaults).item()), expected) << loss;
    EXPECT_EQ(fmt::format("{}", call_loss(loss, needed).item()), expected) << loss;
  }
}

// An option without effect is one that the registry forgot to pass on.
TEST(CallByName, EveryOptionIsHandedOn) {
  for (const LossCase& c : loss_cases()) {
    const std::vector<double> with = call_loss(c.loss, c.inputs, c.options).to_vector();
    for (const auto& [name, value] : c.options) {
      if (name == "chunk" || name == "zero_infinity" || name == "blank") continue;  // no effect on these values
      LossOptionValues fewer = c.options;
      fewer.erase(name);
      EXPECT_NE(call_loss(c.loss, c.inputs, fewer).to_vector(), with) << c.loss << ", " << name;
    }
  }
}

TEST(CallByName, GradientsAreCentralDifferences) {
  for (const LossCase& c : loss_cases()) {
    if (!cases::gradient_is_slope(c.loss)) continue;
    const cases::LossFunction f = cases::function_of(c);
    ASSERT_FALSE(f.moving.empty()) << c.loss;
    const GradcheckReport report = check_gradients(f.call, f.moving);
    EXPECT_TRUE(report.passed()) << c.loss << "\n" << report;
  }
}

}  // namespace
}  // namespace ebb
