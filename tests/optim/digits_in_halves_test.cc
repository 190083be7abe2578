// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/amp.h"
#include "ebb/data.h"
#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"

// Digits are recognised as well in halves as in f32, and a batch that overflows does no harm.
namespace ebb {
namespace {

struct Outcome {
  double accuracy;  // per cent
  std::int64_t steps, skipped;
  double scale;
};

constexpr int kSteps = 300;

// At step `overflow` the pictures are so bright that f16 overflows.
Outcome train(DType compute, const Digits& digits, const Digits& test, int overflow = -1) {
  manual_seed(5);
  nn::Sequential model{nn::Linear(784, 64), nn::Relu{}, nn::Linear(64, 10)};
  DataLoader loader({digits.images, digits.labels}, {.batch_size = 50});
  Adam adam;
  const Schedule rate = cosine_schedule(3e-3, {.steps = kSteps});
  LossScaler scaler({.scale = 4096, .growth_interval = 1000});
  for (int step = 0; step < kSteps;) {
    for (const Batch& batch : loader) {
      if (step == kSteps) break;
      adam.set_lr(rate(step));
      const auto half = cast_parameters(model, compute);
      const Tensor x = step == overflow ? batch[0] * 1e6 : batch[0];
      const Tensor loss = cross_entropy(cast(half(cast(x, compute)), DType::f32), batch[1]);
      const std::vector<double> before = step == overflow ? model.get<0>().weight.to_vector() : std::vector<double>{};
      const bool taken = scaler.step(adam, model, backward(scaler.scale(loss)));
      EXPECT_EQ(taken, step != overflow) << "step " << step;
      if (step == overflow) {
        EXPECT_EQ(model.get<0>().weight.to_vector(), before);
      }
      ++step;
    }
  }
  const Tensor answers = argmax(cast_parameters(model, compute)(cast(test.images, compute)), 1);
  return {100 * mean(cast(answers == test.labels, DType::f32)).item(), scaler.steps(), scaler.skipped(),
          scaler.scale()};
}

TEST(DigitsInHalves, AreReadAsWellAsInF32AndAnOverflowIsSkipped) {
  const Digits digits = make_digits(5000, 1), test = make_digits(2000, 2);
  const Outcome full = train(DType::f32, digits, test), brain = train(DType::bf16, digits, test),
                half = train(DType::f16, digits, test), spoiled = train(DType::f16, digits, test, 100);
  EXPECT_GT(full.accuracy, 90);
  EXPECT_NEAR(brain.accuracy, full.accuracy, 0.5);
  EXPECT_NEAR(half.accuracy, full.accuracy, 0.5);
  EXPECT_NEAR(spoiled.accuracy, full.accuracy, 0.5);
  EXPECT_EQ(full.skipped + brain.skipped + half.skipped, 0);
  EXPECT_EQ(half.scale, 4096);
  EXPECT_EQ(spoiled.skipped, 1);
  EXPECT_EQ(spoiled.steps, kSteps - 1);
  EXPECT_EQ(spoiled.scale, 2048);
}

}  // namespace
}  // namespace ebb
