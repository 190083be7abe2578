// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/losses/registry.h"
#include "ebb/ops.h"
#include "expect_error.h"

// Bad input gets an actionable message.
namespace ebb {
namespace {

const Tensor x35 = zeros({3, 5});
Tensor three(std::int64_t a, std::int64_t b, std::int64_t c, DType dtype = DType::i64) {
  return cast(tensor({a, b, c}), dtype);
}

TEST(LossErrors, NameTheTargetThatIsOutOfRange) {
  EXPECT_THROW_KIND(cross_entropy(x35, three(0, 5, 1)).item(), index, "cross_entropy: target[1] = 5 is outside [0, 5)");
  EXPECT_THROW_KIND(cross_entropy(x35, three(0, 2, -7)).item(), index,
                    "cross_entropy: target[2] = -7 is outside [0, 5)");
  EXPECT_THROW_KIND(cross_entropy(x35, three(0, 5, 1, DType::i32)).item(), index, "target[1] = 5 is outside [0, 5)");
  EXPECT_THROW_KIND(cross_entropy(x35, three(9, 0, 1), {.weight = ones({5})}).item(), index,
                    "cross_entropy: target[0] = 9 is outside [0, 5)");
  EXPECT_THROW_KIND(nll_loss(x35, three(0, 5, 1)).item(), index, "nll_loss: target[1] = 5 is outside [0, 5)");
  EXPECT_THROW_KIND(multi_margin_loss(x35, three(-1, 0, 1)).item(), index,
                    "multi_margin_loss: target[0] = -1 is outside [0, 5)");
  EXPECT_THROW_KIND(softmax_focal_loss(x35, three(0, 0, 8)).item(), index,
                    "softmax_focal_loss: target[2] = 8 is outside [0, 5)");
  EXPECT_THROW_KIND(multilabel_margin_loss(zeros({2, 3}), tensor({{0, 3, -1}, {1, -1, -1}})).item(), index,
                    "= 3 is outside [0, 3)");
  // Also if value and gradient are one sweep, and in an image.
  const Tensor v = variable(x35);
  EXPECT_THROW_MESSAGE(backward(cross_entropy(v, three(0, 5, 1)))[v].eval(), "= 5 is outside [0, 5)");
  const Tensor image = tensor({{{0, 1}, {7, 0}}});
  EXPECT_THROW_MESSAGE(cross_entropy(zeros({1, 5, 2, 2}), image).item(), "= 7 is outside [0, 5)");
}

TEST(LossErrors, ClassIndicesAreIntegers) {
  EXPECT_THROW_KIND(nll_loss(x35, zeros({3})), type, "nll_loss: class indices must be integers");
  EXPECT_THROW_KIND(cross_entropy(x35, zeros({3})), type, "class indices must be integers");
  EXPECT_THROW_KIND(multilabel_margin_loss(x35, zeros({3, 5})), type, "must be of integers");
  EXPECT_THROW_KIND(cross_entropy(zeros({3, 5}, DType::i64), three(0, 1, 2)), type, "cast it to a floating dtype");
}

TEST(LossErrors, ProbabilitiesAreInTheirRange) {
  const Tensor y = tensor({0.0, 1.0, 0.0});
  EXPECT_THROW_MESSAGE(binary_cross_entropy(tensor({0.5, 1.5, 0.1}), y).item(),
                       "binary_cross_entropy: input must be a probability in [0, 1], but the element at [1] is 1.5");
  EXPECT_THROW_MESSAGE(binary_cross_entropy(tensor({0.5, 0.5, -0.25}), y).item(), "the element at [2] is -0.25");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW_MESSAGE(binary_cross_entropy(tensor({nan, 0.5, 0.5}), y).item(), "the element at [0] is nan");
  EXPECT_THROW_MESSAGE(focal_loss_on_probabilities(tensor({0.5, 2.0, 0.1}), y).item(), "must be a probability");
}

TEST(LossErrors, SignsAreSigns) {
  const Tensor x = zeros({3}), y = tensor({1, 0, -1});
  EXPECT_THROW_MESSAGE(hinge_loss(x, y).item(), "hinge_loss: target must be 1 or -1, but the element at [1] is 0");
  EXPECT_THROW_MESSAGE(hinge_embedding_loss(x, y).item(), "hinge_embedding_loss: target must be 1 or -1");
  EXPECT_THROW_MESSAGE(cosine_embedding_loss(x35, x35, y).item(), "cosine_embedding_loss: target must be 1 or -1");
}

TEST(LossErrors, ParametersAreInTheirRange) {
  const Tensor x = zeros({3});
  EXPECT_THROW_MESSAGE(gaussian_nll_loss(x, x, tensor({1.0, -0.5, 1.0})).item(),
                       "gaussian_nll_loss: var must not be negative, but the element at [1] is -0.5");
  EXPECT_THROW_MESSAGE(huber_loss(x, x, {.delta = 0}), "huber_loss: delta must be positive, got 0");
  EXPECT_THROW_MESSAGE(smooth_l1_loss(x, x, {.beta = -1}), "smooth_l1_loss: beta must not be negative, got -1");
  EXPECT_THROW_MESSAGE(multi_margin_loss(x35, three(0, 1, 2), {.p = 3}), "p must be 1 or 2, got 3");
  EXPECT_THROW_MESSAGE(cross_entropy(x35, three(0, 1, 2), {.label_smoothing = 2}), "label_smoothing must be in [0, 1]");
  EXPECT_THROW_MESSAGE(sigmoid_focal_loss(x, x, {.gamma = -1}), "gamma must not be negative");
  EXPECT_THROW_MESSAGE(triplet_margin_loss(x35, x35, x35, {.margin = 0}), "margin must be positive");
  EXPECT_THROW_MESSAGE(kl_divergence(x, x, {.epsilon = -1}), "epsilon must not be negative");
  EXPECT_THROW_MESSAGE(poisson_nll_loss(x, x, {.eps = 0}), "eps must be positive");
  EXPECT_THROW_MESSAGE(gaussian_nll_loss(x, x, x, {.eps = 0}), "eps must be positive");
  EXPECT_THROW_MESSAGE(mse_loss(x, x, {.reduction = Reduction::batchmean}), "mse_loss: it has no batchmean");
}

TEST(LossErrors, ShapesFit) {
  const Tensor x = zeros({3}), y = zeros({4});
  const char* both = "of shape [3] and target of shape [4] must have the same shape";
  EXPECT_THROW_MESSAGE(mse_loss(x, y), both);
  EXPECT_THROW_MESSAGE(l1_loss(x, y), both);
  EXPECT_THROW_MESSAGE(smooth_l1_loss(x, y), both);
  EXPECT_THROW_MESSAGE(huber_loss(x, y), both);
  EXPECT_THROW_MESSAGE(binary_cross_entropy(x, y), both);
  EXPECT_THROW_MESSAGE(binary_cross_entropy_with_logits(x, y), both);
  EXPECT_THROW_MESSAGE(kl_div(x, y), both);
  EXPECT_THROW_MESSAGE(hinge_loss(x, y), both);
  EXPECT_THROW_MESSAGE(hinge_embedding_loss(x, y), "hinge_embedding_loss: shapes [3] and [4] do not broadcast");
  EXPECT_THROW_MESSAGE(soft_margin_loss(x, y), both);
  EXPECT_THROW_MESSAGE(poisson_nll_loss(x, y), both);
  EXPECT_THROW_MESSAGE(gaussian_nll_loss(x, y, x), "gaussian_nll_loss: shapes [3] and [4] do not broadcast");
  EXPECT_THROW_MESSAGE(sigmoid_focal_loss(x, y), both);
  EXPECT_THROW_MESSAGE(multilabel_soft_margin_loss(x, y), both);
  EXPECT_THROW_MESSAGE(multilabel_margin_loss(x, y), both);
  EXPECT_THROW_MESSAGE(margin_ranking_loss(x, y, x), "margin_ranking_loss: shapes [3] and [4] do not broadcast");
  EXPECT_THROW_MESSAGE(triplet_margin_loss(x, x, y), "negative of shape [4]");
  EXPECT_THROW_MESSAGE(kl_divergence(x, y), "p of shape [3] and q of shape [4]");
  EXPECT_THROW_MESSAGE(cosine_similarity_loss(x, y), "input2 of shape [4]");
  EXPECT_THROW_MESSAGE(cosine_embedding_loss(x35, x35, zeros({5})), "must have shape [3], one number a vector");
  EXPECT_THROW_MESSAGE(cross_entropy(x35, three(0, 1, 2)[0]), "for an input of shape [3, 5] must have shape [3]");
  EXPECT_THROW_MESSAGE(cross_entropy(zeros({2, 3, 5}), zeros({2, 3}, DType::i64)),
                       "must have shape [2, 5]; the classes are axis 1, so flatten input and target to [6, 5] and [6]");
  EXPECT_THROW_MESSAGE(gaussian_nll_loss(x35, x35, zeros({5})), "gaussian_nll_loss: var of shape [5]");
}

TEST(LossErrors, WeightsFit) {
  const Tensor x = zeros({3}), t = three(0, 1, 2);
  EXPECT_THROW_MESSAGE(nll_loss(x35, t, {.weight = ones({4})}),
                       "nll_loss: weight of shape [4] must hold one number for each of the 5 classes");
  EXPECT_THROW_MESSAGE(cross_entropy(x35, t, {.weight = ones({1, 5})}), "one number for each of the 5 classes");
  EXPECT_THROW_MESSAGE(multi_margin_loss(x35, t, {.weight = ones({3})}), "one number for each of the 5 classes");
  EXPECT_THROW_MESSAGE(softmax_focal_loss(x35, t, {.alpha = ones({3})}), "alpha of shape [3]");
  EXPECT_THROW_MESSAGE(mse_loss(x, x, {.weight = ones({1})}), "weight of shape [1] must have the same shape");
  EXPECT_THROW_MESSAGE(binary_cross_entropy(x, x, {.weight = ones({2})}), "does not broadcast");
  EXPECT_THROW_MESSAGE(binary_cross_entropy_with_logits(x35, x35, {.pos_weight = ones({3})}),
                       "pos_weight of shape [3] does not broadcast to the input's shape [3, 5]");
}

TEST(LossErrors, TheRegistryNamesWhatItHas) {
  const Tensor x = zeros({3});
  EXPECT_THROW_MESSAGE(evaluate_loss("mse", {x, x}), "there is no 'mse'; did you mean 'mse_loss'?");
  EXPECT_THROW_MESSAGE(evaluate_loss("zzz", {x, x}), "there is no 'zzz'; there are mse_loss");
  EXPECT_THROW_MESSAGE(evaluate_loss("huber_loss", {x, x}, {{"dalta", 1.0}}),
                       "huber_loss: it has no option 'dalta'; it has delta, reduction");
  EXPECT_THROW_MESSAGE(evaluate_loss("huber_loss", {x}), "takes 3 inputs (input, target, weight), got 1");
  EXPECT_THROW_MESSAGE(evaluate_loss("huber_loss", {x, x}, {{"reduction", "avg"}}), "'avg' is not none, mean, sum");
}

}  // namespace
}  // namespace ebb
