// SPDX-License-Identifier: MIT
#include "loss_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "cases/loss_cases.h"
#include "core/format_error.h"
#include "ebb/ebb.h"
#include "line_plot.h"

namespace ebb::program {
namespace {

Tensor like(const Tensor& x, double value) { return full_like(x, value); }
Tensor column(const Tensor& x) { return unsqueeze(x, 1); }
Tensor index_zero(const Tensor& x) { return zeros({x.size(0)}, DType::i64); }
// Logits of three classes: the first, correct one varies; the others are 0.
Tensor three_logits(const Tensor& x) { return stack({x, like(x, 0), like(x, 0)}, 1); }
// A distribution (x, 1 − x), and the one it is compared with.
Tensor two_shares(const Tensor& x) { return stack({x, 1 - x}, 1); }
Tensor fixed_shares(const Tensor& x) { return stack({like(x, 0.3), like(x, 0.7)}, 1); }
// Vectors at the angle x from (1, 0).
Tensor direction(const Tensor& x) { return stack({cos(x), sin(x)}, 1); }
Tensor east(const Tensor& x) { return stack({like(x, 1), like(x, 0)}, 1); }

std::vector<Tensor> against_zero(const Tensor& x) { return {x, like(x, 0)}; }
std::vector<Tensor> against_one(const Tensor& x) { return {x, like(x, 1)}; }
std::vector<Tensor> right_logit(const Tensor& x) { return {three_logits(x), index_zero(x)}; }
std::vector<Tensor> shares(const Tensor& x) { return {two_shares(x), fixed_shares(x)}; }
std::vector<Tensor> log_shares(const Tensor& x) { return {log(two_shares(x)), log(fixed_shares(x))}; }

}  // namespace

std::span<const LossPicture> loss_pictures() {
  static const std::vector<LossPicture> all = {
      {"mse_loss", "mse_loss", "input − target", against_zero, -3, 3},
      {"l1_loss", "l1_loss", "input − target", against_zero, -3, 3},
      {"smooth_l1_loss", "smooth_l1_loss, beta = 1", "input − target", against_zero, -3, 3},
      {"huber_loss", "huber_loss, delta = 1", "input − target", against_zero, -3, 3},
      {"pinball_loss", "pinball_loss, quantile = 0.9", "input − target", against_zero, -3, 3, {{"quantile", 0.9}}},
      {"log_cosh_loss", "log_cosh_loss", "input − target", against_zero, -3, 3},
      {"wing_loss",
       "wing_loss, width = 2, curvature = 0.5",
       "input − target",
       against_zero,
       -4,
       4,
       {{"width", 2.0}, {"curvature", 0.5}}},
      {"nll_loss", "nll_loss of the right class", "log-probability",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(x), index_zero(x)};
       },
       -5, 0},
      {"cross_entropy", "cross_entropy, three classes", "logit of the right class, the others 0", right_logit, -5, 5},
      {"softmax_focal_loss", "softmax_focal_loss, three classes, gamma = 2", "logit of the right class, the others 0",
       right_logit, -5, 5},
      {"poly_loss", "poly_loss, three classes, epsilon = 1", "logit of the right class, the others 0", right_logit, -5,
       5},
      {"sparsemax_loss", "sparsemax_loss, three classes", "logit of the right class, the others 0", right_logit, -3, 3},
      {"multi_margin_loss", "multi_margin_loss, three classes", "score of the right class, the others 0", right_logit,
       -3, 3},
      {"multilabel_margin_loss", "multilabel_margin_loss, one target of three", "score of the target, the others 0",
       [](const Tensor& x) -> std::vector<Tensor> {
         const Tensor none = full({x.size(0)}, -1);
         return {three_logits(x), stack({index_zero(x), none, none}, 1)};
       },
       -3, 3},
      {"listnet_loss", "listnet_loss, the first of three is relevant", "score of the first, the others 0",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {three_logits(x), stack({like(x, 2), like(x, 0), like(x, 0)}, 1)};
       },
       -5, 5},
      {"binary_cross_entropy", "binary_cross_entropy of a positive", "probability", against_one, 0.2, 1},
      {"binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits of a positive", "logit", against_one, -5,
       5},
      {"multilabel_soft_margin_loss", "multilabel_soft_margin_loss, one class, present", "logit",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(x), like(column(x), 1)};
       },
       -5, 5},
      {"sigmoid_focal_loss",
       "sigmoid_focal_loss of a positive, gamma = 2",
       "logit",
       against_one,
       -5,
       5,
       {{"alpha", -1.0}}},
      {"focal_loss_on_probabilities",
       "focal_loss_on_probabilities of a positive, gamma = 2",
       "probability",
       against_one,
       0.15,
       1,
       {{"alpha", -1.0}}},
      {"hinge_loss", "hinge_loss, y = 1", "score", against_one, -2, 3},
      {"perceptron_loss", "perceptron_loss, y = 1", "score", against_one, -3, 3},
      {"soft_margin_loss", "soft_margin_loss, y = 1", "score", against_one, -4, 4},
      {"hinge_embedding_loss", "hinge_embedding_loss, y = −1, margin = 1", "distance",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, -1)};
       },
       0, 2},
      {"margin_ranking_loss",
       "margin_ranking_loss, y = 1, margin = 0.5",
       "input1 − input2",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 0), like(x, 1)};
       },
       -3,
       3,
       {{"margin", 0.5}}},
      {"triplet_margin_loss", "triplet_margin_loss, negative at 2, margin = 1", "distance of the positive",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(like(x, 0)), column(x), column(like(x, 2))};
       },
       0.01, 4},
      {"triplet_margin_with_distance_loss", "triplet_margin_with_distance_loss, negative at 2",
       "distance of the positive",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(like(x, 0)), column(x), column(like(x, 2))};
       },
       0.01, 4},
      {"cosine_embedding_loss", "cosine_embedding_loss, y = 1", "angle",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {direction(x), east(x), like(x, 1)};
       },
       -3.14, 3.14},
      {"cosine_similarity_loss", "cosine_similarity_loss", "angle",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {direction(x), east(x)};
       },
       -3.14, 3.14},
      {"kl_div", "kl_div, target 0.3", "log-probability",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 0.3)};
       },
       -4, 0},
      {"kl_divergence", "kl_divergence of (x, 1 − x) from (0.3, 0.7)", "x", shares, 0.01, 0.99},
      {"jsd_loss", "jsd_loss of (x, 1 − x) and (0.3, 0.7)", "x", log_shares, 0.01, 0.99},
      {"tvd_loss", "tvd_loss of (x, 1 − x) and (0.3, 0.7)", "x", shares, 0, 1},
      {"generalized_kl", "generalized_kl, target 1", "input", against_one, 0.1, 4},
      {"poisson_nll_loss", "poisson_nll_loss of 3 events", "logarithm of the rate",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 3)};
       },
       -2, 3},
      {"gaussian_nll_loss", "gaussian_nll_loss of an error of 1", "variance",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {like(x, 1), like(x, 0), x};
       },
       0.3, 4},
      {"dice_loss", "dice_loss of one pixel that is set", "probability",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(x), like(column(x), 1)};
       },
       0, 1},
      {"iou_loss", "iou_loss of one pixel that is set", "probability",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(x), like(column(x), 1)};
       },
       0, 1},
      {"tversky_loss", "tversky_loss of one pixel that is set", "probability",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {column(x), like(column(x), 1)};
       },
       0, 1},
      {"dpo_loss",
       "dpo_loss, beta = 1",
       "chosen − rejected, the reference's 0",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 0), like(x, 0), like(x, 0)};
       },
       -5,
       5,
       {{"beta", 1.0}}},
      {"ipo_loss",
       "ipo_loss, beta = 0.5",
       "chosen − rejected, the reference's 0",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 0), like(x, 0), like(x, 0)};
       },
       -2,
       4,
       {{"beta", 0.5}}},
      {"kto_loss",
       "kto_loss of a desirable answer, beta = 1",
       "policy − reference",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, 0), full(x.shape(), true)};
       },
       -5,
       5,
       {{"beta", 1.0}}},
      {"simpo_loss", "simpo_loss", "chosen − rejected", against_zero, -2, 3},
      {"cpo_loss", "cpo_loss, beta = 1", "chosen, rejected 0", against_zero, -4, 2, {{"beta", 1.0}}},
      {"orpo_loss", "orpo_loss, rejected at −1", "average log-probability of the chosen answer",
       [](const Tensor& x) -> std::vector<Tensor> {
         return {x, like(x, -1)};
       },
       -4, -0.1},
  };
  return all;
}

namespace {

std::string number_text(const LossOptionValue& value) {
  if (const double* number = std::get_if<double>(&value)) return fmt::format("{:g}", *number);
  return std::get<std::string>(value);
}

// The title of a picture whose options the caller chose.
std::string title_with(std::string_view loss, const LossOptionValues& options) {
  std::string title(loss);
  for (const auto& [name, value] : options) title += fmt::format(", {} = {}", name, number_text(value));
  return title;
}

LossCurve curve_of(const LossPicture& p, const LossOptionValues& chosen) {
  const Tensor x = variable(linspace(p.from, p.to, 401, DType::f64));
  LossOptionValues options = p.options;
  for (const auto& [name, value] : chosen) options[name] = value;
  options["reduction"] = "none";
  const Tensor y = evaluate_loss(p.loss, p.inputs(x), options);
  const Tensor g = backward(sum(y))[x];
  eval({y, g});
  return {chosen.empty() ? p.title : title_with(p.loss, chosen), p.x_label, x.to_vector(), y.to_vector(),
          g.to_vector()};
}

// For a loss that is not a function of one prediction: one element of its first differentiable input varies.
LossCurve curve_of_case(const cases::LossCase& c, const LossOptionValues& chosen) {
  cases::LossCase with_options = c;
  for (const auto& [name, value] : chosen) with_options.options[name] = value;
  const cases::LossFunction f = cases::function_of(with_options);
  std::vector<double> at = f.moving[0].to_vector();
  const double centre = at[0];
  LossCurve curve{title_with(c.loss, chosen), fmt::format("first element of {}", f.names[0]), {}, {}, {}};
  for (int k = -100; k <= 100; ++k) {
    at[0] = centre + 0.02 * k;
    std::vector<Tensor> inputs = f.moving;
    inputs[0] = variable(from_data(at, f.moving[0].shape()));
    const Tensor y = sum(f.call(inputs));
    const Tensor g = backward(y)[inputs[0]];
    eval({y, g});
    curve.x.push_back(at[0]);
    curve.value.push_back(y.item());
    curve.gradient.push_back(g.to_vector()[0]);
  }
  return curve;
}

}  // namespace

LossCurve loss_curve(std::string_view loss, const LossOptionValues& options) {
  for (const LossPicture& p : loss_pictures()) {
    if (p.loss == loss) return curve_of(p, options);
  }
  for (const cases::LossCase& c : cases::loss_cases()) {
    if (c.loss == loss) return curve_of_case(c, options);
  }
  fail(Error::Kind::value, "plot: there is no picture of '{}'", loss);
}

std::string draw(const LossCurve& curve) {
  return plot::lines({.title = curve.title, .x_label = curve.x_label},
                     {{"loss", curve.x, curve.value, "a"}, {"gradient", curve.x, curve.gradient, "b"}});
}

}  // namespace ebb::program
