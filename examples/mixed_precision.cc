// SPDX-License-Identifier: MIT
// The same network reads digits in f32, in bf16 and in f16. Halves compute, f32 keeps the weights; f16 needs a scaled
// loss. One step of f16 overflows on purpose: it is skipped, and training continues. See docs/mixed_precision.md.
#include <cmath>
#include <cstdio>
#include <limits>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

struct Network {
  nn::Linear first{784, 128}, second{128, 10};
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
  }
};

struct Result {
  double accuracy = 0;
  LossScaler::State scaler;
  bool skipped_the_spoiled_step = false;
};

Result train(DType compute, const Digits& train, const Digits& test, std::int64_t spoiled_step = -1) {
  manual_seed(1);
  Network model;  // f32, whatever the dtype of the computation
  DataLoader loader({train.images, train.labels}, {.batch_size = 50});
  constexpr int kEpochs = 5;
  const Schedule rate = cosine_schedule(2e-3, {.steps = kEpochs * loader.batches()});
  Adam adam;
  LossScaler scaler({.growth_interval = 100});
  Result result;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const Batch& batch : loader) {
      adam.set_lr(rate(step));
      const Network half = cast_parameters(model, compute);  // casts are operations: gradients reach model's weights
      Tensor loss = cross_entropy(cast(half(cast(batch[0], compute)), DType::f32), batch[1]);
      if (step == spoiled_step) loss = loss * std::numeric_limits<double>::infinity();

      const Tensor before = model.first.weight;
      const double scale = scaler.scale();
      const bool taken = scaler.step(adam, model, backward(scaler.scale(loss)));
      if (step == spoiled_step) {
        result.skipped_the_spoiled_step = !taken && all(model.first.weight == before).item<bool>();
        std::printf("  step %ld is spoiled: %s, the scale goes from %g to %g\n", static_cast<long>(step),
                    taken ? "TAKEN" : "skipped", scale, scaler.scale());
      }
      ++step;
    }
  }
  // The weights are f32, but the network in halves was trained, so that one is measured.
  const Tensor answers = argmax(cast_parameters(model, compute)(cast(test.images, compute)), 1);
  result.accuracy = 100 * mean(cast(answers == test.labels, DType::f32)).item();
  result.scaler = scaler.state();
  std::printf("  %-4s  %.2f %% right   %s\n", std::string(name(compute)).c_str(), result.accuracy,
              scaler.str().c_str());
  return result;
}

}  // namespace

int main() {
  const Digits digits = make_digits(8000, 1), test = make_digits(2000, 2);
  const Result full = train(DType::f32, digits, test);
  const Result brain = train(DType::bf16, digits, test);
  const Result half = train(DType::f16, digits, test, 200);

  const bool good = full.accuracy > 92 && std::abs(brain.accuracy - full.accuracy) <= 0.5 &&
                    std::abs(half.accuracy - full.accuracy) <= 0.5 && half.skipped_the_spoiled_step &&
                    half.scaler.skipped >= 1 && half.scaler.steps + half.scaler.skipped == 800 &&
                    half.scaler.skipped < 10;
  std::puts(good ? "Halves are within half a point of f32, and the spoiled step did no harm."
                 : "Something is wrong here.");
  return good ? 0 : 1;
}
