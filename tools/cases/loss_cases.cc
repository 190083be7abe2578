// SPDX-License-Identifier: MIT
#include "cases/loss_cases.h"

#include <random>

#include "ebb/ops.h"

namespace ebb::cases {

namespace {

// Random numbers from low to high, the same on every machine.
Tensor spread(const Shape& shape, double low, double high, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) x = low + (high - low) * static_cast<double>(generator() >> 11) * 0x1p-53;
  return from_data(v, shape).eval();
}

std::vector<LossCase> elementwise_loss_cases() {
  const Tensor x = spread({3, 4}, -2, 2, 1), t = spread({3, 4}, -2, 2, 2), w = spread({3, 4}, 0.3, 1.5, 3);
  const Tensor p = spread({3, 4}, 0.1, 0.9, 4), q = spread({3, 4}, 0.1, 0.9, 5), w4 = spread({4}, 0.3, 1.5, 6);
  const Tensor sign = where(t > 0, 1, -1).eval(), var = spread({3, 4}, 0.4, 2, 7), count = spread({3, 4}, 0.2, 4, 8);
  return {
      {"mse_loss", {{"input", x}, {"target", t}, {"weight", w}}},
      {"l1_loss", {{"input", x}, {"target", t}, {"weight", w}}},
      {"smooth_l1_loss", {{"input", x}, {"target", t}}, {{"beta", 0.7}}},
      {"huber_loss", {{"input", x}, {"target", t}, {"weight", w}}, {{"delta", 0.7}}},
      {"pinball_loss", {{"input", x}, {"target", t}}, {{"quantile", 0.8}}},
      {"log_cosh_loss", {{"input", x}, {"target", t}}},
      {"wing_loss", {{"input", x}, {"target", t}}, {{"width", 1.3}, {"curvature", 0.6}}},
      {"binary_cross_entropy", {{"input", p}, {"target", q}, {"weight", w}}},
      {"binary_cross_entropy_with_logits", {{"input", x}, {"target", q}, {"weight", w}, {"pos_weight", w4}}},
      {"multilabel_soft_margin_loss", {{"input", x}, {"target", q}, {"weight", w4}}},
      {"sigmoid_focal_loss", {{"input", x}, {"target", q}}, {{"alpha", 0.4}, {"gamma", 1.5}}},
      {"focal_loss_on_probabilities", {{"input", p}, {"target", q}}, {{"alpha", 0.4}, {"gamma", 1.5}}},
      {"asymmetric_loss", {{"input", x}, {"target", q}}, {{"gamma_pos", 0.5}, {"gamma_neg", 1.5}, {"clip", 0.1}}},
      {"hinge_loss", {{"input", x}, {"target", sign}}},
      {"hinge_embedding_loss", {{"input", x}, {"target", sign}}, {{"margin", 0.6}}},
      {"margin_ranking_loss", {{"input1", x}, {"input2", t}, {"target", sign}}, {{"margin", 0.4}}},
      {"soft_margin_loss", {{"input", x}, {"target", sign}}},
      {"perceptron_loss", {{"input", x}, {"target", sign}}},
      {"poisson_nll_loss", {{"input", count}, {"target", var}}, {{"log_input", 0.0}, {"full", 1.0}, {"eps", 1e-3}}},
      {"gaussian_nll_loss", {{"input", x}, {"target", t}, {"var", var}}, {{"full", 1.0}, {"eps", 0.7}}},
      {"generalized_kl", {{"input", p}, {"target", q}}},
  };
}

std::vector<LossCase> class_loss_cases() {
  const Tensor x = spread({5, 4}, -2, 2, 1), y = tensor({2, 0, 3, 1, 2}), w = spread({4}, 0.3, 1.5, 2);
  const Tensor t = spread({5, 4}, -2, 2, 3), log_p = log_softmax(x, 1).eval(), log_q = log_softmax(t, 1).eval();
  const Tensor p = softmax(x, 1).eval(), q = softmax(t, 1).eval();
  const Tensor lists = tensor({{0, 2, -1, 3}, {-1, 0, 0, 0}, {3, 2, 1, 0}, {1, -1, 2, -1}, {2, 3, -1, 0}});
  const Tensor rows = spread({5}, 0.3, 1.5, 8), counted = tensor({true, true, false, true, true});
  const Tensor inside = spread({5, 4}, 0.1, 0.9, 4), mask = spread({5, 4}, 0.1, 0.9, 5);
  // Few enough that no two errors are equal in bf16: the loss depends on their order.
  const Tensor few = spread({2, 4}, -2, 2, 7),
               few_set = tensor({{true, false, false, true}, {false, true, true, false}});
  const Tensor pixels = softmax(spread({2, 3, 5}, -2, 2, 6), 1).eval(),
               map = tensor({{0, 2, 1, 1, 0}, {2, 2, 0, 1, 1}});
  return {
      {"nll_loss", {{"input", log_p}, {"target", y}, {"weight", w}}, {{"ignore_index", 3.0}}},
      {"cross_entropy",
       {{"input", x}, {"target", y}, {"weight", w}},
       {{"ignore_index", 3.0}, {"label_smoothing", 0.1}, {"z_loss", 0.05}, {"softcap", 3.0}}},
      {"dft_loss", {{"input", x}, {"target", y}, {"token_weight", rows}}, {{"ignore_index", 3.0}}},
      {"load_balancing_loss", {{"logits", t}, {"mask", counted}}, {{"top_k", 1.0}}},
      {"router_z_loss", {{"logits", t}, {"mask", counted}}},
      {"softmax_focal_loss", {{"input", x}, {"target", y}, {"alpha", w}}, {{"gamma", 1.5}, {"ignore_index", 3.0}}},
      {"poly_loss", {{"input", x}, {"target", y}}, {{"epsilon", 0.7}, {"ignore_index", 3.0}}},
      {"sparsemax_loss", {{"input", x}, {"target", y}}, {{"ignore_index", 3.0}}},
      {"listnet_loss", {{"input", x}, {"target", t}}},
      {"multi_margin_loss", {{"input", x}, {"target", y}, {"weight", w}}, {{"p", 2.0}, {"margin", 0.7}}},
      {"multilabel_margin_loss", {{"input", x}, {"target", lists}}},
      {"kl_div", {{"input", log_p}, {"target", log_q}}, {{"log_target", 1.0}}},
      {"kl_divergence", {{"p", p}, {"q", q}}, {{"epsilon", 0.2}, {"axis", 0.0}}},
      {"jsd_loss", {{"input", log_p}, {"target", log_q}}, {{"beta", 0.3}}},
      {"tvd_loss", {{"input", p}, {"target", q}}},
      {"dice_loss", {{"input", inside}, {"target", mask}}, {{"smooth", 0.5}, {"kept_axes", 0.0}}},
      {"iou_loss", {{"input", inside}, {"target", mask}}, {{"smooth", 0.5}, {"kept_axes", 0.0}}},
      {"tversky_loss",
       {{"input", inside}, {"target", mask}},
       {{"alpha", 0.3}, {"beta", 0.7}, {"smooth", 0.5}, {"kept_axes", 0.0}}},
      {"lovasz_hinge", {{"input", few}, {"target", few_set}}, {{"per_sample", 0.0}}},
      {"lovasz_softmax", {{"input", pixels}, {"target", map}}, {{"present_only", 0.0}, {"ignore_index", 2.0}}},
  };
}

std::vector<LossCase> vector_loss_cases() {
  const Tensor a = spread({4, 3}, -1, 1, 1), b = spread({4, 3}, -1, 1, 2), c = spread({4, 3}, -1, 1, 13);
  const Tensor sign = tensor({1, -1, -1, 1}), label = tensor({0, 1, 0, 1}), centres = spread({5, 3}, -1, 1, 4);
  return {
      {"triplet_margin_loss",
       {{"anchor", a}, {"positive", b}, {"negative", c}},
       {{"margin", 3.0}, {"p", 3.0}, {"eps", 1e-4}, {"swap", 1.0}}},
      {"triplet_margin_with_distance_loss",
       {{"anchor", a}, {"positive", b}, {"negative", c}},
       {{"margin", 3.0}, {"swap", 1.0}}},
      {"cosine_embedding_loss", {{"input1", a}, {"input2", b}, {"target", sign}}, {{"margin", -0.9}}},
      {"cosine_similarity_loss", {{"input1", a}, {"input2", b}}, {{"axis", 0.0}}},
      {"info_nce", {{"query", a}, {"key", b}, {"negatives", c}}, {{"temperature", 0.5}, {"normalize", 0.0}}},
      {"siglip_loss",
       {{"first", a}, {"second", b}, {"scale", tensor(2.0)}, {"bias", tensor(-1.0)}},
       {{"normalize", 0.0}}},
      {"nt_xent", {{"first", a}, {"second", b}}, {{"temperature", 0.7}}},
      {"supcon_loss", {{"features", a}, {"labels", label}}, {{"temperature", 0.7}}},
      {"arcface_loss", {{"embeddings", a}, {"weight", centres}, {"target", label}}, {{"margin", 0.3}, {"scale", 4.0}}},
      {"cosface_loss", {{"embeddings", a}, {"weight", centres}, {"target", label}}, {{"margin", 0.2}, {"scale", 4.0}}},
      {"barlow_twins_loss", {{"first", a}, {"second", b}}, {{"lambda", 0.1}, {"eps", 1e-3}}},
      {"vicreg_loss",
       {{"first", a}, {"second", b}},
       {{"invariance", 2.0}, {"variance", 3.0}, {"covariance", 0.5}, {"eps", 1e-2}}},
  };
}

std::vector<LossCase> sequence_loss_cases() {
  const Tensor steps = log_softmax(spread({4, 2, 4}, -2, 2, 1), -1).eval(), labels = tensor({{1, 2}, {3, 1}});
  const Tensor joint = log_softmax(spread({2, 3, 3, 4}, -2, 2, 2), -1).eval();
  const Tensor c = spread({5}, -3, -0.5, 3), r = spread({5}, -3, -0.5, 4), rc = spread({5}, -3, -0.5, 5),
               rr = spread({5}, -3, -0.5, 6), good = tensor({true, false, true, true, false}),
               kl = tensor(0.2, DType::f64);
  const Tensor policy = spread({2, 3}, -2, -0.2, 7), old = spread({2, 3}, -2, -0.2, 8),
               reference = spread({2, 3}, -2, -0.2, 9), advantages = tensor({0.8, -0.6}, DType::f64),
               mask = tensor({{true, true, false}, {true, true, true}});
  const LossInputValues pair{{"chosen", c}, {"rejected", r}};
  const LossInputValues with_reference{{"chosen", c}, {"rejected", r}, {"ref_chosen", rc}, {"ref_rejected", rr}};
  return {
      {"ctc_loss",
       {{"log_probs", steps},
        {"targets", labels},
        {"input_lengths", tensor({4, 3})},
        {"target_lengths", tensor({2, 1})}},
       {{"zero_infinity", 1.0}}},
      {"rnnt_loss",
       {{"log_probs", joint},
        {"targets", labels},
        {"input_lengths", tensor({3, 2})},
        {"target_lengths", tensor({2, 1})}},
       {{"blank", 0.0}}},
      {"dpo_loss", with_reference, {{"beta", 0.7}, {"label_smoothing", 0.1}}},
      {"ipo_loss", with_reference, {{"beta", 0.7}}},
      {"kto_loss",
       {{"policy", c}, {"reference", r}, {"desirable", good}, {"kl", kl}},
       {{"beta", 0.7}, {"desirable_weight", 1.2}, {"undesirable_weight", 0.8}}},
      {"orpo_loss", pair, {{"beta", 0.7}, {"likelihood", 0.0}}},
      {"simpo_loss", pair, {{"beta", 1.5}, {"gamma", 0.4}, {"label_smoothing", 0.1}}},
      {"cpo_loss", pair, {{"beta", 0.7}, {"alpha", 0.6}, {"label_smoothing", 0.1}}},
      {"grpo_loss",
       {{"policy", policy}, {"advantages", advantages}, {"old", old}, {"reference", reference}, {"mask", mask}},
       {{"clip_low", 0.3}, {"clip_high", 0.4}, {"beta", 0.2}, {"by_token", 1.0}}},
  };
}

std::vector<LossCase> linear_loss_cases() {
  const Tensor x = spread({4, 2, 3}, -1, 1, 1), head = spread({6, 3}, -1, 1, 2), bias = spread({6}, -1, 1, 3);
  const Tensor y = tensor({{0, 5}, {2, 1}, {3, 4}, {5, 2}}), ref = spread({4}, -4, -2, 4), w = spread({6}, 0.3, 1.5, 5);
  const Tensor good = tensor({true, false, true, false}), advantages = tensor({0.8, -0.6, 0.5, -0.9}, DType::f64),
               old = spread({4, 2}, -4, 0, 7), reference = spread({4, 2}, -2, -1, 8);
  const LossInputValues plain{{"x", x}, {"head", head}, {"target", y}, {"bias", bias}};
  const Tensor weights = spread({4, 2}, 0.3, 1.5, 9);
  const LossInputValues two_heads{{"x", x},
                                  {"head", head},
                                  {"teacher", spread({4, 2, 5}, -1, 1, 10)},
                                  {"teacher_head", spread({6, 5}, -1, 1, 11)},
                                  {"mask", tensor({{true, true}, {true, false}, {true, true}, {false, true}})}};
  const auto with = [&](LossInputValues more) {
    more.insert(plain.begin(), plain.end());
    return more;
  };
  const auto of_head = [](LossOptionValues options) {
    options.insert({{"ignore_index", 4.0}, {"temperature", 1.3}, {"chunk", 3.0}});
    return options;
  };
  return {
      {"linear_cross_entropy",
       with({{"weight", w}}),
       {{"ignore_index", 4.0}, {"label_smoothing", 0.1}, {"z_loss", 0.05}, {"softcap", 3.0}, {"chunk", 3.0}}},
      {"linear_dft_loss", with({{"token_weight", weights}}), of_head({})},
      {"linear_kl_loss", two_heads, {{"reverse", 1.0}, {"temperature", 1.3}}},
      {"linear_jsd_loss", two_heads, {{"beta", 0.3}, {"temperature", 1.3}}},
      {"linear_dpo_loss", with({{"reference", ref}}), of_head({{"beta", 0.7}, {"label_smoothing", 0.1}})},
      {"linear_ipo_loss", with({{"reference", ref}}), of_head({{"beta", 0.7}})},
      {"linear_orpo_loss", plain, of_head({{"beta", 0.7}, {"likelihood", 0.0}})},
      {"linear_simpo_loss", plain, of_head({{"beta", 1.5}, {"gamma", 0.4}, {"label_smoothing", 0.1}})},
      {"linear_cpo_loss", plain, of_head({{"beta", 0.7}, {"alpha", 0.6}, {"label_smoothing", 0.1}})},
      {"linear_kto_loss", with({{"reference", ref}, {"desirable", good}, {"kl", tensor(0.2, DType::f64)}}),
       of_head({{"beta", 0.7}, {"desirable_weight", 1.2}, {"undesirable_weight", 0.8}})},
      {"linear_grpo_loss", with({{"advantages", advantages}, {"old", old}, {"reference", reference}}),
       of_head({{"clip_low", 0.3}, {"clip_high", 0.4}, {"beta", 0.2}, {"by_token", 1.0}})},
  };
}

}  // namespace

std::vector<LossCase> loss_cases() {
  std::vector<LossCase> all;
  for (auto family :
       {elementwise_loss_cases, class_loss_cases, vector_loss_cases, sequence_loss_cases, linear_loss_cases}) {
    for (LossCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

LossFunction function_of(const LossCase& c) {
  LossFunction f;
  for (const LossInput& input : loss_info(c.loss).inputs) {
    const auto it = c.inputs.find(input.name);
    if (it == c.inputs.end() || !input.differentiable || !is_floating(it->second.dtype())) continue;
    f.names.emplace_back(input.name);
    f.moving.push_back(it->second);
  }
  f.call = [c, names = f.names](const std::vector<Tensor>& moved) {
    LossInputValues inputs = c.inputs;
    for (std::size_t k = 0; k < names.size(); ++k) inputs[names[k]] = moved[k];
    return call_loss(c.loss, inputs, c.options);
  };
  return f;
}

}  // namespace ebb::cases
