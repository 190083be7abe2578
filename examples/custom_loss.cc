// SPDX-License-Identifier: MIT
// Two ways to define a loss: a formula whose gradient Ebb derives, and a formula with a gradient rule of your
// own.
#include <cstdio>
#include <iostream>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

// Cauchy's loss, mean of log(1 + d²/2): outliers pull less the further away they are. Just a formula.
Tensor cauchy_loss(const Tensor& input, const Tensor& target) { return mean(log1p(0.5 * square(input - target))); }

// The same with a rule. d/dd log(1 + d²/2) = d / (1 + d²/2), clipped to [−limit, limit]: a rule may be anything, here
// one that never lets a single sample dominate.
Tensor clipped_cauchy_loss(const Tensor& input, const Tensor& target, double limit) {
  auto forward = [](const std::vector<Tensor>& in) { return cauchy_loss(in[0], in[1]); };
  auto rule = [limit](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor d = in[0] - in[1];
    const Tensor g = grad * clamp(d / (1.0 + 0.5 * square(d)), -limit, limit) / static_cast<double>(d.numel());
    return {g, -g};
  };
  return custom_function(forward, rule, {input, target});
}

// Fits a line to the points by gradient descent on a loss.
template <class Loss>
Tensor fit(const Tensor& x, const Tensor& y, Loss loss_of) {
  Tensor line = variable(zeros({2}));  // slope and offset
  for (int step = 0; step < 400; ++step) {
    Tensor loss = loss_of(line[0] * x + line[1], y);
    line = variable(line - 0.5 * backward(loss)[line]).eval();
  }
  return line;
}

}  // namespace

int main() {
  manual_seed(3);
  const Tensor x = linspace(-1, 1, 200);
  // y = 2x + 1, and every tenth point far above it.
  const Tensor outlier = cast(remainder(arange(200), 10) == 0, DType::f32);
  const Tensor y = 2.0 * x + 1.0 + 0.05 * randn({200}) + 8.0 * outlier;

  const Tensor squares = fit(x, y, [](const Tensor& a, const Tensor& b) { return mse_loss(a, b); });
  const Tensor cauchy = fit(x, y, [](const Tensor& a, const Tensor& b) { return cauchy_loss(a, b); });
  const Tensor clipped = fit(x, y, [](const Tensor& a, const Tensor& b) { return clipped_cauchy_loss(a, b, 0.1); });
  std::cout << "the truth            [2. 1.]\n"
            << "squares              " << squares << "\n"
            << "Cauchy               " << cauchy << "\n"
            << "Cauchy, own rule     " << clipped << "\n\n";

  // Checks the formula's gradient against finite differences.
  const Tensor a = randn({5}, DType::f64), b = randn({5}, DType::f64);
  const GradcheckReport report =
      check_gradients([](const std::vector<Tensor>& in) { return cauchy_loss(in[0], in[1]); }, {a, b});
  std::cout << report << "\n";

  const Tensor truth = tensor({2.0, 1.0});
  const bool good = report.passed() && max(abs(cauchy - truth)).item() < 0.15 &&
                    max(abs(clipped - truth)).item() < 0.15 && max(abs(squares - truth)).item() > 0.5;
  std::puts(good ? "As it should be." : "Something is wrong here.");
  return good ? 0 : 1;
}
