#include "ebb/losses/divergence.h"
#include "ebb/losses/ranking.h"
#include "ebb/losses/robust.h"
#include "ebb/losses/segmentation.h"
#include "losses/registry_entries.h"

// Losses beyond torch.nn.functional of numbers, scores, distributions and masks, as the registry describes them.
namespace ebb {
namespace {

constexpr LossInput kClasses{"target", false};
constexpr LossOption kIgnoreIndex{"ignore_index", "-100", "a target that does not count"};
constexpr LossOption kSmooth{"smooth", "1", "added above and below the fraction"};
constexpr LossOption kKeptAxes{"kept_axes", "1", "how many leading axes keep their terms"};

using A = const LossArguments&;

std::int64_t ignored(A a) { return a.integer("ignore_index", -100); }
OverlapOptions overlap(A a) {
  return {.smooth = a.number("smooth", 1),
          .kept_axes = static_cast<int>(a.integer("kept_axes", 1)),
          .reduction = a.reduction()};
}

}  // namespace

std::vector<LossInfo> robust_entries() {
  return {
      {"pinball_loss",
       "robust",
       "max(q·(t − x), (q − 1)·(t − x))",
       {{"input"}, {"target"}},
       {{"quantile", "0.5", "the share of targets that should lie below the prediction"}, kReductionOption},
       [](A a) {
         return pinball_loss(a.input(0), a.input(1),
                             {.quantile = a.number("quantile", 0.5), .reduction = a.reduction()});
       }},
      {"log_cosh_loss",
       "robust",
       "log cosh(x − t)",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return log_cosh_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
      {"wing_loss",
       "robust",
       "|d| < w: w·log(1 + |d|/c), else |d| − w + w·log(1 + w/c);  d = x − t",
       {{"input"}, {"target"}},
       {{"width", "10", "where the logarithm becomes a line"},
        {"curvature", "2", "how sharply the logarithm bends"},
        kReductionOption},
       [](A a) {
         return wing_loss(
             a.input(0), a.input(1),
             {.width = a.number("width", 10), .curvature = a.number("curvature", 2), .reduction = a.reduction()});
       }},
  };
}

std::vector<LossInfo> divergence_entries() {
  const LossOption reduction{"reduction", "mean", "none, mean, sum or batchmean of the terms"};
  return {
      {"jsd_loss",
       "divergence",
       "β·KL(q‖m) + (1 − β)·KL(p‖m);  m = β·q + (1 − β)·p, of log-probabilities",
       {{"input"}, {"target"}},
       {{"beta", "0.5", "the share of the target in the mixture"}, reduction},
       [](A a) {
         return jsd_loss(a.input(0), a.input(1), {.beta = a.number("beta", 0.5), .reduction = a.reduction()});
       }},
      {"tvd_loss",
       "divergence",
       "½·Σ |p − q|",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return tvd_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
      {"generalized_kl",
       "divergence",
       "t·log(t/x) − t + x",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return generalized_kl(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
  };
}

std::vector<LossInfo> ranking_entries() {
  return {
      {"poly_loss",
       "ranking",
       "cross_entropy(x, y) + ε·(1 − p_y)",
       {{"input"}, kClasses},
       {{"epsilon", "1", "the weight of the first term of the series"}, kIgnoreIndex, kReductionOption},
       [](A a) {
         return poly_loss(a.input(0), a.input(1),
                          {.epsilon = a.number("epsilon", 1), .ignore_index = ignored(a), .reduction = a.reduction()});
       }},
      {"sparsemax_loss",
       "ranking",
       "½·Σ_{j∈S} (x_j² − τ²) + ½ − x_y",
       {{"input"}, kClasses},
       {kIgnoreIndex, kReductionOption},
       [](A a) {
         return sparsemax_loss(a.input(0), a.input(1), {.ignore_index = ignored(a), .reduction = a.reduction()});
       }},
      {"listnet_loss",
       "ranking",
       "−Σ softmax(t)·log_softmax(x)",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return listnet_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
      {"perceptron_loss",
       "ranking",
       "max(0, −y·x);  y = ±1",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return perceptron_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
  };
}

std::vector<LossInfo> segmentation_entries() {
  return {
      {"dice_loss",
       "segmentation",
       "1 − (2·Σxt + s)/(Σx + Σt + s)",
       {{"input"}, {"target"}},
       {kSmooth, kKeptAxes, kReductionOption},
       [](A a) { return dice_loss(a.input(0), a.input(1), overlap(a)); }},
      {"iou_loss",
       "segmentation",
       "1 − (Σxt + s)/(Σx + Σt − Σxt + s)",
       {{"input"}, {"target"}},
       {kSmooth, kKeptAxes, kReductionOption},
       [](A a) { return iou_loss(a.input(0), a.input(1), overlap(a)); }},
      {"tversky_loss",
       "segmentation",
       "1 − (TP + s)/(TP + α·FP + β·FN + s)",
       {{"input"}, {"target"}},
       {{"alpha", "0.5", "what a false positive counts"},
        {"beta", "0.5", "what a false negative counts"},
        kSmooth,
        kKeptAxes,
        kReductionOption},
       [](A a) {
         return tversky_loss(a.input(0), a.input(1),
                             {.alpha = a.number("alpha", 0.5),
                              .beta = a.number("beta", 0.5),
                              .smooth = a.number("smooth", 1),
                              .kept_axes = static_cast<int>(a.integer("kept_axes", 1)),
                              .reduction = a.reduction()});
       }},
      {"lovasz_hinge",
       "segmentation",
       "the Lovász extension of the Jaccard loss, of hinges 1 − (2y − 1)·x",
       {{"input"}, {"target", false}},
       {{"per_sample", "1", "0: all samples together are one term"}, kReductionOption},
       [](A a) {
         return lovasz_hinge(a.input(0), a.input(1),
                             {.per_sample = a.flag("per_sample", true), .reduction = a.reduction()});
       }},
      {"lovasz_softmax",
       "segmentation",
       "the Lovász extension of the Jaccard loss, of errors |[y = c] − p_c|",
       {{"input"}, kClasses},
       {{"present_only", "1", "0: classes that no target has count too"}, kIgnoreIndex, kReductionOption},
       [](A a) {
         return lovasz_softmax(
             a.input(0), a.input(1),
             {.present_only = a.flag("present_only", true), .ignore_index = ignored(a), .reduction = a.reduction()});
       }},
  };
}

}  // namespace ebb
