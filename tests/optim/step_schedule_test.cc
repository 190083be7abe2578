// SPDX-License-Identifier: MIT
// Work and memory of a training step: the sweeps of a whole network with its optimiser, and their memory.
#include <gtest/gtest.h>

#include "ebb/ebb.h"

namespace {

using namespace ebb;

struct Network {
  nn::Linear first{20, 32}, second{32, 32}, third{32, 10};
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(third(relu(second(relu(first(x))))), y); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("third", third);
  }
};

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

template <class Net, class Rule>
std::string schedule_of_a_later_step(Net net, Rule rule, const Shape& batch) {
  const Tensor x = randn(batch).eval(), y = randint(0, 10, {batch[0]}).eval();
  for (int k = 0; k < 2; ++k) rule.step(net, backward(net.loss(x, y)));  // moments exist from now on
  return rule.print_step(net, backward(net.loss(x, y)));
}

// Forward: two of bias and relu, the count of targets. Then the loss with its gradient, in which the last bias is
// added, two of relu's gradient, and an update for each of the three matrices and three biases.
TEST(StepSchedule, EveryParameterIsUpdatedInOneSweepHoweverDeepTheNetwork) {
  EXPECT_EQ(count(schedule_of_a_later_step(Network{}, Adam(AdamOptions{}), {8, 20}), "sweep "), 12);
  EXPECT_EQ(count(schedule_of_a_later_step(Network{}, Sgd({.momentum = 0.9}), {8, 20}), "sweep "), 12);
}

struct Pictures {
  nn::Conv2d conv1{3, 8, 3, {.padding = 1, .bias = false}}, conv2{8, 8, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm norm1{8, {.track_running_stats = false}}, norm2{8, {.track_running_stats = false}};
  nn::Linear head{8, 10};
  Tensor loss(const Tensor& x, const Tensor& y) {
    const Tensor h = relu(norm1(conv1(x)));
    return cross_entropy(head(mean(relu(norm2(conv2(h))) + h, {2, 3})), y);
  }
  template <class V>
  void visit(V&& v) {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("head", head);
  }
};

// The mean over positions fits into no sweep with the preceding norm. That must not keep either out of sweeps that it
// does fit.
TEST(StepSchedule, ANormWithItsReluIsOneSweepAlsoBeforeAMeanOfOtherAxes) {
  const std::string text = schedule_of_a_later_step(Pictures{}, Sgd({.momentum = 0.9}), {4, 3, 32, 32});
  EXPECT_EQ(count(text, "rsqrt"), 2) << text;
  EXPECT_EQ(count(text, "sweep "), 12) << text;
  // Only one of the two relus may be recomputed for its gradient, where that is faster than reading it: on a GPU.
  int norms_with_relu = 0;
  for (std::size_t at = text.find("rsqrt"); at != std::string::npos; at = text.find("rsqrt", at + 1))
    norms_with_relu += count(text.substr(at, text.find("sweep ", at) - at), "maximum") == 1;
  EXPECT_EQ(norms_with_relu, 2) << text;
}

TEST(StepSchedule, TheGradientOfWeightsLiesAsTheWeightsDo) {
  const std::string text = schedule_of_a_later_step(Network{}, Sgd({.momentum = 0.9}), {8, 20});
  EXPECT_EQ(count(text, "call matmul f32[32, 8] f32[8, 20] -> f32[32, 20]"), 1) << text;
  EXPECT_EQ(count(text, "call matmul f32[10, 8] f32[8, 32] -> f32[10, 32]"), 1) << text;
}

// The caller's Gradients live until the step is done. A bias's gradient that is not computed separately would keep its
// summands, the cotangents, one for each layer.
TEST(StepSchedule, GradientsThatTheCallerHoldsKeepNoActivations) {
  constexpr std::int64_t kRows = 4096, kWidth = 16, kLayers = 12;
  std::vector<nn::Linear> layers;
  for (int k = 0; k < kLayers; ++k) layers.emplace_back(kWidth, kWidth);
  const Tensor x = randn({kRows, kWidth}).eval();
  const auto loss = [&] {
    Tensor h = x;
    for (const nn::Linear& layer : layers) h = checkpoint([&layer](const Tensor& z) { return gelu(layer(z)); }, h);
    return mean(square(h));
  };
  Adam rule(AdamOptions{});
  for (int k = 0; k < 2; ++k) rule.step(layers, backward(loss()));
  reset_peak_memory(default_device());
  const std::size_t before = memory_stats(default_device()).live;
  rule.step(layers, backward(loss()));
  const std::size_t activation = kRows * kWidth * sizeof(float);
  // A checkpoint keeps one activation per layer; the pass itself holds a few more.
  EXPECT_LT(memory_stats(default_device()).peak - before, (kLayers + 8) * activation);
}

}  // namespace
