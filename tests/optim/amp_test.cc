// SPDX-License-Identifier: MIT
#include "ebb/amp.h"

#include <gtest/gtest.h>

#include <limits>

#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"
#include "expect_error.h"

// Mixed precision: halves compute, f32 stores, and a step that overflowed has no effect.
namespace ebb {
namespace {

struct Weights {
  Tensor w = variable(tensor({1.0, 2.0}));
  template <class V>
  void visit(V&& v) {
    v("w", w);
  }
};

Gradients with_gradient(const Weights& m, double g) { return backward(sum(m.w * full({2}, g))); }

TEST(LossScaler, SkipsAnInjectedOverflowAndRecovers) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Weights m;
  Adam adam({.lr = 0.1});
  LossScaler scaler({.growth_interval = 3});
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_TRUE(scaler.step(adam, m, with_gradient(m, 65536)));
  const auto before = m.w.to_vector();
  const auto moments = adam.state().at("w/exp_avg").to_vector();
  EXPECT_NEAR(moments[0], 0.1, 1e-7);  // the gradient was 1 once unscaled

  for (double bad : {infinity, -infinity, nan}) EXPECT_FALSE(scaler.step(adam, m, with_gradient(m, bad)));
  EXPECT_EQ(m.w.to_vector(), before);
  EXPECT_EQ(adam.state().at("w/exp_avg").to_vector(), moments);
  EXPECT_EQ(adam.state().at("w/step").item<std::int64_t>(), 1);
  EXPECT_EQ(scaler.scale(), 8192);
  EXPECT_EQ(scaler.skipped(), 3);

  for (int k = 0; k < 3; ++k) EXPECT_TRUE(scaler.step(adam, m, with_gradient(m, scaler.scale())));
  EXPECT_EQ(scaler.scale(), 16384);  // three good steps in a row
  EXPECT_EQ(scaler.str(), "scale 16384, 4 steps, 3 skipped");
  EXPECT_NE(m.w.to_vector(), before);
}

TEST(LossScaler, OfConstantScaleStillSkips) {
  Weights m;
  Sgd sgd({.lr = 0.1});
  LossScaler scaler({.scale = 128, .growth_interval = 1, .dynamic = false});
  EXPECT_TRUE(scaler.step(sgd, m, with_gradient(m, 128)));
  EXPECT_FALSE(scaler.step(sgd, m, with_gradient(m, std::numeric_limits<double>::infinity())));
  EXPECT_EQ(scaler.scale(), 128);
  EXPECT_EQ(scaler.skipped(), 1);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler a({.growth_interval = 2}), b({.growth_interval = 2});
  Weights m;
  Sgd sgd;
  a.step(sgd, m, with_gradient(m, 1));
  b.load_state(a.state());
  b.step(sgd, m, with_gradient(m, 1));
  EXPECT_EQ(b.scale(), 131072);
  EXPECT_EQ(b.steps(), 2);
  EXPECT_THROW_MESSAGE(LossScaler({.scale = 0}), "LossScaler: the scale must be positive, got 0");
}

// A gradient of 1e-9 is 0 in f16; scaled it arrives.
TEST(LossScaler, SavesSmallGradientsFromVanishing) {
  const Tensor w = variable(full({4}, 1.0));
  const Tensor x = full({4}, 1e-4, DType::f16);
  const auto loss = [&] { return mean(cast(cast(w, DType::f16) * x, DType::f32)) * 1e-4; };
  EXPECT_EQ(backward(loss())[w].to_vector()[0], 0);
  const LossScaler scaler;
  EXPECT_NEAR(scaler.unscale(backward(scaler.scale(loss())))[w].to_vector()[0] / 2.5e-9, 1, 0.02);
}

TEST(MixedPrecision, GradientsReachTheF32Weights) {
  nn::Linear layer(3, 2);
  const nn::Linear half = cast_parameters(layer, DType::bf16);
  EXPECT_EQ(half.weight.dtype(), DType::bf16);
  const Gradients g = backward(sum(cast(half(ones({4, 3}, DType::bf16)), DType::f32)));
  EXPECT_EQ(g[layer.weight].dtype(), DType::f32);
  EXPECT_EQ(g[layer.weight].to_vector(), std::vector<double>(6, 4));
}

double trained_accuracy(DType compute) {
  manual_seed(11);
  nn::Sequential model{nn::Linear(2, 32), nn::Relu{}, nn::Linear(32, 3)};
  const Tensor x = randn({600, 2}).eval();
  const Tensor y = cast(floor(clamp(norm(x, 2, 1), 0.0, 2.9)), DType::i64).eval();
  AdamW adamw({.lr = 0.02});
  LossScaler scaler;
  for (int step = 0; step < 200; ++step) {
    const auto half = cast_parameters(model, compute);
    const Tensor loss = cross_entropy(cast(half(cast(x, compute)), DType::f32), y);
    scaler.step(adamw, model, backward(scaler.scale(loss)));
  }
  EXPECT_LT(scaler.skipped(), 10);
  EXPECT_GT(scaler.steps(), 190);
  return mean(cast(argmax(model(x), 1) == y, DType::f32)).item();
}

TEST(MixedPrecision, LearnsAsWellAsF32) {
  const double full = trained_accuracy(DType::f32);
  EXPECT_GT(full, 0.95);
  EXPECT_NEAR(trained_accuracy(DType::f16), full, 0.02);
  EXPECT_NEAR(trained_accuracy(DType::bf16), full, 0.02);
}

}  // namespace
}  // namespace ebb
