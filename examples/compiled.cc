// SPDX-License-Identifier: MIT
// Follows a small model thousands of times per second, as in a robot's arm, a game or on a trading desk. The sensor's
// readings decay as a·exp(−k·t) + c; each window of readings is fitted by gradient descent, starting from the previous
// fit. With so few numbers, building the graph takes longer than computing it: the whole step is compiled, and built
// once for all windows.
#include <chrono>
#include <cstdio>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

constexpr int kWindows = 20, kSteps = 200;

// p = [a, k, c]
Tensor error(const Tensor& p, const Tensor& t, const Tensor& reading) {
  return mse_loss(p[0] * exp(-p[1] * t) + p[2], reading);
}

// One step of gradient descent: the new parameters and the error before it.
std::vector<Tensor> step(const std::vector<Tensor>& in) {
  const Tensor &p = in[0], &t = in[1], &reading = in[2];
  const auto [loss, gradient] = value_and_grad([&](const Tensor& q) { return error(q, t, reading); })(p);
  return {p - 0.3 * gradient, loss};
}

struct Fit {
  std::vector<double> parameters;
  double error, seconds;
};

Fit follow(const FunctionToMany& one_step) {
  manual_seed(3);
  const Tensor t = linspace(0, 4, 64).eval();
  Tensor p = tensor({1.0, 1.0, 0.0}), loss;
  double seconds = 0;
  for (int window = 0; window < kWindows; ++window) {
    const double a = 2 + 0.02 * window, k = 0.8 - 0.01 * window;  // the sensor drifts
    const Tensor reading = (a * exp(-k * t) + 0.5 + 0.01 * randn({64})).eval();
    const auto start = std::chrono::steady_clock::now();
    for (int s = 0; s < kSteps; ++s) {
      const std::vector<Tensor> out = one_step({p, t, reading});
      eval(out);
      p = out[0];
      loss = out[1];
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return {p.to_vector(), loss.item(), seconds};
}

}  // namespace

int main() {
  const Fit built_every_time = follow(step), compiled = follow(compile(FunctionToMany(step)));
  const std::vector<double>& p = compiled.parameters;
  std::printf("a = %.3f, k = %.3f, c = %.3f; mean squared error %.2e\n", p[0], p[1], p[2], compiled.error);
  const double each = 1e6 / (kWindows * kSteps);
  std::printf("a step: %.1f us, compiled %.1f us\n", built_every_time.seconds * each, compiled.seconds * each);
  return compiled.parameters == built_every_time.parameters && compiled.error < 2e-4 ? 0 : 1;
}
