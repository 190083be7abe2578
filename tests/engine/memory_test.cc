// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/ebb.h"
#include "expect_error.h"

// Peak memory of a training step.
namespace ebb {
namespace {

constexpr std::int64_t kWidth = 64, kBatch = 256, kLayers = 64;

struct Net {
  std::vector<Tensor> weights;
  Tensor x;
  Net() {
    manual_seed(1);
    for (std::int64_t l = 0; l < kLayers; ++l) weights.push_back(variable((randn({kWidth, kWidth}) * 0.1).eval()));
    x = randn({kBatch, kWidth}).eval();
  }
  std::vector<Function> layers() const {
    std::vector<Function> out;
    for (const Tensor& w : weights) out.push_back([w](const Tensor& h) { return tanh(matmul(h, w)); });
    return out;
  }
};

struct Step {
  std::size_t peak;  // beyond what was live before
  double loss;
  std::vector<std::vector<double>> gradients;
};

Step run_step(const Net& net, int segments) {
  Tensor h = net.x;
  if (segments > 0) {
    h = checkpoint_sequential(net.layers(), segments, h);
  } else {
    for (const Function& layer : net.layers()) h = layer(h);
  }
  const Tensor loss = mean(square(h));
  h = Tensor();
  const std::size_t live = memory_stats(default_device()).live;
  reset_peak_memory(default_device());
  const Gradients g = backward(loss);
  Step s;
  s.loss = loss.item();
  s.peak = memory_stats(default_device()).peak - live;
  for (const Tensor& w : net.weights) s.gradients.push_back(g[w].to_vector());
  return s;
}

TEST(Memory, AStepHoldsItsActivationsAndGradientsAndLittleMore) {
  const Net net;
  const Step s = run_step(net, 0);
  const double activations = kLayers * kBatch * kWidth * 4.0, gradients = kLayers * kWidth * kWidth * 4.0;
  // Activations are freed while gradients are allocated; parameters existed before.
  EXPECT_LE(static_cast<double>(s.peak), 1.1 * (activations + gradients))
      << "activations " << activations << ", gradients " << gradients;
}

TEST(Memory, CheckpointsHoldFarLessAndGiveTheSameBits) {
  const Net net;
  const Step plain = run_step(net, 0), kept = run_step(net, 8);
  EXPECT_EQ(kept.loss, plain.loss);
  EXPECT_EQ(kept.gradients, plain.gradients);
  // 8 borders and one segment of 8 layers at a time, in addition to the gradients.
  const double gradients = kLayers * kWidth * kWidth * 4.0, row = kBatch * kWidth * 4.0;
  EXPECT_LE(static_cast<double>(kept.peak), 1.1 * (gradients + 20 * row)) << "plain: " << plain.peak;
  EXPECT_LT(kept.peak, plain.peak / 2);
}

TEST(Memory, NothingIsLeftAfterAStep) {
  const Net net;
  run_step(net, 0);
  const std::size_t before = memory_stats(default_device()).live;
  run_step(net, 0);
  run_step(net, 8);
  EXPECT_EQ(memory_stats(default_device()).live, before);
}

TEST(Memory, ALoopThatOnlyAccumulatesDoesNotGrow) {
  Tensor total = zeros({1000});
  std::size_t most = 0;
  for (int k = 0; k < 30000; ++k) {
    total = total + full({1000}, 0.5);
    most = std::max(most, memory_stats(default_device()).live);
  }
  EXPECT_EQ(total[7].item(), 15000);
  EXPECT_LT(most, std::size_t{100} << 20);
}

TEST(Memory, TheLimitIsAnErrorThatSaysWhatToDo) {
  const Tensor x = randn({1000, 1000}).eval();
  set_memory_limit(memory_stats(default_device()).live + 1000000, default_device());
  EXPECT_THROW_KIND((x * 2 + 1).eval(), memory, "raise the limit with set_memory_limit");
  set_memory_limit(0, default_device());
  EXPECT_NEAR((x * 2 + 1)[0][0].item(), 2 * x[0][0].item() + 1, 1e-6);  // nothing is broken afterwards
}

TEST(Memory, AFusedChainHoldsNoIntermediateResults) {
  const Tensor x = randn({1 << 18}).eval();
  const std::size_t live = memory_stats(default_device()).live;
  reset_peak_memory(default_device());
  const double value = mean(square(tanh(exp(-x * x) + 1) / 2)).item();
  EXPECT_GT(value, 0);
  EXPECT_LT(memory_stats(default_device()).peak - live, std::size_t{1} << 19);  // less than half of one intermediate
}

}  // namespace
}  // namespace ebb
