// SPDX-License-Identifier: MIT
#include "worker/cases.h"

// Five losses that no library has, each written the way a user would: a formula of a few lines.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;

Inputs regression(Size s) { return {{"x", Kind::normal, elements(s), true}, {"t", Kind::normal, elements(s)}}; }

// Barron's general robust loss with shape a = 1.3 and scale c = 0.7: |a−2|/a·(((d/c)²/|a−2| + 1)^(a/2) − 1)
Tensor barron(const Tensors& in) {
  const double a = 1.3, c = 0.7, b = std::abs(a - 2);
  const Tensor d = (in[0] - in[1]) / c;
  return mean(b / a * (pow(square(d) / b + 1, a / 2) - 1));
}

// Student's t with ν = 4 and a learned scale e^s: (ν+1)/2·log1p(d²/(ν·e^2s)) + s
Tensor student_t(const Tensors& in) {
  const double nu = 4;
  const Tensor z = (in[0] - in[1]) * exp(-in[2]);
  return mean((nu + 1) / 2 * log1p(square(z) / nu) + in[2]);
}

// Focal terms of its own temperature for each side: positives fade with (1−p)^1.5, negatives with p^3 and only past 0.1
Tensor asymmetric_focal(const Tensors& in) {
  const Tensor &x = in[0], &y = in[1];
  const Tensor p = sigmoid(x), shifted = clamp(p - 0.1, 0.0, 1.0);
  const Tensor positive = pow(1 - p, 1.5) * softplus(-x);
  const Tensor negative = pow(shifted, 3.0) * -log(1 - shifted + 1e-6);
  return mean(y * positive + (1 - y) * negative);
}

// Huber terms weighted by how hard they are within their row: Σ softmax(|d|/τ)·huber(d)
Tensor hardness_huber(const Tensors& in) {
  const Tensor d = in[0] - in[1], a = abs(d);
  const Tensor huber = where(a <= 1.0, 0.5 * square(d), a - 0.5);
  return mean(sum(softmax(a / 0.5) * huber, -1));
}

// A smooth margin to the best other class, less confident rows pushed less: softplus(1 + lse(x) − 2·x_y) + 0.1·Σ p log
// p
Tensor margin_entropy(const Tensors& in) {
  const Tensor &x = in[0], lse = logsumexp(x, -1, true), logp = x - lse;
  const Tensor own = gather(x, 1, unsqueeze(in[1], 1));
  return mean(softplus(1 + lse - 2 * own) + 0.1 * sum(exp(logp) * logp, -1, true));
}

Case custom(const char* name, std::function<Inputs(Size)> inputs, Tensor (*loss)(const Tensors&)) {
  Case c;
  c.suite = "custom";
  c.name = name;
  c.inputs = std::move(inputs);
  c.loss = loss;
  return c;
}

}  // namespace

std::vector<Case> custom_cases() {
  return {
      custom("barron", regression, barron),
      custom(
          "student_t",
          [](Size s) {
            Inputs inputs = regression(s);
            inputs.push_back({"s", Kind::normal, elements(s), true});
            return inputs;
          },
          student_t),
      custom(
          "asymmetric_focal",
          [](Size s) {
            return Inputs{{"x", Kind::normal, elements(s), true}, {"y", Kind::binary, elements(s)}};
          },
          asymmetric_focal),
      custom(
          "hardness_huber",
          [](Size s) {
            return Inputs{{"x", Kind::normal, rows(s), true}, {"t", Kind::normal, rows(s)}};
          },
          hardness_huber),
      custom(
          "margin_entropy",
          [](Size s) {
            return Inputs{{"x", Kind::normal, rows(s), true}, {"y", Kind::classes, {rows(s)[0]}, false, rows(s)[1]}};
          },
          margin_entropy),
  };
}

}  // namespace bench
