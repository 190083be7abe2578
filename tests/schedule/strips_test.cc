// SPDX-License-Identifier: MIT
#include "schedule/strips.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ebb/memory.h"
#include "schedule/graphs.h"

// Products that are never held: formulas behind them are computed strip by strip, values and gradients in one loop.
namespace ebb {
namespace {

using testing::planned;

// Strips wherever a product has 64 KiB, of 32 rows or more.
constexpr StripModel kSmall{
    .large = 64 << 10, .large_enough_to_repeat = 64 << 10, .strip_bytes = 32 << 10, .least_rows = 32};
// As above, but nothing is made twice.
constexpr StripModel kSmallOnce{
    .large = 64 << 10, .large_enough_to_repeat = std::int64_t{1} << 40, .strip_bytes = 32 << 10, .least_rows = 32};

constexpr std::int64_t kRows = 210, kClasses = 260, kWidth = 17;

// A head of a network: rows, weights, bias; and classes to be found.
struct Head {
  Tensor x = randn({kRows, kWidth}).eval(), w = (randn({kClasses, kWidth}) * 0.3).eval(),
         b = (randn({kClasses}) * 0.1).eval();
  Tensor target = randint(0, kClasses, {kRows}).eval();
  std::vector<Tensor> all() const { return {x, w, b}; }
};
Tensor logits(const std::vector<Tensor>& t, std::size_t first = 0) {
  return matmul(t[first], transpose(t[first + 1], 0, 1)) + t[first + 2];
}

std::vector<Tensor> results(const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
  auto [loss, all] = value_and_grad(f)(inputs);
  all.insert(all.begin(), loss);
  return all;
}

// Loss and gradients.
std::vector<std::vector<double>> numbers(const std::vector<Tensor>& all) {
  eval(all);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : all) out.push_back(cast(t, DType::f64).to_vector<double>());
  return out;
}

int loops(const Plan& plan) {
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.strips != nullptr; }));
}
int products(const Plan& plan) {
  int n = 0;
  for (const PlanStep& s : plan.steps) {
    if (s.strips) n += products(s.strips->bodies[0].plan);
    n += !s.sweep && !s.strips && s.op == Op::matmul;
  }
  return n;
}

// The same numbers with and without strips, to the rounding of their sums; `most` is their relative difference.
void expect_same(const char* name, const FunctionOfMany& f, const std::vector<Tensor>& inputs, int loops_expected,
                 int products_expected, const StripModel& model = kSmall, double most = 2e-5) {
  SCOPED_TRACE(name);
  const auto plain = numbers(results(f, inputs));
  const UseStripModel strips(model);
  const Plan plan = planned(results(f, inputs));
  EXPECT_EQ(loops(plan), loops_expected) << print(plan);
  EXPECT_EQ(products(plan), products_expected) << print(plan);
  const auto in_strips = numbers(results(f, inputs));
  ASSERT_EQ(plain.size(), in_strips.size());
  for (std::size_t k = 0; k < plain.size(); ++k) {
    double scale = 0;
    for (double y : plain[k]) scale = std::max(scale, std::abs(y));
    for (std::size_t i = 0; i < plain[k].size(); ++i)
      ASSERT_NEAR(plain[k][i], in_strips[k][i], most * scale + 1e-30) << "result " << k << ", element " << i;
  }
}

TEST(Strips, SmallProductsAreHeld) {
  const Head h;
  const auto f = [&](const std::vector<Tensor>& t) { return cross_entropy(logits(t), h.target); };
  EXPECT_EQ(loops(planned(results(f, h.all()))), 0);
}

TEST(Strips, CrossEntropyTakesThreeProducts) {
  const Head h;
  using Inputs = const std::vector<Tensor>&;
  expect_same(
      "cross_entropy", [&](Inputs t) { return cross_entropy(logits(t), h.target); }, h.all(), 1, 3);
  expect_same(
      "smoothed", [&](Inputs t) { return cross_entropy(logits(t), h.target, {.label_smoothing = 0.1}); }, h.all(), 1,
      3);
}

TEST(Strips, RowsHaveTheBitsTheyHaveWithoutStrips) {
  const Head h;
  const auto per_row = [&] { return cross_entropy(logits(h.all()), h.target, {.reduction = Reduction::none}); };
  const auto dx = grad(Function([&](const Tensor& x) { return cross_entropy(logits({x, h.w, h.b}), h.target); }));
  const std::vector<float> losses = per_row().to_vector<float>(), gradient = dx(h.x).to_vector<float>();
  const UseStripModel strips(kSmall);
  ASSERT_EQ(loops(planned({per_row()})), 1);
  ASSERT_EQ(loops(planned({dx(h.x)})), 1);
  EXPECT_EQ(per_row().to_vector<float>(), losses);
  EXPECT_EQ(dx(h.x).to_vector<float>(), gradient);
}

TEST(Strips, FormulasThatNobodyWroteAKernelFor) {
  const Head h;
  using Inputs = const std::vector<Tensor>&;
  expect_same(
      "z-loss", [&](Inputs t) { return mean(square(logsumexp(logits(t), -1))); }, h.all(), 1, 3);
  expect_same(
      "entropy",
      [&](Inputs t) {
        const Tensor logp = log_softmax(logits(t), -1);
        return mean(sum(exp(logp) * logp, -1));
      },
      h.all(), 1, 3);
  expect_same(
      "softcap", [&](Inputs t) { return cross_entropy(30.0 * tanh(logits(t) / 30.0), h.target); }, h.all(), 1, 3);
  expect_same(
      "focal", [&](Inputs t) { return softmax_focal_loss(logits(t), h.target); }, h.all(), 1, 3);
}

TEST(Strips, TwoHeads) {
  const Head student, teacher;
  using Inputs = const std::vector<Tensor>&;
  const auto jsd = [&](Inputs t) {
    const Tensor p = log_softmax(logits(t), -1), q = log_softmax(logits(t, 3), -1);
    const Tensor m = log(0.5 * (exp(p) + exp(q)));
    return mean(0.5 * (sum(exp(p) * (p - m), -1) + sum(exp(q) * (q - m), -1)));
  };
  expect_same("jsd", jsd, {student.x, student.w, student.b, teacher.x, teacher.w, teacher.b}, 1, 6);
  const auto distilled = [&](Inputs t) {
    const Tensor p = log_softmax(logits(t) / 2.0, -1), q = log_softmax(logits(teacher.all()) / 2.0, -1);
    return mean(sum(exp(q) * (q - p), -1));
  };
  expect_same("distillation", distilled, student.all(), 1, 4);
}

// Labels 1 on the diagonal, -1 elsewhere, made of ramps that each strip begins where it begins.
TEST(Strips, PairsOfABatchAreNeverHeld) {
  const Tensor x = randn({kRows, kWidth}).eval(), y = randn({kRows, kWidth}).eval();
  using Inputs = const std::vector<Tensor>&;
  const auto siglip = [&](Inputs t) {
    const Tensor z = matmul(t[0], transpose(t[1], 0, 1)) * exp(t[2]) + t[3];
    const Tensor same = unsqueeze(arange(kRows), 1) == unsqueeze(arange(kRows), 0);
    return -sum(log_sigmoid(where(same, z, -z))) / static_cast<double>(kRows);
  };
  expect_same("siglip", siglip, {x, y, full({}, 0.3).eval(), full({}, -1.0).eval()}, 1, 3);
  const Tensor diagonal = arange(kRows).eval();
  const auto one_way = [&](Inputs t) { return cross_entropy(matmul(t[0], transpose(t[1], 0, 1)), diagonal); };
  expect_same("one way", one_way, {x, y}, 1, 3);
  // Sums over the other side first, in strips of columns; then everything else.
  const auto both_ways = [&](Inputs t) {
    const Tensor z = matmul(t[0], transpose(t[1], 0, 1));
    return cross_entropy(z, diagonal) + cross_entropy(transpose(z, 0, 1), diagonal);
  };
  expect_same("both ways", both_ways, {x, y}, 2, 4);
}

// A number of the whole batch in the middle: two rounds, and the product is made again; or no strips.
TEST(Strips, AMeanThatIsThenSquaredTakesTwoRounds) {
  const Head h;
  const auto f = [&](const std::vector<Tensor>& t) { return square(cross_entropy(logits(t), h.target)); };
  expect_same("again", f, h.all(), 2, 4);
  expect_same("held", f, h.all(), 0, 3, kSmallOnce);
}

}  // namespace
}  // namespace ebb
