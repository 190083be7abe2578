// SPDX-License-Identifier: MIT
#include "ebb/losses/alignment.h"

#include <gtest/gtest.h>

#include <limits>

#include "ebb/losses/alignment.h"
#include "expect_error.h"
#include "losses_kernels/golden.h"
#include "losses_kernels/numbers.h"

namespace ebb {
namespace {

using testing::expect_near;
using testing::values;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- references -----------------------------------------------------------------------------------------------------

// Every path of T symbols, collapsed: repeats merge, blanks are removed.
double ctc_by_enumeration(const std::vector<double>& x, int steps, int classes, const std::vector<int>& labels) {
  double total = 0;
  std::vector<int> path(static_cast<std::size_t>(steps), 0);
  for (;;) {
    std::vector<int> collapsed;
    double log_p = 0;
    for (int t = 0; t < steps; ++t) {
      const int c = path[static_cast<std::size_t>(t)];
      log_p += x[static_cast<std::size_t>(t * classes + c)];
      if (c != 0 && (t == 0 || path[static_cast<std::size_t>(t - 1)] != c)) collapsed.push_back(c);
    }
    if (collapsed == labels) total += std::exp(log_p);
    int t = 0;
    while (t < steps && ++path[static_cast<std::size_t>(t)] == classes) path[static_cast<std::size_t>(t++)] = 0;
    if (t == steps) break;
  }
  return -std::log(total);
}

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == -kInfinity ? -kInfinity : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// The recursion in logarithms over the extended labels.
double ctc_in_logarithms(const std::vector<double>& x, int steps, int classes, const std::vector<int>& labels) {
  std::vector<int> extended{0};
  for (int c : labels) {
    extended.push_back(c);
    extended.push_back(0);
  }
  const std::size_t n = extended.size();
  std::vector<double> a(n, -kInfinity);
  for (int t = 0; t < steps; ++t) {
    std::vector<double> next(n, -kInfinity);
    for (std::size_t s = 0; s < n; ++s) {
      double from = t == 0 ? (s < 2 ? 0 : -kInfinity) : a[s];
      if (t > 0 && s >= 1) from = log_add(from, a[s - 1]);
      if (t > 0 && s >= 2 && extended[s] != 0 && extended[s] != extended[s - 2]) from = log_add(from, a[s - 2]);
      next[s] = from + x[static_cast<std::size_t>(t * classes + extended[s])];
    }
    a = next;
  }
  return -(n > 1 ? log_add(a[n - 1], a[n - 2]) : a[0]);
}

// All ways to emit u labels in T steps, by recursion.
double rnnt_by_recursion(const std::vector<double>& x, int steps, int labels, int width, int classes,
                         const std::vector<int>& y, int t, int u) {
  const auto at = [&](int c) { return x[static_cast<std::size_t>((t * width + u) * classes + c)]; };
  double total = 0;
  if (t == steps - 1 && u == labels) return std::exp(at(0));
  if (t < steps - 1) total += std::exp(at(0)) * rnnt_by_recursion(x, steps, labels, width, classes, y, t + 1, u);
  if (u < labels)
    total +=
        std::exp(at(y[static_cast<std::size_t>(u)])) * rnnt_by_recursion(x, steps, labels, width, classes, y, t, u + 1);
  return total;
}

Tensor one(std::int64_t n) { return full({1}, n); }
Tensor row_of(const std::vector<int>& labels) {
  return from_data(std::vector<std::int64_t>(labels.begin(), labels.end()),
                   Shape{1, static_cast<std::int64_t>(labels.size())});
}

// ---- ctc ------------------------------------------------------------------------------------------------------------

TEST(Ctc, IsTheSumOverAllPaths) {
  for (const std::vector<int>& labels :
       {std::vector<int>{}, {1}, {2, 1}, {1, 1}, {1, 2, 1}, {2, 2, 2}, {1, 1, 2}, {1, 2, 2, 1}}) {
    for (int steps : {1, 2, 3, 5, 7}) {
      const Tensor x = values({steps, 1, 3}, steps, 2);  // not normalised
      const double expected = ctc_by_enumeration(x.to_vector(), steps, 3, labels);
      const Tensor loss =
          ctc_loss(x, row_of(labels), one(steps), one(static_cast<int>(labels.size())), {.reduction = Reduction::none});
      expect_near(loss, {expected}, 1e-13);
      if (std::isfinite(expected)) {
        EXPECT_NEAR(ctc_in_logarithms(x.to_vector(), steps, 3, labels), expected, 1e-11);
      }
    }
  }
}

TEST(Ctc, LongAndExtremeSequencesKeepTheirDigits) {
  std::vector<int> labels;
  for (int i = 0; i < 60; ++i) labels.push_back(1 + i * 7 % 11);
  for (double scale : {0.01, 1.0, 30.0, 1000.0}) {
    const Tensor x = values({400, 1, 12}, 3, scale) - scale;
    const double expected = ctc_in_logarithms(x.to_vector(), 400, 12, labels);
    const Tensor v = variable(x);
    const Tensor loss = ctc_loss(v, row_of(labels), one(400), one(60), {.reduction = Reduction::sum});
    EXPECT_NEAR(loss.item(), expected, 1e-10 * std::fabs(expected));
    // Every step passes through exactly one state.
    const Tensor steps = sum(backward(loss)[v], Axes{1, 2});
    expect_near(steps, std::vector<double>(400, -1.0), 1e-9);
  }
}

TEST(Ctc, GradientsAreExactForAnyLogProbabilities) {
  const Tensor x = values({6, 3, 4}, 2, 2), targets = tensor({{1, 2, 2}, {3, 1, 1}, {2, 1, 3}});
  const Tensor lengths = tensor({6, 5, 4}), target_lengths = tensor({3, 2, 0});
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    auto f = [&](const Tensor& v) { return ctc_loss(v, targets, lengths, target_lengths, {.reduction = reduction}); };
    require_gradients(f, x);
    require_second_gradients(f, x);
  }
  const auto third = grad([&](const Tensor& v) {
    return sum(hvp([&](const Tensor& w) { return ctc_loss(w, targets, lengths, target_lengths); }, v, x) * v);
  });
  EXPECT_THROW_MESSAGE(third(x).eval(), "differentiate it at most twice");
}

TEST(Ctc, AgreesWithPyTorchBehindALogSoftmax) {
  const Tensor logits = values({7, 3, 5}, 6, 2), targets = tensor({{1, 2, 2}, {3, 1, 4}, {2, 4, 1}});
  const Tensor lengths = tensor({7, 6, 5}), target_lengths = tensor({3, 2, 1});
  const auto check = [&](Reduction reduction, const std::vector<double>& value, const std::vector<double>& gradient) {
    const Tensor v = variable(logits);
    const Tensor loss = ctc_loss(log_softmax(v, -1), targets, lengths, target_lengths, {.reduction = reduction});
    expect_near(loss, value, 1e-12);
    expect_near(backward(loss, {.grad = values(loss.shape(), 5)})[v], gradient, 1e-12);
  };
  check(Reduction::mean, golden::ctc_mean, golden::ctc_mean_gradient);
  check(Reduction::sum, golden::ctc_sum, golden::ctc_sum_gradient);
  check(Reduction::none, golden::ctc_none, golden::ctc_none_gradient);
}

TEST(Ctc, LabelsInARowOneSampleAndViewsAreTheSame) {
  const Tensor x = values({6, 2, 4}, 2), lengths = tensor({6, 5}), target_lengths = tensor({3, 1});
  const CtcOptions none{.reduction = Reduction::none};
  const Tensor padded = ctc_loss(x, tensor({{1, 2, 3}, {2, 0, 0}}), lengths, target_lengths, none);
  const Tensor joined = ctc_loss(x, tensor({1, 2, 3, 2}, DType::i32), lengths, target_lengths, none);
  EXPECT_TRUE(testing::same_bits(padded, joined));
  const Tensor turned = transpose(contiguous(transpose(x, 0, 1)), 0, 1);
  EXPECT_TRUE(testing::same_bits(padded, ctc_loss(turned, tensor({1, 2, 3, 2}), lengths, target_lengths, none)));
  const Tensor single = ctc_loss(select(x, 1, 0), tensor({1, 2, 3}), one(6), one(3), none);
  EXPECT_EQ(single.item(), padded.to_vector()[0]);
  const Tensor grad = ctc_loss_backward(ones({2}, DType::f64), x, tensor({1, 2, 3, 2}), lengths, target_lengths, none);
  const Tensor v = variable(x);
  EXPECT_TRUE(testing::same_bits(
      grad, backward(ctc_loss(v, tensor({1, 2, 3, 2}), lengths, target_lengths, {.reduction = Reduction::sum}))[v]));
}

TEST(Ctc, ImpossibleAlignmentsAreInfiniteOrZero) {
  const Tensor x = variable(values({2, 2, 3}, 1));
  const Tensor targets = tensor({{1, 1}, {1, 2}}), lengths = tensor({2, 2}), two = tensor({2, 2});
  const Tensor loss = ctc_loss(x, targets, lengths, two, {.reduction = Reduction::none});
  EXPECT_EQ(loss.to_vector()[0], kInfinity);  // two equal labels need a blank between them
  EXPECT_TRUE(std::isfinite(loss.to_vector()[1]));
  const Tensor zeroed = ctc_loss(x, targets, lengths, two, {.reduction = Reduction::sum, .zero_infinity = true});
  EXPECT_TRUE(std::isfinite(zeroed.item()));
  const std::vector<double> g = backward(zeroed)[x].to_vector();
  EXPECT_EQ(g[0], 0);
  EXPECT_EQ(g[4], -1);  // two steps for two labels: the path is certain
  // Probabilities of 0 are no obstacle: the remaining paths count.
  const Tensor y = variable(full({3, 1, 2}, -kInfinity, DType::f64) +
                            cast(reshape(tensor({0, 1, 1, 0, 0, 1}), {3, 1, 2}), DType::f64));
  EXPECT_EQ(ctc_loss(y, row_of({1}), one(3), one(1), {.reduction = Reduction::sum}).item(), kInfinity);
  const double inf = kInfinity;
  const Tensor z = variable(from_data({-inf, 0.0, 0.0, -inf, -inf, -inf}, {3, 1, 2}));
  EXPECT_EQ(ctc_loss(z, row_of({1}), one(2), one(1), {.reduction = Reduction::sum}).item(), 0);
  // Nor are numbers that represent it, once they are small enough.
  for (const double mask : {-1e4, -1e9, -1e11, -1e15, -1e30, -1e300}) {
    const Tensor masked = variable(from_data({-1.0, mask, mask, mask, -2.0, -3.0}, {3, 1, 2}));
    const Tensor through = ctc_loss(masked, row_of({1}), one(3), one(1), {.reduction = Reduction::sum});
    const bool possible = mask > -3e11;
    EXPECT_NEAR(std::min(through.item(), 1e300), possible ? 1 - mask : 1e300, 3);
    expect_near(sum(backward(through)[masked], Axes{1, 2}), std::vector<double>(3, possible ? -1 : 0), 1e-9);
    const Tensor around = ctc_loss(masked, row_of({1}), one(1), one(0), {.reduction = Reduction::sum});
    EXPECT_EQ(around.item(), 1);
  }
  EXPECT_TRUE(
      std::isnan(ctc_loss(from_data({0.0, std::nan(""), 0.0, 0.0}, {2, 1, 2}), row_of({1}), one(2), one(1)).item()));
  // No steps and no labels: certain. No samples: NaN or 0.
  EXPECT_EQ(ctc_loss(values({2, 1, 3}), row_of({}), one(0), one(0), {.reduction = Reduction::sum}).item(), 0);
  const Tensor none = zeros({2, 0, 3}, DType::f64), empty = zeros({0}, DType::i64);
  EXPECT_TRUE(std::isnan(ctc_loss(none, zeros({0, 2}, DType::i64), empty, empty).item()));
  EXPECT_EQ(ctc_loss(none, zeros({0, 2}, DType::i64), empty, empty, {.reduction = Reduction::sum}).item(), 0);
}

TEST(Ctc, DtypesAndThreads) {
  const Tensor targets = testing::classes(5 * 8, 9, 1) + 1, lengths = tensor({30, 29, 28, 30, 17});
  const Tensor rows = reshape(targets, {5, 8}), counts = tensor({8, 7, 3, 0, 8});
  const Tensor exact = log_softmax(values({30, 5, 10}, 3, 3), -1).eval();
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = cast(exact, dtype).eval();
    const auto run = [&](const Tensor& at) -> std::vector<Tensor> {
      const Tensor v = variable(at);
      const Tensor loss = ctc_loss(v, rows, lengths, counts);
      return {loss, backward(loss)[v]};
    };
    testing::expect_same_for_all_threads([&] { return run(x); });
    const std::vector<Tensor> got = run(x), wide = run(cast(x, DType::f64));
    const double ulp = dtype == DType::f64   ? 1e-14
                       : dtype == DType::f32 ? 1e-6
                       : dtype == DType::f16 ? 0x1p-10
                                             : 0x1p-8;
    for (int i : {0, 1}) {
      EXPECT_EQ(got[static_cast<std::size_t>(i)].dtype(), dtype);
      expect_near(got[static_cast<std::size_t>(i)], wide[static_cast<std::size_t>(i)].to_vector(), ulp);
    }
  }
}

TEST(Ctc, ChecksLengthsAndLabelsBeforeAnything) {
  const Tensor x = values({4, 2, 3}), t = tensor({{1, 2}, {1, 2}});
  const auto run = [&](const Tensor& targets, const Tensor& in, const Tensor& out) {
    ctc_loss(x, targets, in, out).eval();
  };
  EXPECT_THROW_MESSAGE(run(t, tensor({4, 5}), tensor({2, 2})), "ctc_loss: input_lengths[1] = 5 is outside [0, 4]");
  EXPECT_THROW_MESSAGE(run(t, tensor({4, -1}), tensor({2, 2})), "input_lengths[1] = -1");
  EXPECT_THROW_MESSAGE(run(t, tensor({4, 4}), tensor({3, 2})), "target_lengths[0] = 3 is outside [0, 2]");
  EXPECT_THROW_MESSAGE(run(tensor({{1, 0}, {1, 2}}), tensor({4, 4}), tensor({2, 2})),
                       "label 1 of sample 0 is 0, the blank");
  EXPECT_THROW_KIND(run(tensor({{1, 2}, {3, 2}}), tensor({4, 4}), tensor({2, 2})), index,
                    "label 0 of sample 1 is 3, outside [0, 3)");
  EXPECT_THROW_MESSAGE(run(tensor({1, 2, 1}), tensor({4, 4}), tensor({2, 2})), "add up to 4, but there are 3");
  EXPECT_THROW_MESSAGE(run(tensor({1, 2, 1}), tensor({4, 4}), tensor({1, 1})), "add up to 2, but there are 3");
  EXPECT_THROW_MESSAGE(run(t, tensor({4}), tensor({2, 2})), "input_lengths has shape [1]");
  EXPECT_THROW_KIND(run(values({2, 2}), tensor({4, 4}), tensor({2, 2})), type, "targets must be labels");
  EXPECT_THROW_MESSAGE(ctc_loss(x, t, tensor({4, 4}), tensor({2, 2}), {.blank = 3}), "blank 3 is outside [0, 3)");
}

// ---- transducer -----------------------------------------------------------------------------------------------------

TEST(Rnnt, IsTheSumOverAllPaths) {
  const std::vector<int> y{1, 2, 2};
  for (int steps : {1, 2, 4}) {
    for (int labels : {0, 1, 3}) {
      const Tensor x = values({1, 4, 4, 3}, steps + labels, 2);
      const double expected = -std::log(rnnt_by_recursion(x.to_vector(), steps, labels, 4, 3, y, 0, 0));
      EXPECT_NEAR(rnnt_loss(x, row_of(y), one(steps), one(labels)).item(), expected, 1e-12);
    }
  }
}

TEST(Rnnt, GradientsTwice) {
  const Tensor x = values({2, 4, 3, 4}, 2, 2), targets = tensor({{1, 3}, {2, 2}});
  const Tensor lengths = tensor({4, 3}), counts = tensor({2, 1});
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    auto f = [&](const Tensor& v) { return rnnt_loss(v, targets, lengths, counts, {.reduction = reduction}); };
    require_gradients(f, x);
    require_second_gradients(f, x);
  }
  const Tensor v = variable(x);
  const Tensor loss = rnnt_loss(v, targets, lengths, counts);
  expect_near(rnnt_loss_backward(ones({}, DType::f64), x, targets, lengths, counts), backward(loss)[v].to_vector(), 0);
}

TEST(Rnnt, DtypesThreadsAndErrors) {
  const Tensor exact = log_softmax(values({3, 6, 5, 7}, 3, 3), -1).eval();
  const Tensor targets = reshape(testing::classes(12, 6) + 1, {3, 4}), lengths = tensor({6, 5, 6}),
               counts = tensor({4, 2, 0});
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = cast(exact, dtype).eval();
    const auto run = [&](const Tensor& at) -> std::vector<Tensor> {
      const Tensor v = variable(at);
      const Tensor loss = rnnt_loss(v, targets, lengths, counts);
      return {loss, backward(loss)[v]};
    };
    testing::expect_same_for_all_threads([&] { return run(x); });
    const double ulp = dtype == DType::f64   ? 1e-14
                       : dtype == DType::f32 ? 1e-6
                       : dtype == DType::f16 ? 0x1p-10
                                             : 0x1p-8;
    expect_near(run(x)[0], run(cast(x, DType::f64))[0].to_vector(), ulp);
    expect_near(run(x)[1], run(cast(x, DType::f64))[1].to_vector(), ulp);
  }
  EXPECT_THROW_MESSAGE(rnnt_loss(exact, targets, tensor({7, 5, 6}), counts).eval(), "rnnt_loss: input_lengths[0] = 7");
  EXPECT_THROW_MESSAGE(rnnt_loss(exact, targets, lengths, tensor({5, 2, 0})).eval(), "target_lengths[0] = 5");
  EXPECT_THROW_MESSAGE(rnnt_loss(exact, targets - 1, lengths, counts).eval(), "the blank");
  EXPECT_THROW_MESSAGE(rnnt_loss(exact, narrow(targets, 1, 0, 3), lengths, counts), "do not fit log_probs");
}

}  // namespace
}  // namespace ebb
