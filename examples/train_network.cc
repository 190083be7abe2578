// SPDX-License-Identifier: MIT
// A model is a struct, and an optimiser updates its parameters: docs/training.md as one program. It learns to classify
// three rings, in f32 and then in bf16 with f32 weights.
#include <cstdio>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

struct Network {
  nn::Linear first{2, 32}, second{32, 32}, third{32, 3};
  nn::Dropout dropout{0.1};

  Tensor operator()(const Tensor& x) const { return third(dropout(gelu(second(gelu(first(x)))))); }

  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("third", third);
    v("dropout", dropout);
  }
};

double accuracy(Network model, const Tensor& x, const Tensor& y) {  // a copy: the caller's stays in training mode
  set_training(model, false);
  return mean(cast(argmax(model(x), 1) == y, DType::f32)).item();
}

double train(DType compute) {
  manual_seed(1);
  const Tensor x = (randn({1024, 2}) * 1.2).eval();
  const Tensor y = cast(floor(clamp(norm(x, 2, 1), 0.0, 2.9)), DType::i64).eval();

  Network model;
  AdamW optimizer({.weight_decay = 0.01, .decays = decay_matrices});
  const int steps = 200;
  const Schedule rate = warm_up(cosine_schedule(2e-2, {.steps = steps - 20}), 20);
  LossScaler scaler;
  WeightEma average(0.95);
  for (int step = 0; step < steps; ++step) {
    const Network half = cast_parameters(model, compute);
    Tensor loss = cross_entropy(cast(half(cast(x, compute)), DType::f32), y);
    Gradients gradients = scaler.unscale(backward(scaler.scale(loss)));
    optimizer.set_lr(rate(step));
    scaler.step_unscaled(optimizer, model, clip_by_norm(gradients, 1.0).gradients);
    average.update(model);
    if (step % 50 == 0) std::printf("  step %3d   loss %.4f   lr %.4f\n", step, loss.item(), optimizer.lr());
  }
  const double right = accuracy(average.averaged(model), x, y);
  std::printf("  %s: %.1f %% right, %ld parameters, %s\n", std::string(name(compute)).c_str(), 100 * right,
              static_cast<long>(parameter_count(model)), scaler.str().c_str());
  return right;
}

}  // namespace

int main() {
  const double full = train(DType::f32), half = train(DType::bf16);
  return full > 0.95 && half > full - 0.02 ? 0 : 1;
}
