#include "ebb/losses/binary.h"
#include "ebb/losses/classification.h"
#include "ebb/losses/margin.h"
#include "losses/registry_entries.h"

// Losses of classes and margins as the registry describes them.
namespace ebb {
namespace {

constexpr LossInput kWeight{"weight", true, true};
constexpr LossInput kClasses{"target", false};
constexpr LossOption kIgnoreIndex{"ignore_index", "-100", "a target that does not count"};
constexpr LossOption kAlpha{"alpha", "0.25", "how much a positive counts, a negative 1 − alpha; negative: both 1"};
constexpr LossOption kGamma{"gamma", "2", "how fast a term fades as the prediction gets right"};

using A = const LossArguments&;

std::int64_t ignored(A a) { return a.integer("ignore_index", -100); }
FocalOptions focal_options(A a) {
  return {.alpha = a.number("alpha", 0.25), .gamma = a.number("gamma", 2), .reduction = a.reduction()};
}

}  // namespace

std::vector<LossInfo> classification_entries() {
  return {
      {"nll_loss",
       "classification",
       "−w_y·x_y",
       {{"input"}, kClasses, kWeight},
       {kIgnoreIndex, kReductionOption},
       [](A a) {
         return nll_loss(a.input(0), a.input(1),
                         {.weight = a.input(2), .ignore_index = ignored(a), .reduction = a.reduction()});
       }},
      {"cross_entropy",
       "classification",
       "(1 − ε)·(−w_y·logp_y) + (ε/C)·Σ −w_c·logp_c, or −Σ w_c·t_c·logp_c;  logp = log_softmax(x)",
       {{"input"}, {"target"}, kWeight},
       {kIgnoreIndex,
        {"label_smoothing", "0", "the share of the target spread over all classes"},
        {"z_loss", "0", "adds z_loss·(log Σ e^x)²"},
        {"softcap", "0", "> 0: bounds the logits by softcap·tanh(x/softcap)"},
        kReductionOption},
       [](A a) {
         return cross_entropy(a.input(0), a.input(1),
                              {.weight = a.input(2),
                               .ignore_index = ignored(a),
                               .label_smoothing = a.number("label_smoothing", 0),
                               .z_loss = a.number("z_loss", 0),
                               .softcap = a.number("softcap", 0),
                               .reduction = a.reduction()});
       }},
      {"softmax_focal_loss",
       "classification",
       "−α_y·(1 − p_y)^γ·log p_y;  p = softmax(x)",
       {{"input"}, kClasses, {"alpha", true, true}},
       {kGamma, kIgnoreIndex, kReductionOption},
       [](A a) {
         return softmax_focal_loss(a.input(0), a.input(1),
                                   {.alpha = a.input(2),
                                    .gamma = a.number("gamma", 2),
                                    .ignore_index = ignored(a),
                                    .reduction = a.reduction()});
       }},
  };
}

std::vector<LossInfo> binary_entries() {
  return {
      {"binary_cross_entropy",
       "binary",
       "−w·[y·max(log p, −100) + (1 − y)·max(log(1 − p), −100)]",
       {{"input"}, {"target"}, kWeight},
       {kReductionOption},
       [](A a) {
         return binary_cross_entropy(a.input(0), a.input(1), {.weight = a.input(2), .reduction = a.reduction()});
       }},
      {"binary_cross_entropy_with_logits",
       "binary",
       "w·[(1 − y)·x + (1 + (q − 1)·y)·log(1 + e^−x)]",
       {{"input"}, {"target"}, kWeight, {"pos_weight", true, true}},
       {kReductionOption},
       [](A a) {
         return binary_cross_entropy_with_logits(
             a.input(0), a.input(1), {.weight = a.input(2), .pos_weight = a.input(3), .reduction = a.reduction()});
       }},
      {"multilabel_soft_margin_loss",
       "binary",
       "(1/C)·Σ w_c·bce_with_logits(x_c, y_c)",
       {{"input"}, {"target"}, kWeight},
       {kReductionOption},
       [](A a) {
         return multilabel_soft_margin_loss(a.input(0), a.input(1), {.weight = a.input(2), .reduction = a.reduction()});
       }},
      {"sigmoid_focal_loss",
       "binary",
       "y·α·(1 − p)^γ·(−log p) + (1 − y)·(1 − α)·p^γ·(−log(1 − p));  p = sigmoid(x)",
       {{"input"}, {"target"}},
       {kAlpha, kGamma, kReductionOption},
       [](A a) { return sigmoid_focal_loss(a.input(0), a.input(1), focal_options(a)); }},
      {"focal_loss_on_probabilities",
       "binary",
       "y·α·(1 − p)^γ·(−log p) + (1 − y)·(1 − α)·p^γ·(−log(1 − p))",
       {{"input"}, {"target"}},
       {kAlpha, kGamma, kReductionOption},
       [](A a) { return focal_loss_on_probabilities(a.input(0), a.input(1), focal_options(a)); }},
  };
}

std::vector<LossInfo> margin_entries() {
  return {
      {"hinge_loss",
       "margin",
       "max(0, 1 − y·x);  y = ±1",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return hinge_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
      {"hinge_embedding_loss",
       "margin",
       "y = 1: x;  y = −1: max(0, m − x)",
       {{"input"}, {"target", false}},
       {{"margin", "1", "the distance that pairs which do not belong together should have"}, kReductionOption},
       [](A a) {
         return hinge_embedding_loss(a.input(0), a.input(1),
                                     {.margin = a.number("margin", 1), .reduction = a.reduction()});
       }},
      {"margin_ranking_loss",
       "margin",
       "max(0, −y·(x1 − x2) + m)",
       {{"input1"}, {"input2"}, {"target"}},
       {{"margin", "0", "by how much the winner should lead"}, kReductionOption},
       [](A a) {
         return margin_ranking_loss(a.input(0), a.input(1), a.input(2),
                                    {.margin = a.number("margin", 0), .reduction = a.reduction()});
       }},
      {"soft_margin_loss",
       "margin",
       "log(1 + e^(−y·x))",
       {{"input"}, {"target"}},
       {kReductionOption},
       [](A a) { return soft_margin_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
      {"multi_margin_loss",
       "margin",
       "(w_y/C)·Σ_{i≠y} max(0, m − x_y + x_i)^p",
       {{"input"}, kClasses, kWeight},
       {{"p", "1", "1 or 2"}, {"margin", "1", "by how much the right class should lead"}, kReductionOption},
       [](A a) {
         return multi_margin_loss(a.input(0), a.input(1),
                                  {.p = static_cast<int>(a.integer("p", 1)),
                                   .margin = a.number("margin", 1),
                                   .weight = a.input(2),
                                   .reduction = a.reduction()});
       }},
      {"multilabel_margin_loss",
       "margin",
       "(1/C)·Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i)",
       {{"input"}, kClasses},
       {kReductionOption},
       [](A a) { return multilabel_margin_loss(a.input(0), a.input(1), {.reduction = a.reduction()}); }},
  };
}

}  // namespace ebb
