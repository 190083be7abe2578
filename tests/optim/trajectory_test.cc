// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "golden_numbers.h"

// Every optimiser follows torch.optim (or its paper) step by step.
namespace ebb {
namespace {

struct Problem {
  Tensor w, b;
  explicit Problem(DType dtype = DType::f64)
      : w(variable(tensor({0.3, -0.8, 0.5}, dtype))), b(variable(tensor({0.1}, dtype))) {}
  template <class V>
  void visit(V&& v) {
    v("w", w);
    v("b", b);
  }
  Tensor loss() const {
    const Tensor x = reshape(arange(0, 12, 1, w.dtype()), {4, 3}) / 6.0 - 1.0;
    const Tensor y = tensor({0.5, -0.25, 1.0, 0.0}, w.dtype());
    return sum(square(tanh(matmul(x, w)) + b - y)) + 0.05 * sum(square(square(w)));
  }
};

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>()> make;
};

template <class T, class Options>
Case one(const char* name, const Options& o) {
  return {name, [o] { return std::make_unique<T>(o); }};
}

std::vector<Case> cases() {
  return {
      one<Sgd>("sgd", SgdOptions{.lr = 0.05}),
      one<Sgd>("sgd_momentum", SgdOptions{.lr = 0.05, .momentum = 0.9}),
      one<Sgd>("sgd_dampening", SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}),
      one<Sgd>("sgd_nesterov", SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      one<Adam>("adam", AdamOptions{.lr = 0.05}),
      one<Adam>("adam_defaults", AdamOptions{}),
      one<Adam>("adam_decay_amsgrad",
                AdamOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true}),
      one<AdamW>("adamw", AdamWOptions{.lr = 0.05}),
      one<AdamW>("adamw_decay", AdamWOptions{.lr = 0.05, .weight_decay = 0.2, .amsgrad = true}),
      one<RAdam>("radam", RAdamOptions{.lr = 0.05}),
      one<RAdam>("radam_decay", RAdamOptions{.lr = 0.05, .weight_decay = 0.1}),
      one<RAdam>("radam_decoupled", RAdamOptions{.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true}),
      one<RMSprop>("rmsprop", RMSpropOptions{.lr = 0.02}),
      one<RMSprop>("rmsprop_all",
                   RMSpropOptions{.lr = 0.01, .alpha = 0.9, .weight_decay = 0.05, .momentum = 0.8, .centered = true}),
      one<Adagrad>("adagrad", AdagradOptions{.lr = 0.1}),
      one<Adagrad>("adagrad_all",
                   AdagradOptions{.lr = 0.1, .lr_decay = 0.05, .weight_decay = 0.1, .initial_accumulator_value = 0.2}),
      one<Lars>("lars", LarsOptions{.lr = 10, .weight_decay = 0.01}),
      one<Lamb>("lamb", LambOptions{.lr = 0.02}),
      one<Lion>("lion", LionOptions{.lr = 0.02}),
      one<Lion>("lion_decay", LionOptions{.lr = 0.02, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.1}),
  };
}

std::vector<double> flat(const Problem& p) {
  std::vector<double> all = p.w.to_vector();
  all.push_back(p.b.item());
  return all;
}

void follow_trajectory(const Case& c, DType dtype, double tolerance) {
  const auto expected = testing::golden("optim/golden/trajectories.txt").at(c.name);
  ASSERT_EQ(expected.size(), 20u);
  Problem p(dtype);
  const auto optimizer = c.make();
  for (std::size_t t = 0; t < expected.size(); ++t) {
    optimizer->step(p, backward(p.loss()));
    const std::vector<double> now = flat(p);
    for (std::size_t k = 0; k < now.size(); ++k) {
      ASSERT_NEAR(now[k], expected[t][k], tolerance) << c.name << ", step " << t + 1 << ", element " << k;
    }
  }
}

TEST(Optimizers, FollowTheGoldenTrajectoriesInF64) {
  EXPECT_EQ(cases().size(), testing::golden("optim/golden/trajectories.txt").size());
  for (const Case& c : cases()) follow_trajectory(c, DType::f64, 1e-10);
}

// The division by √v makes small differences of small gradients large: hence 1e-4 where f32 has 1e-7.
TEST(Optimizers, FollowTheGoldenTrajectoriesInF32) {
  for (const Case& c : cases()) follow_trajectory(c, DType::f32, 1e-4);
}

TEST(Optimizers, GoOnFromSavedStateToTheSameBits) {
  for (const Case& c : cases()) {
    Problem straight, stopped;
    const auto optimizer = c.make(), first = c.make(), second = c.make();
    for (int t = 0; t < 6; ++t) optimizer->step(straight, backward(straight.loss()));
    for (int t = 0; t < 3; ++t) first->step(stopped, backward(stopped.loss()));
    second->load_state(first->state());
    for (int t = 0; t < 3; ++t) second->step(stopped, backward(stopped.loss()));
    EXPECT_EQ(flat(straight), flat(stopped)) << c.name;
  }
}

TEST(Optimizers, KeepHalfParametersHalfAndMomentsInF32) {
  Problem p(DType::bf16);
  Adam adam({.lr = 0.05});
  adam.step(p, backward(p.loss()));
  EXPECT_EQ(p.w.dtype(), DType::bf16);
  EXPECT_EQ(adam.state().at("w/exp_avg").dtype(), DType::f32);
}

// ---- curves ---------------------------------------------------------------------------------------------------------

Tensor waves(const Shape& shape, double phase, double scale) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(std::sin(static_cast<double>(i) * 12.9898 + phase) * scale);
  }
  return from_data(v, shape);
}

struct WavyNetwork {
  Tensor w1 = variable(waves({32, 8}, 0.1, 0.5)), b1 = variable(waves({32}, 0.2, 0.1));
  Tensor w2 = variable(waves({4, 32}, 0.3, 0.3)), b2 = variable(waves({4}, 0.4, 0.1));
  template <class V>
  void visit(V&& v) {
    v("w1", w1);
    v("b1", b1);
    v("w2", w2);
    v("b2", b2);
  }
  Tensor operator()(const Tensor& x) const { return matmul(relu(matmul(x, t(w1)) + b1), t(w2)) + b2; }
};

void follow_curve(const std::string& name, Optimizer& optimizer, bool clipped) {
  const std::vector<double> expected = testing::golden("optim/golden/curves.txt").at(name).at(0);
  ASSERT_EQ(expected.size(), 100u);
  const Tensor x = waves({64, 8}, 0.5, 1);
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 64; ++i) labels.push_back((i * 7 + i / 5) % 4);
  const Tensor y = from_data(labels, {64});
  WavyNetwork network;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const Tensor loss = cross_entropy(network(x), y);
    Gradients g = backward(loss);
    if (clipped) g = clip_by_norm(g, 0.1).gradients;
    optimizer.step(network, g);
    ASSERT_NEAR(loss.item(), expected[t], 1e-4 * expected[t]) << name << ", step " << t;
  }
}

TEST(TrainingCurve, OfSgdIsPyTorchs) {
  Sgd sgd({.lr = 0.1, .momentum = 0.9});
  follow_curve("sgd", sgd, false);
}
TEST(TrainingCurve, OfAdamIsPyTorchs) {
  Adam adam({.lr = 0.01});
  follow_curve("adam", adam, false);
}
TEST(TrainingCurve, OfAdamWWithClippedGradientsIsPyTorchs) {
  AdamW adamw({.lr = 0.01});
  follow_curve("adamw_clipped", adamw, true);
}

}  // namespace
}  // namespace ebb
