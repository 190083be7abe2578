// SPDX-License-Identifier: MIT
#include "worker/by_hand.h"
#include "worker/cases.h"

// Promises of the engine, and the linear head at several shapes.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;

Tensor focal(const Tensors& in) {  // a user's own loss, as in the tutorial
  const Tensor p = sigmoid(in[0]), pt = where(in[1] > 0.5, p, 1 - p);
  return mean(-0.25 * pow(1 - pt, 2.0) * log(pt));
}

Tensors hand_written_focal(const Tensors& in, bool with_gradient) {
  const std::int64_t n = in[0].numel();
  static std::vector<float> kept;  // as a pool would: fresh pages would be measured otherwise
  if (with_gradient) kept.resize(static_cast<std::size_t>(n));
  const float value =
      focal_by_hand(in[0].data<float>(), in[1].data<float>(), n, 0.25f, with_gradient ? kept.data() : nullptr);
  if (!with_gradient) return {tensor(value)};
  return {tensor(value), from_foreign(kept.data(), DType::f32, {n})};
}

Tensors blas_product(const Tensors& in, bool) {
  const std::int64_t n = in[0].size(0);
  static std::vector<float> kept;
  kept.resize(static_cast<std::size_t>(n * n));
  gemm_by_blas(in[0].data<float>(), in[1].data<float>(), kept.data(), n, num_threads());
  return {from_foreign(kept.data(), DType::f32, {n, n})};
}

Case engine(const char* name, std::function<Inputs(Size)> inputs, std::function<Tensor(const Tensors&)> loss) {
  Case c;
  c.suite = "engine";
  c.name = name;
  c.inputs = std::move(inputs);
  c.loss = std::move(loss);
  c.gradients_only = c.f32_only = true;
  c.sizes = {Size::large};
  return c;
}

struct Head {
  std::int64_t tokens, hidden, vocabulary;
};

}  // namespace

std::vector<Case> engine_cases() {
  Case mse = engine(
      "mse",
      [=](Size s) {
        return Inputs{{"x", Kind::normal, elements(s), true}, {"t", Kind::normal, elements(s)}};
      },
      [](const Tensors& in) { return mse_loss(in[0], in[1]); });
  mse.memory_bound = true;

  Case focal_case = engine(
      "user_focal",
      [=](Size s) {
        return Inputs{{"x", Kind::normal, elements(s), true}, {"y", Kind::binary, elements(s)}};
      },
      focal);
  focal_case.by_hand = hand_written_focal;
  focal_case.by_hand_name = "C++ by hand";

  Case cross = engine(
      "softmax_cross_entropy",
      [](Size s) {
        const Shape shape = s == Size::tiny ? Shape{5, 11} : Shape{2048, 32000};
        return Inputs{{"x", Kind::normal, shape, true}, {"y", Kind::classes, {shape[0]}, false, shape[1]}};
      },
      [](const Tensors& in) { return cross_entropy(in[0], in[1]); });

  Case small = engine(
      "add_mul_sum",
      [](Size s) {
        const Shape n{s == Size::tiny ? 10 : 1000};
        return Inputs{{"a", Kind::normal, n, true}, {"b", Kind::normal, n, true}, {"c", Kind::normal, n, true}};
      },
      [](const Tensors& in) { return sum((in[0] + in[1]) * in[2]); });

  Case product = engine("matmul",
                        [](Size s) {
                          const std::int64_t n = s == Size::tiny ? 9 : 1024;
                          return Inputs{{"a", Kind::normal, {n, n}}, {"b", Kind::normal, {n, n}}};
                        },
                        {});
  product.compute = [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; };
  product.by_hand = blas_product;
  product.by_hand_name = "OpenBLAS";
  return {mse, focal_case, cross, small, product};
}

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  for (const Head h :
       {Head{2048, 512, 32000}, {1024, 1024, 50257}, {512, 2048, 32000}, {4096, 256, 8192}, {512, 512, 128256}}) {
    Case c;
    c.suite = "linear_ce";
    c.name = "BT=" + std::to_string(h.tokens) + " H=" + std::to_string(h.hidden) + " V=" + std::to_string(h.vocabulary);
    c.inputs = [=](Size s) {
      const Head z = s == Size::tiny ? Head{5, 7, 23} : h;
      return Inputs{{"x", Kind::normal, {z.tokens, z.hidden}, true},
                    {"head", Kind::weights, {z.vocabulary, z.hidden}, true},
                    {"target", Kind::classes, {z.tokens}, false, z.vocabulary}};
    };
    c.loss = [](const Tensors& in) { return linear_cross_entropy(in[0], in[1], in[2]); };
    c.gradients_only = true;
    c.sizes = {Size::large};
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace bench
