// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <random>

#include "ebb/losses/contrastive.h"
#include "losses_kernels/numbers.h"

// Losses that multiply matrices, in bf16: by the processor's instructions, which take factors rounded to bf16, and
// without them.
namespace ebb {
namespace {

using testing::classes;
using testing::values;

constexpr std::int64_t kRows = 81, kWidth = 69, kClasses = 50;  // large enough for it to be worth it

struct LossOfPairs {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> of;
};
std::vector<LossOfPairs> losses_of_pairs() {
  const Tensor labels = classes(kRows, 5), target = classes(kRows, kClasses);
  const Tensor weight = cast(values({kClasses, kWidth}, 9), DType::bf16);  // the same numbers in every dtype
  return {
      {"info_nce", [](const Tensor& a, const Tensor& b) { return info_nce(a, b); }},
      {"info_nce with negatives",
       [](const Tensor& a, const Tensor& b) { return info_nce(a, a, {.negatives = b, .temperature = 0.3}); }},
      {"nt_xent", [](const Tensor& a, const Tensor& b) { return nt_xent(a, b); }},
      {"supcon_loss", [=](const Tensor& a, const Tensor&) { return supcon_loss(a, labels); }},
      {"barlow_twins_loss", [](const Tensor& a, const Tensor& b) { return barlow_twins_loss(a, b); }},
      {"vicreg_loss", [](const Tensor& a, const Tensor& b) { return vicreg_loss(a, b); }},
      {"arcface_loss",
       [=](const Tensor& a, const Tensor&) { return arcface_loss(a, cast(weight, a.dtype()), target); }},
      {"cosface_loss",
       [=](const Tensor& a, const Tensor&) { return cosface_loss(a, cast(weight, a.dtype()), target); }},
  };
}

std::vector<Tensor> with_gradients(const LossOfPairs& loss, const Tensor& a, const Tensor& b) {
  const Tensor va = variable(a), vb = variable(b), value = loss.of(va, vb);
  const Gradients g = backward(value);
  return {value, g[va], g.contains(vb) ? g[vb] : zeros_like(vb)};
}

// The error of each element is at most `share` of itself plus `of_largest` of the largest number.
void expect_close(const Tensor& got, const Tensor& exact, double share, double of_largest) {
  const std::vector<double> a = got.to_vector(), e = exact.to_vector();
  double largest = 0;
  for (double x : e) largest = std::max(largest, std::fabs(x));
  for (std::size_t k = 0; k < a.size(); ++k)
    ASSERT_NEAR(a[k], e[k], share * std::fabs(e[k]) + of_largest * largest + 1e-9) << "at " << k;
}

// Without instructions everything is computed in f32, and each element is rounded once; the error of f32 is relative to
// the largest. With them factors are rounded before they are multiplied, and sums of such products err by a few
// roundings of their terms, bounded by the largest number.
TEST(Bf16Products, LossesAndGradientsAreThoseOfF64) {
  const Tensor a = cast(values({kRows, kWidth}, 1), DType::bf16), b = cast(values({kRows, kWidth}, 2), DType::bf16);
  for (const bool instructions : {false, true}) {
    const testing::Bf16Instructions scope(instructions);
    for (const LossOfPairs& loss : losses_of_pairs()) {
      SCOPED_TRACE(std::string(loss.name) + (instructions ? " by instructions" : ""));
      const auto got = with_gradients(loss, a, b);
      const auto exact = with_gradients(loss, cast(a, DType::f64), cast(b, DType::f64));
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].dtype(), DType::bf16);
        expect_close(got[i], exact[i], 0x1p-8, !scope.round() ? 2e-5 : i == 0 ? 0 : 0x1p-6);
      }
    }
  }
}

// Views that agree: every row is recognised almost with certainty, and the gradient is the small difference of a
// probability and one. Rounding the probability first would leave nothing of it.
TEST(Bf16Products, SmallLossesKeepTheirGradients) {
  std::mt19937 rng(1);
  std::normal_distribution<double> normal;
  std::vector<double> numbers(static_cast<std::size_t>(kRows * kWidth));
  for (double& x : numbers) x = normal(rng);
  const Tensor a = cast(from_data(numbers, Shape{kRows, kWidth}), DType::bf16);
  const Tensor b = cast(cast(a, DType::f64) + values({kRows, kWidth}, 4, 0.1), DType::bf16);
  const LossOfPairs sharp[] = {
      {"info_nce", [](const Tensor& x, const Tensor& y) { return info_nce(x, y); }},
      {"nt_xent", [](const Tensor& x, const Tensor& y) { return nt_xent(x, y, {.temperature = 0.07}); }}};
  for (const bool instructions : {false, true}) {
    const testing::Bf16Instructions scope(instructions);
    for (const LossOfPairs& loss : sharp) {
      SCOPED_TRACE(std::string(loss.name) + (instructions ? " by instructions" : ""));
      const auto got = with_gradients(loss, a, b);
      const auto exact = with_gradients(loss, cast(a, DType::f64), cast(b, DType::f64));
      EXPECT_LT(exact[0].item(), 0.01);
      EXPECT_GE(got[0].item(), 0);
      for (std::size_t i = 0; i < got.size(); ++i)
        expect_close(got[i], exact[i], 0x1p-8, scope.round() ? 0x1p-5 : 2e-4);
    }
  }
}

TEST(Bf16Products, SecondDerivativesAreThere) {
  const Tensor a = cast(values({90, 60}, 1), DType::bf16), b = cast(values({90, 60}, 2), DType::bf16);
  const auto second = [](const Tensor& x, const Tensor& y) {
    const auto gradient = grad([&](const Tensor& at) { return vicreg_loss(at, y); });
    return grad([&](const Tensor& at) { return sum(square(gradient(at))); })(x);
  };
  const Tensor exact = second(cast(a, DType::f64), cast(b, DType::f64));
  for (const bool instructions : {false, true}) {
    const testing::Bf16Instructions scope(instructions);
    expect_close(second(a, b), exact, 0x1p-8, 0x1p-5);
  }
}

TEST(Bf16Products, BitsDoNotDependOnThreads) {
  const Tensor a = cast(values({300, 64}, 1), DType::bf16).eval(), b = cast(values({300, 64}, 2), DType::bf16).eval();
  testing::expect_same_for_all_threads([&]() -> std::vector<Tensor> {
    return with_gradients({"nt_xent", [](const Tensor& x, const Tensor& y) { return nt_xent(x, y); }}, a, b);
  });
}

}  // namespace
}  // namespace ebb
