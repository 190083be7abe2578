// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/autograd.h"
#include "ebb/losses.h"
#include "ebb/losses/registry.h"
#include "ebb/ops.h"
#include "ebb/random.h"

// Inputs at the ends of their range: finite where mathematics is finite, and the exact limit there.
namespace ebb {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct ValueAndGradient {
  std::vector<double> value, gradient;
};
ValueAndGradient differentiate(const Function& loss, const Tensor& x) {
  const Tensor v = variable(x), y = loss(v);
  const Gradients g = backward(y, {.grad = ones_like(y)});
  return {y.to_vector(), g[v].to_vector()};
}

void expect_all_finite(const std::vector<double>& values, const std::string& what) {
  for (double v : values) EXPECT_TRUE(std::isfinite(v)) << what << ": " << v;
}

Tensor labels(std::initializer_list<double> y) { return tensor(y); }

TEST(Extremes, LogitsOfTenThousand) {
  const Tensor x = tensor({1e4, -1e4, 1e4, -1e4}), y = labels({1, 0, 0, 1}), s = labels({1, -1, -1, 1});
  for (const Tensor& in : {x, cast(x, DType::f64), cast(x, DType::bf16), cast(x, DType::f16)}) {
    const auto check = [&](const Function& f, const std::vector<double>& value, const std::vector<double>& gradient) {
      const ValueAndGradient r = differentiate(f, in);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(r.value[i], value[i], 0.01 * std::abs(value[i])) << i;
        EXPECT_NEAR(r.gradient[i], gradient[i], 0.01 * std::abs(gradient[i])) << i;
      }
    };
    check([&](auto& v) { return binary_cross_entropy_with_logits(v, y, {.reduction = Reduction::none}); },
          {0, 0, 1e4, 1e4}, {0, 0, 1, -1});
    check([&](auto& v) { return soft_margin_loss(v, s, {.reduction = Reduction::none}); }, {0, 0, 1e4, 1e4},
          {0, 0, 1, -1});
    check([&](auto& v) { return sigmoid_focal_loss(v, y, {.reduction = Reduction::none}); }, {0, 0, 7500, 2500},
          {0, 0, 0.75, -0.25});
  }
  const Tensor rows = tensor({{1e4, -1e4, 0.0}, {-1e4, 1e4, 0.0}});
  const ValueAndGradient r = differentiate(
      [](auto& v) {
        return cross_entropy(v, tensor({0, 0}), {.reduction = Reduction::none});
      },
      rows);
  EXPECT_EQ(r.value, (std::vector<double>{0, 2e4}));
  EXPECT_EQ(r.gradient, (std::vector<double>{0, 0, 0, -1, 1, 0}));
}

// log p keeps its digits next to a large logit: x_y − max is exact, and log Σ e^(x − max) small.
TEST(Extremes, ASmallLossBesideLargeLogits) {
  const Tensor x = tensor({{20000.0, 19990.0}});
  EXPECT_NEAR(cross_entropy(x, tensor({0})).item(), std::log1p(std::exp(-10.0)), 1e-7);
}

TEST(Extremes, InfiniteLogits) {
  const Tensor x = tensor({kInf, -kInf}), y = labels({1, 0});
  for (const char* name : {"binary_cross_entropy_with_logits", "sigmoid_focal_loss"}) {
    const ValueAndGradient r = differentiate(
        [&](auto& v) {
          return evaluate_loss(name, {v, y}, {{"reduction", "none"}});
        },
        x);
    EXPECT_EQ(r.value, (std::vector<double>{0, 0})) << name;
    EXPECT_EQ(r.gradient, (std::vector<double>{0, 0})) << name;
  }
  // An impossible class: no share of the gradient; a certain one: no loss.
  const ValueAndGradient ce = differentiate(
      [](auto& v) {
        return cross_entropy(v, tensor({1, 1}), {.reduction = Reduction::none});
      },
      tensor({{-kInf, 2.0, -kInf}, {-kInf, 1.0, 1.0}}));
  EXPECT_EQ(ce.value[0], 0);
  EXPECT_NEAR(ce.value[1], std::log(2.0), 1e-7);
  EXPECT_EQ(ce.gradient, (std::vector<double>{0, 0, 0, 0, -0.5, 0.5}));
  // Probability 0 on it counts 0, whatever its logit.
  const ValueAndGradient soft = differentiate(
      [](auto& v) {
        return cross_entropy(v, tensor({{0.0, 1.0}}));
      },
      tensor({{-kInf, 3.0}}));
  EXPECT_EQ(soft.value[0], 0);
  EXPECT_EQ(soft.gradient, (std::vector<double>{0, 0}));
  // If the impossible happened, the loss is infinite.
  EXPECT_EQ(cross_entropy(tensor({{-kInf, 0.0}}), tensor({0})).item(), kInf);
}

// The wrong side of an infinite logit costs infinitely much, with the slope of its asymptote.
TEST(Extremes, InfiniteLogitsOfTheWrongSide) {
  const ValueAndGradient r = differentiate(
      [](auto& v) {
        return sigmoid_focal_loss(v, labels({0, 1}), {.reduction = Reduction::none});
      },
      tensor({kInf, -kInf}));
  EXPECT_EQ(r.value, (std::vector<double>{kInf, kInf}));
  EXPECT_EQ(r.gradient, (std::vector<double>{0.75, -0.25}));
}

// Answers whose odds differ by more than any number holds: the loss is the difference of the log odds, or zero.
TEST(Extremes, OddsFarApart) {
  const std::vector<double> chosen{-300, -0.001, -1e-6, -200, -5}, rejected{-0.001, -300, -2e-6, -200, -5};
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor r = cast(from_data(rejected, {5}), dtype);
    const ValueAndGradient got = differentiate(
        [&](auto& v) { return orpo_loss(v, r, {.beta = 1, .likelihood = false, .reduction = Reduction::none}); },
        cast(from_data(chosen, {5}), dtype));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const double c = chosen[i], q = rejected[i];
      const double z = (c - std::log(-std::expm1(c))) - (q - std::log(-std::expm1(q)));
      const double loss = z > 0 ? std::log1p(std::exp(-z)) : std::log1p(std::exp(z)) - z;
      EXPECT_NEAR(got.value[i], loss, 2e-6 * loss + 1e-40) << name(dtype) << " " << i;
      const double slope = 1 / (1 + std::exp(z)) / std::expm1(c);
      EXPECT_NEAR(got.gradient[i], slope, 2e-5 * std::abs(slope) + 1e-40) << name(dtype) << " " << i;
    }
  }
  // A positive number is no logarithm of a probability.
  EXPECT_TRUE(std::isnan(orpo_loss(tensor({0.5}), tensor({-1.0})).item()));
  EXPECT_TRUE(std::isnan(orpo_loss(tensor({0.5}), tensor({0.5})).item()));
}

// The steps of the Jaccard loss along 50000 errors are of size 1e-5: f32 must give them to its own digits.
TEST(Extremes, LovaszStepsOfManyElementsKeepTheirDigits) {
  // If such neighbours are among the first few thousand, their steps differ by more than is allowed here.
  manual_seed(5);
  const Tensor x = randn({1, 50000}, DType::f64).eval(), y = bernoulli({1, 50000}, 0.3).eval();
  const auto loss = [&](auto& v) { return lovasz_hinge(v, y); };
  const std::vector<double> wide = differentiate(loss, x).gradient,
                            narrow = differentiate(loss, cast(x, DType::f32)).gradient;
  // Errors that f32 cannot distinguish may be swapped: neighbours' steps differ by one part in the number counted.
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_NEAR(narrow[i], wide[i], 3e-4 * std::abs(wide[i])) << i;
  // Nothing to find: only the largest error counts.
  const ValueAndGradient none = differentiate(
      [&](auto& v) {
        return lovasz_hinge(v, zeros({1, 3}));
      },
      tensor({{-0.5, 2.0, 1.0}}));
  EXPECT_EQ(none.value, (std::vector<double>{3}));
  EXPECT_EQ(none.gradient, (std::vector<double>{0, 1, 0}));
}

TEST(Extremes, ProbabilitiesZeroAndOne) {
  const Tensor p = tensor({0.0, 1.0, 0.0, 1.0}), y = labels({0, 1, 1, 0});
  const ValueAndGradient r =
      differentiate([&](auto& v) { return binary_cross_entropy(v, y, {.reduction = Reduction::none}); }, p);
  EXPECT_EQ(r.value, (std::vector<double>{0, 0, 100, 100}));
  EXPECT_EQ(r.gradient[0], 0);
  EXPECT_EQ(r.gradient[1], 0);
  EXPECT_NEAR(r.gradient[2], -1e12, 1e6);
  EXPECT_NEAR(r.gradient[3], 1e12, 1e6);
  for (double gamma : {0.0, 0.5, 1.0, 2.0, 3.5}) {
    const ValueAndGradient f = differentiate(
        [&](auto& v) {
          return focal_loss_on_probabilities(v, y, {.alpha = -1, .gamma = gamma, .reduction = Reduction::none});
        },
        p);
    EXPECT_EQ(f.value, (std::vector<double>{0, 0, 100, 100})) << gamma;
    expect_all_finite(f.gradient, "focal_loss_on_probabilities");
    if (gamma > 0) {
      EXPECT_EQ(f.gradient[0], 0) << gamma;
      EXPECT_EQ(f.gradient[1], 0) << gamma;
    }
  }
}

TEST(Extremes, DivergenceOfImpossibleEvents) {
  const Tensor x = tensor({-kInf, -1.0, -kInf}), t = tensor({0.0, 0.0, 0.5});
  const ValueAndGradient r = differentiate([&](auto& v) { return kl_div(v, t, {.reduction = Reduction::none}); }, x);
  EXPECT_EQ(r.value, (std::vector<double>{0, 0, kInf}));
  EXPECT_EQ(r.gradient, (std::vector<double>{0, 0, -0.5}));
  const ValueAndGradient logs = differentiate(
      [&](auto& v) {
        return kl_div(v, tensor({-kInf, -kInf, -1.0}), {.log_target = true, .reduction = Reduction::none});
      },
      tensor({-kInf, -1.0, -1.0}));
  EXPECT_EQ(logs.value, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(kl_divergence(tensor({0.0, 1.0}), tensor({0.0, 1.0})).item(), 0);
  EXPECT_EQ(kl_divergence(tensor({0.5, 0.5}), tensor({0.0, 1.0})).item(), kInf);
  // q raised to epsilon has gradient 0 there, −p/q elsewhere.
  const ValueAndGradient q = differentiate(
      [&](auto& v) {
        return kl_divergence(tensor({0.5, 0.5}), v, {.epsilon = 0.125});
      },
      tensor({0.0, 1.0}));
  EXPECT_NEAR(q.value[0], 0.5 * std::log(4.0) + 0.5 * std::log(0.5), 1e-6);
  EXPECT_EQ(q.gradient, (std::vector<double>{0, -0.5}));
  EXPECT_EQ(poisson_nll_loss(tensor({-kInf}), tensor({0.0})).item(), 0);
}

TEST(Extremes, ZeroVectors) {
  const Tensor zero = zeros({2, 3}), a = tensor({{1.0, 2.0, 2.0}, {0.0, 0.0, 0.0}});
  const ValueAndGradient c =
      differentiate([&](auto& v) { return cosine_similarity_loss(v, a, {.reduction = Reduction::none}); }, zero);
  EXPECT_EQ(c.value, (std::vector<double>{1, 1}));
  EXPECT_EQ(c.gradient, (std::vector<double>(6, 0)));
  const ValueAndGradient e = differentiate(
      [&](auto& v) {
        return cosine_embedding_loss(v, a, tensor({1, -1}), {.reduction = Reduction::none});
      },
      zero);
  EXPECT_EQ(e.value, (std::vector<double>{1, 0}));
  expect_all_finite(e.gradient, "cosine_embedding_loss");
  for (double p : {1.0, 2.0, 3.0}) {
    const ValueAndGradient t =
        differentiate([&](auto& v) { return triplet_margin_loss(v, v, v, {.p = p, .eps = 0}); }, a);
    EXPECT_EQ(t.value[0], 1) << p;
    expect_all_finite(t.gradient, "triplet_margin_loss");
  }
}

TEST(Extremes, EveryTargetIgnored) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}), none = tensor({-100, -100});
  for (const char* name : {"cross_entropy", "nll_loss", "softmax_focal_loss", "dft_loss"}) {
    const ValueAndGradient mean = differentiate([&](auto& v) { return evaluate_loss(name, {v, none}); }, x);
    EXPECT_TRUE(std::isnan(mean.value[0])) << name;
    EXPECT_EQ(mean.gradient, (std::vector<double>(4, 0))) << name;
    const ValueAndGradient sum = differentiate(
        [&](auto& v) {
          return evaluate_loss(name, {v, none}, {{"reduction", "sum"}});
        },
        x);
    EXPECT_EQ(sum.value[0], 0) << name;
    EXPECT_EQ(sum.gradient, (std::vector<double>(4, 0))) << name;
  }
}

// Inputs of every loss for n samples, in the registry's order.
std::vector<Tensor> some_inputs(std::string_view loss, std::int64_t n, std::int64_t c) {
  const Tensor x = full({n, c}, 0.25), y = full({n, c}, 1.0), index = zeros({n}, DType::i64);
  if (loss == "nll_loss" || loss == "cross_entropy" || loss == "softmax_focal_loss" || loss == "dft_loss" ||
      loss == "multi_margin_loss") {
    return {x, index};
  }
  if (loss == "multilabel_margin_loss") return {x, zeros({n, c}, DType::i64)};
  if (loss == "cosine_embedding_loss") return {x, y, ones({n})};
  if (loss == "margin_ranking_loss" || loss == "gaussian_nll_loss" || loss.substr(0, 7) == "triplet") return {x, y, y};
  return {x, y};
}
bool is_formula(const LossInfo& loss) {
  for (std::string_view family : {"regression", "classification", "binary", "margin", "distance", "probabilistic"}) {
    if (loss.family == family) return true;
  }
  return false;
}

TEST(Extremes, NothingAtAll) {
  for (const LossInfo& loss : loss_registry()) {
    if (!is_formula(loss)) continue;
    const std::vector<Tensor> inputs = some_inputs(loss.name, 0, 3);
    EXPECT_TRUE(std::isnan(evaluate_loss(loss.name, inputs).item())) << loss.name;
    EXPECT_EQ(evaluate_loss(loss.name, inputs, {{"reduction", "sum"}}).item(), 0) << loss.name;
    EXPECT_EQ(evaluate_loss(loss.name, inputs, {{"reduction", "none"}}).numel(), 0) << loss.name;
    const Tensor v = variable(inputs[0]);
    std::vector<Tensor> with = inputs;
    with[0] = v;
    const Tensor value = evaluate_loss(loss.name, with);
    EXPECT_EQ(backward(value)[v].shape(), v.shape()) << loss.name;
  }
}

TEST(Extremes, OneClassAndOneElement) {
  for (const LossInfo& loss : loss_registry()) {
    if (!is_formula(loss)) continue;
    const std::vector<Tensor> inputs = some_inputs(loss.name, 1, 1);
    const ValueAndGradient r = differentiate(
        [&](const Tensor& v) {
          std::vector<Tensor> with = inputs;
          with[0] = v;
          return evaluate_loss(loss.name, with);
        },
        inputs[0]);
    expect_all_finite(r.value, std::string(loss.name));
    expect_all_finite(r.gradient, std::string(loss.name));
  }
}

TEST(Extremes, KinksHaveTheNamedGradient) {
  const Tensor zero = tensor({0.0});
  auto at = [](const Function& f, double x) { return differentiate(f, tensor({x})).gradient[0]; };
  EXPECT_EQ(at([&](auto& v) { return l1_loss(v, zero); }, 0), 0);
  EXPECT_EQ(at([&](auto& v) { return smooth_l1_loss(v, zero, {.beta = 0}); }, 0), 0);
  EXPECT_EQ(at([&](auto& v) { return huber_loss(v, zero); }, 1), 1);
  EXPECT_EQ(at([&](auto& v) { return hinge_loss(v, tensor({1.0})); }, 1), 0);
  EXPECT_EQ(at([&](auto& v) { return hinge_loss(v, tensor({1.0})); }, 0.5), -1);
  EXPECT_EQ(at([&](auto& v) { return margin_ranking_loss(v, zero, tensor({1.0})); }, 0), 0);
}

// 1/sqrt of a sum of 2^20 squares of bf16 numbers must be what f64 gives, rounded once.
TEST(HalfPrecision, MeanOfAMillionSquares) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = cast(randn({1 << 20}), dtype).eval(), t = cast(randn({1 << 20}), dtype).eval();
    const double exact = mse_loss(cast(x, DType::f64), cast(t, DType::f64)).item();
    const double once = cast(tensor(exact, DType::f64), dtype).item();
    const double half_step = std::ldexp(1.0, dtype == DType::bf16 ? -8 : -11) * exact;
    EXPECT_NEAR(mse_loss(x, t).item(), once, half_step);
    EXPECT_NEAR(mse_loss(x, t).item(), exact, half_step * 1.001);
  }
}

TEST(HalfPrecision, ASumMayBeLargerThanAnyHalf) {
  const Tensor x = full({1 << 12}, 100.0, DType::f16), t = zeros({1 << 12}, DType::f16);
  EXPECT_EQ(mse_loss(x, t).item(), 10000);  // the sum of squares is 4e7, beyond the largest f16
  EXPECT_EQ(mse_loss(x, t, {.reduction = Reduction::sum}).item(), kInf);
}

TEST(Extremes, CosineOfVectorsWhoseSquaresAreNoNumbers) {
  const Tensor a = tensor({{3.0, 4.0}, {1.0, 0.0}}), b = tensor({{4.0, 3.0}, {1.0, 1.0}});
  const std::vector<double> plain = cosine_similarity_loss(a, b, {.reduction = Reduction::none}).to_vector();
  for (const double size : {1e30, 1e-30, 3e37}) {
    const ValueAndGradient r = differentiate(
        [&](const Tensor& x) { return cosine_similarity_loss(x, b * size, {.reduction = Reduction::none}); },
        (a * size).eval());
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(r.value[i], plain[i], 2e-5) << size;
    expect_all_finite(r.gradient, "cosine_similarity_loss");
  }
}

TEST(Extremes, GeneralizedKlWhereTheRatioOverflows) {
  // 1e30·log(1e30/1e-30) − 1e30 + 1e-30
  const Tensor x = tensor({1e-30, 1e-45, 2.0}), t = tensor({1e30, 3e38, 1.0});
  const std::vector<double> got = generalized_kl(x, t, {.reduction = Reduction::none}).to_vector();
  EXPECT_NEAR(got[0] / (1e30 * (std::log(1e60) - 1)), 1, 1e-5);
  EXPECT_EQ(got[1], kInf);  // 3e38·191 is larger than f32 holds
  EXPECT_NEAR(got[2], std::log(0.5) + 1, 1e-6);
  const double wide =
      generalized_kl(cast(tensor({1e-300}, DType::f64), DType::f64), tensor({1e300}, DType::f64)).item<double>();
  EXPECT_NEAR(wide / (1e300 * (600 * std::log(10.0) - 1)), 1, 1e-12);
}

}  // namespace
}  // namespace ebb
