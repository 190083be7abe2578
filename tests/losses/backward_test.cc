// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/ops.h"

// LOSS_backward(grad, ...) matches the backward pass to the bit, for chaining by hand.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;
struct BackwardCase {
  const char* name;
  Tensors inputs;  // floating ones are differentiated
  FunctionOfMany loss;
  std::function<Tensors(const Tensor& grad, const Tensors&)> by_hand;
};

template <class G>
Tensors list(const G& g) {
  return {g.input, g.target, g.weight};
}
Tensors list(const BceWithLogitsGradients& g) { return {g.input, g.target, g.weight, g.pos_weight}; }
Tensors list(const PairGradients& g) { return {g.input1, g.input2, g.target}; }
Tensors list(const TripletGradients& g) { return {g.anchor, g.positive, g.negative}; }
Tensors list(const GaussianNllGradients& g) { return {g.input, g.target, g.var}; }
Tensors list(const DivergenceGradients& g) { return {g.p, g.q}; }
Tensors list(const Tensors& g) { return g; }
Tensors list(const Tensor& g) { return {g}; }

#define TWO(name, x, t, ...)                                                                             \
  {                                                                                                      \
#name, {x, t }, [=](const Tensors& v) { return name(v[0], v[1], {__VA_ARGS__}); }, [=                \
    ](const Tensor& g, const Tensors& v) { return list(name##_backward(g, v[0], v[1], {__VA_ARGS__})); } \
  }
#define WEIGHTED(name, x, t, w, ...)                                                                     \
  {                                                                                                      \
#name, {x, t, w }, [=](const Tensors& v) { return name(v[0], v[1], {__VA_ARGS__}); }, [=             \
    ](const Tensor& g, const Tensors& v) { return list(name##_backward(g, v[0], v[1], {__VA_ARGS__})); } \
  }
#define THREE(name, a, b, c, ...)                                                                              \
  {                                                                                                            \
#name, {a, b, c }, [=](const Tensors& v) { return name(v[0], v[1], v[2], {__VA_ARGS__}); }, [=             \
    ](const Tensor& g, const Tensors& v) { return list(name##_backward(g, v[0], v[1], v[2], {__VA_ARGS__})); } \
  }

#define FOUR(name, a, b, c, d, ...)                                                                                  \
  {                                                                                                                  \
#name, {a, b, c, d }, [=](const Tensors& v) { return name(v[0], v[1], v[2], v[3], {__VA_ARGS__}); }, [=          \
    ](const Tensor& g, const Tensors& v) { return list(name##_backward(g, v[0], v[1], v[2], v[3], {__VA_ARGS__})); } \
  }

void expect_the_rule(const std::vector<BackwardCase>& cases) {
  for (const BackwardCase& k : cases) {
    Tensors v;
    for (const Tensor& in : k.inputs) v.push_back(is_floating(in.dtype()) ? variable(in) : in);
    const Tensor loss = k.loss(v), grad = tensor(0.75);
    const Gradients g = backward(loss, {.grad = grad});
    const Tensors by_hand = k.by_hand(grad, k.inputs);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (!is_floating(k.inputs[i].dtype())) {
        EXPECT_TRUE(i >= by_hand.size() || !by_hand[i].defined()) << k.name;
        continue;
      }
      ASSERT_LT(i, by_hand.size()) << k.name;
      ASSERT_TRUE(by_hand[i].defined()) << k.name << ", input " << i;
      EXPECT_EQ(by_hand[i].to_vector(), g[v[i]].to_vector()) << k.name << ", input " << i;
    }
  }
}

TEST(LossBackward, IsTheRuleOfTheBackwardPass) {
  const Tensor x = randn({4, 5}).eval(), t = randn({4, 5}).eval(), z = randn({4, 5}).eval(), p = rand({4, 5}).eval();
  const Tensor w = rand({4, 5}).eval(), w5 = rand({5}).eval(), classes = randint(0, 5, {4}).eval();
  const Tensor y = bernoulli({4, 5}, 0.5).eval(), s = (2 * y - 1).eval(), s4 = tensor({1, -1, 1, -1});
  const Tensor lists = tensor({{0, 2, -1, 3, 3}, {-1, 0, 0, 0, 0}, {4, 3, 2, 1, 0}, {1, -1, 2, -1, 2}});
  const std::vector<BackwardCase> cases{
      WEIGHTED(mse_loss, x, t, w, .weight = v[2]),
      WEIGHTED(l1_loss, x, t, w, .weight = v[2]),
      TWO(smooth_l1_loss, x, t, .beta = 0.5),
      WEIGHTED(huber_loss, x, t, w, .weight = v[2]),
      WEIGHTED(nll_loss, x, classes, w5, .weight = v[2]),
      WEIGHTED(cross_entropy, x, classes, w5, .weight = v[2], .label_smoothing = 0.1),
      WEIGHTED(cross_entropy, x, p, w5, .weight = v[2]),
      WEIGHTED(softmax_focal_loss, x, classes, w5, .alpha = v[2]),
      WEIGHTED(binary_cross_entropy, p, y, w, .weight = v[2]),
      WEIGHTED(multilabel_soft_margin_loss, x, y, w5, .weight = v[2]),
      TWO(sigmoid_focal_loss, x, y, .gamma = 1.5),
      TWO(focal_loss_on_probabilities, p, y, .gamma = 1.5),
      TWO(hinge_loss, x, s, ),
      TWO(hinge_embedding_loss, x, s, .margin = 0.5),
      TWO(soft_margin_loss, x, s, ),
      WEIGHTED(multi_margin_loss, x, classes, w5, .p = 2, .weight = v[2]),
      TWO(multilabel_margin_loss, x, lists, ),
      TWO(kl_div, x, p, .reduction = Reduction::batchmean),
      TWO(kl_divergence, p, w, .epsilon = 0.1),
      TWO(poisson_nll_loss, x, p, .full = true),
      TWO(cosine_similarity_loss, x, t, ),
      THREE(margin_ranking_loss, x, t, s, .margin = 0.1),
      THREE(triplet_margin_loss, x, t, z, .swap = true),
      THREE(triplet_margin_with_distance_loss, x, t, z, .margin = 2),
      THREE(cosine_embedding_loss, x, t, s4, .margin = 0.1),
      THREE(gaussian_nll_loss, x, t, p, .full = true),
      {"binary_cross_entropy_with_logits",
       {x, y, w, w5},
       [](const Tensors& v) {
         return binary_cross_entropy_with_logits(v[0], v[1], {.weight = v[2], .pos_weight = v[3]});
       },
       [](const Tensor& g, const Tensors& v) {
         return list(binary_cross_entropy_with_logits_backward(g, v[0], v[1], {.weight = v[2], .pos_weight = v[3]}));
       }},
  };
  expect_the_rule(cases);
}

// The same for rankings, overlaps, contrasts and preferences.
TEST(LossBackward, OfTheOtherLossesIsTheRuleToo) {
  const Tensor x = randn({4, 5}).eval(), t = randn({4, 5}).eval(), p = rand({4, 5}).eval(), q = rand({4, 5}).eval();
  const Tensor y = bernoulli({4, 5}, 0.5).eval(), s = (2 * y - 1).eval(), classes = tensor({3, 0, 4, 0});
  const Tensor weight = randn({5, 5}).eval(), log_p = log_softmax(x, -1).eval(), log_q = log_softmax(t, -1).eval();
  const Tensor a = (-rand({4}) - 0.1).eval(), b = (-rand({4}) - 0.1).eval(), c = (-rand({4})).eval(),
               d = (-rand({4})).eval();
  const Tensor desirable = tensor({true, false, false, true}), advantages = randn({4}).eval();
  const std::vector<BackwardCase> cases{
      TWO(asymmetric_loss, x, y, ),
      TWO(pinball_loss, x, t, .quantile = 0.3),
      TWO(log_cosh_loss, x, t, ),
      TWO(jsd_loss, log_p, log_q, .beta = 0.3),
      TWO(tvd_loss, p, q, ),
      TWO(generalized_kl, p, q, ),
      TWO(poly_loss, x, classes, .epsilon = 2),
      TWO(sparsemax_loss, x, classes, ),
      TWO(listnet_loss, x, t, ),
      TWO(perceptron_loss, x, s, ),
      TWO(dice_loss, p, y, .smooth = 0.5),
      TWO(iou_loss, p, y, .kept_axes = 0),
      TWO(tversky_loss, p, y, .alpha = 0.3, .beta = 0.7),
      TWO(lovasz_hinge, x, y, ),
      TWO(lovasz_softmax, softmax(x, 1).eval(), classes, ),
      TWO(nt_xent, x, t, ),
      TWO(supcon_loss, x, classes, ),
      THREE(arcface_loss, x, weight, classes, ),
      THREE(cosface_loss, x, weight, classes, ),
      TWO(barlow_twins_loss, x, t, ),
      TWO(vicreg_loss, x, t, ),
      THREE(kto_loss, a, b, desirable, .undesirable_weight = 2),
      TWO(orpo_loss, a, b, ),
      TWO(simpo_loss, a, b, .label_smoothing = 0.1),
      TWO(grpo_loss, log_p, advantages, .reference = log_q),
      TWO(dft_loss, x, classes, .ignore_index = 3),
      {"load_balancing_loss",
       {x},
       [](const Tensors& v) { return load_balancing_loss(v[0]); },
       [](const Tensor& g, const Tensors& v) { return list(load_balancing_loss_backward(g, v[0])); }},
      {"router_z_loss",
       {x},
       [](const Tensors& v) { return router_z_loss(v[0]); },
       [](const Tensor& g, const Tensors& v) { return list(router_z_loss_backward(g, v[0])); }},
      FOUR(dpo_loss, a, b, c, d, .label_smoothing = 0.1),
      FOUR(ipo_loss, a, b, c, d, .beta = 0.5),
  };
  expect_the_rule(cases);
}

// A custom distance is differentiated like any other function.
TEST(TripletWithDistance, TakesADistanceOfYourOwn) {
  const Tensor a = randn({4, 5}).eval(), p = randn({4, 5}).eval(), n = randn({4, 5}).eval();
  const TripletDistanceOptions squared{
      .distance_function = [](const Tensor& x, const Tensor& y) { return sum(square(x - y), -1); }, .margin = 30};
  const Tensor v = variable(a);
  const Tensor loss = triplet_margin_with_distance_loss(v, p, n, squared);
  // Inside the margin everywhere: d/da of mean(|a − p|² − |a − n|²) is (n − p)/2.
  EXPECT_TRUE(allclose(backward(loss)[v], (n - p) / 2, {.rtol = 1e-4, .atol = 1e-5}));
}

}  // namespace
}  // namespace ebb

#undef TWO
#undef THREE
#undef FOUR
#undef WEIGHTED
