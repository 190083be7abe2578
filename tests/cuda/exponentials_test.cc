// SPDX-License-Identifier: MIT
// Largest number and sum of exponentials in one pass over a row, on cuda:0: a GPU if there is one, else the emulated
// device. Against plain loops in f64, with segments that differ by more than an exponential holds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cuda/compile_for_gpu.h"
#include "cuda/emulated_device.h"
#include "cuda/plan/kernel_plan.h"
#include "cuda/print/sweep_text.h"
#include "ebb/ebb.h"
#include "emulated_device.h"
#include "emulated_kernels.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

constexpr double kInf = HUGE_VAL;

class Exponentials : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(31);
  }
};

// Rows with every kind of ending; `columns` of each, in segments of 2048.
struct Rows {
  std::vector<std::string> names;
  std::vector<double> numbers;
};
Rows rows_of(std::int64_t columns) {
  Rows all;
  const std::vector<double> normal = randn({columns}).to_vector<double>();
  const auto add = [&](const std::string& name, const std::function<double(std::int64_t, double)>& f) {
    all.names.push_back(name);
    for (std::int64_t i = 0; i < columns; ++i) all.numbers.push_back(f(i, normal[static_cast<std::size_t>(i)]));
  };
  const std::int64_t last = columns - 1;
  const auto segment = [](std::int64_t i) { return std::floor(static_cast<double>(i) / 2048); };
  add("ordinary", [](std::int64_t, double x) { return 3 * x; });
  add("segments far apart, rising", [&](std::int64_t i, double x) { return x + 300 * segment(i); });
  add("segments far apart, falling", [&](std::int64_t i, double x) { return x - 300 * segment(i); });
  add("far below zero", [](std::int64_t, double x) { return x - 30000; });
  add("a first segment of -inf", [](std::int64_t i, double x) { return i < 2048 ? -kInf : x - 1000; });
  add("-inf but for the last", [&](std::int64_t i, double) { return i == last ? -2000.0 : -kInf; });
  add("-inf alone", [](std::int64_t, double) { return -kInf; });
  add("+inf at the end", [&](std::int64_t i, double x) { return i == last ? kInf : x; });
  add("+inf beside -inf", [&](std::int64_t i, double) { return i == 0 ? kInf : -kInf; });
  add("the largest twice", [&](std::int64_t i, double x) { return i == 3000 || i == last ? 100.0 : x; });
  add("NaN at the end", [&](std::int64_t i, double x) { return i == last ? std::nan("") : x; });
  return all;
}

struct Expected {
  std::vector<double> probabilities;
  double log_sum = 0;
};
// Relative to the largest number, or to 0 where that is not finite and `guarded`.
Expected softmax_of(const double* x, std::int64_t columns, bool guarded) {
  double most = -kInf, sum = 0;
  for (std::int64_t i = 0; i < columns; ++i) most = std::isnan(x[i]) || std::isnan(most) ? NAN : std::max(most, x[i]);
  const double shift = guarded && !std::isfinite(most) ? 0 : most;
  Expected e;
  for (std::int64_t i = 0; i < columns; ++i) e.probabilities.push_back(std::exp(x[i] - shift));
  for (const double p : e.probabilities) sum += p;
  for (double& p : e.probabilities) p /= sum;
  e.log_sum = std::log(sum) + shift;
  return e;
}

bool is_near(double got, double want, double relative, double least) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= relative * std::abs(want) + least;
}

TEST_F(Exponentials, OfRowsThatEndInAllWays) {
  // Rows that have a multiprocessor to themselves: entirely on chip; with leaves that stay in registers; with leaves
  // that are read again. For f32 those on chip leave their exponentials there, in two passes.
  const std::vector<std::pair<DType, std::int64_t>> cases = {{DType::bf16, 66'001},  {DType::bf16, 122'883},
                                                             {DType::bf16, 151'936}, {DType::f16, 98'304},
                                                             {DType::f32, 40'003},   {DType::f32, 61'440}};
  for (const auto& [d, columns] : cases) {
    const double unit = d == DType::bf16 ? 1.0 / 128 : d == DType::f16 ? 1.0 / 1024 : 1e-5;
    const Rows rows = rows_of(columns);
    const auto count = static_cast<std::int64_t>(rows.names.size());
    const Tensor x = cast(tensor_from(rows.numbers, {count, columns}, DType::f64), d).eval();
    const std::vector<double> numbers = x.to_vector<double>();  // f16 has no -30000.3
    const std::vector<double> got = softmax(x.to(kGpu), 1).to_vector<double>();
    // Labels at both ends; a loss of -inf or NaN makes the mean one, so rows have losses of their own.
    const Tensor labels =
        tensor_from(std::vector<std::int64_t>(static_cast<std::size_t>(count), columns - 1), {count}, DType::i64);
    const Tensor logits = variable(x.to(kGpu));
    CrossEntropyOptions each;
    each.reduction = Reduction::none;
    const Tensor losses = cross_entropy(logits, labels.to(kGpu), each);
    const Tensor slopes = backward(sum(losses))[logits];
    const std::vector<double> loss = losses.to_vector<double>(), slope = slopes.to_vector<double>();
    for (std::int64_t r = 0; r < count; ++r) {
      const double* const row = numbers.data() + r * columns;
      const Expected want = softmax_of(row, columns, true), plain = softmax_of(row, columns, false);
      const std::string who = fmt::format("{} {} {}", name(d), columns, rows.names[static_cast<std::size_t>(r)]);
      for (std::int64_t i = 0; i < columns; ++i) {
        const auto at = static_cast<std::size_t>(r * columns + i);
        const double p = plain.probabilities[static_cast<std::size_t>(i)];
        const double g = want.probabilities[static_cast<std::size_t>(i)] - (i == columns - 1);
        ASSERT_TRUE(is_near(got[at], p, unit, 1e-7))
            << "softmax of " << who << " at " << i << ": " << got[at] << ", " << p;
        ASSERT_TRUE(is_near(slope[at], g, unit, 1e-7))
            << "gradient of " << who << " at " << i << ": " << slope[at] << ", " << g;
      }
      const double want_loss = want.log_sum - row[columns - 1], l = loss[static_cast<std::size_t>(r)];
      if (std::isfinite(want_loss)) {
        EXPECT_TRUE(is_near(l, want_loss, unit, 1e-4)) << "loss of " << who << ": " << l << ", " << want_loss;
      }
    }
  }
}

bool in_one_pass(const Tensor& result) {
  const auto c = make_case("", {result});
  bool one = false;
  for (const PlanStep& step : c->plan.steps) {
    if (!step.program) continue;
    const std::string plan = describe(cuda::plan_kernel(*step.program));
    one |= plan.find("softmax in one pass") != std::string::npos;
  }
  return one;
}

// −Σ p·log p, as in the columns of linear_token_statistics.
Tensor entropy_of(const Tensor& z) {
  const Tensor most = max(z, 1, true), d = z - where(isfinite(most), most, 0), e = exp(d), s = sum(e, 1, true);
  return squeeze(log(s) - sum(where(isfinite(d), d, e) * e, 1, true) / s, 1);
}

// The first class whose logit is the largest or NaN, as in the columns of linear_token_statistics.
Tensor place_of_largest(const Tensor& z) {
  const Tensor found = logical_or(z == max(z, 1, true), isnan(z));
  return min(where(found, arange(0, z.size(1), 1, DType::i32), z.size(1)), 1);
}
std::int64_t first_largest(const double* x, std::int64_t columns) {
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < columns; ++i) {
    if (std::isnan(x[i])) return i;
    if (x[i] > x[at]) at = i;
  }
  return at;
}

// No further pass: the next row is loaded while one is computed. More rows than blocks of the emulated device.
TEST_F(Exponentials, OfRowsThatAreReadOnce) {
  for (const std::int64_t columns : {40'003, 61'440, 151'936}) {
    const Rows rows = rows_of(columns);
    const auto count = static_cast<std::int64_t>(rows.names.size());
    const Tensor x = cast(tensor_from(rows.numbers, {count, columns}, DType::f64), DType::f32).to(kGpu).eval();
    const std::vector<double> numbers = x.to_vector<double>();
    const Tensor entropies = entropy_of(x), sums = logsumexp(x, 1);
    EXPECT_TRUE(in_one_pass(entropies));
    EXPECT_TRUE(in_one_pass(sums));
    // The position of the largest number is found in the same pass.
    const Tensor together = cat({unsqueeze(entropy_of(x), 1), cast(unsqueeze(place_of_largest(x), 1), DType::f32)}, 1);
    EXPECT_TRUE(in_one_pass(together));
    const std::vector<double> both = together.to_vector<double>();
    const std::vector<double> entropy = entropies.to_vector<double>(), sum = sums.to_vector<double>();
    for (std::int64_t r = 0; r < count; ++r) {
      const double* const row = numbers.data() + r * columns;
      const std::string who = fmt::format("{} {}", columns, rows.names[static_cast<std::size_t>(r)]);
      const Expected want = softmax_of(row, columns, true);
      double h = 0;
      for (const double p : want.probabilities) h -= p == 0 ? 0 : p * std::log(p);
      const auto at = static_cast<std::size_t>(r);
      EXPECT_EQ(both[2 * at + 1], static_cast<double>(first_largest(row, columns))) << who;
      if (std::isfinite(want.log_sum)) {
        EXPECT_EQ(both[2 * at], entropy[at]) << who;
        EXPECT_TRUE(is_near(sum[at], want.log_sum, 1e-6, 1e-5)) << who << ": " << sum[at] << ", " << want.log_sum;
        EXPECT_TRUE(is_near(entropy[at], h, 1e-5, 1e-5)) << who << ": " << entropy[at] << ", " << h;
      } else {
        EXPECT_FALSE(std::isfinite(sum[at])) << who;
        EXPECT_FALSE(std::isfinite(entropy[at])) << who;
      }
    }
  }
}

TEST_F(Exponentials, WithThePlaceOfTheLargestCompileForGpus) {
  EBB_SKIP_WITHOUT_NVRTC();
  const Tensor x = randn({3, 151'936}).eval();
  const auto c = make_case("", {entropy_of(x), place_of_largest(x)});
  EmulatedKernels kernels;
  for (const PlanStep& step : c->plan.steps) {
    if (step.program) kernels.add(cuda::print_sweep(*step.program));
  }
  for (const char* gpu : kArchitectures) EXPECT_EQ(compile_errors(kernels.sources(), gpu), "");
}

TEST_F(Exponentials, AreOnePassWhereItsNumbersAreTheSame) {
  const auto halves_of = [](std::int64_t columns) { return cast(randn({3, columns}), DType::bf16).eval(); };
  const Tensor halves = halves_of(70'000), f = cast(halves, DType::f32);
  EXPECT_TRUE(in_one_pass(softmax(halves, 1)));
  EXPECT_TRUE(in_one_pass(softmax(halves_of(128'256), 1)));
  EXPECT_TRUE(in_one_pass(cast(exp(f - max(f, 1, true)) / sum(exp(f - max(f, 1, true)), 1, true), DType::bf16)));
  // Two of them, each with a largest number of its own.
  const Tensor g = cast(halves_of(70'000), DType::f32);
  EXPECT_TRUE(in_one_pass(cast(softmax(f, 1) * softmax(g, 1), DType::bf16)));
  // Rows that share a multiprocessor, and f32, which keeps its exponentials on chip for the last pass.
  EXPECT_FALSE(in_one_pass(softmax(halves_of(50'304), 1)));
  EXPECT_FALSE(in_one_pass(softmax(halves_of(500), 1)));
  EXPECT_FALSE(in_one_pass(softmax(randn({3, 40'000}).eval(), 1)));
  // Not the same numbers: differences rounded to halves, twice the largest, another row's, a sum of squares.
  const Tensor rounded = halves - max(halves, 1, true), twice = f - 2 * max(f, 1, true), other = f - max(g, 1, true);
  EXPECT_FALSE(in_one_pass(exp(rounded) / sum(exp(rounded), 1, true)));
  EXPECT_FALSE(in_one_pass(cast(exp(twice) / sum(exp(twice), 1, true), DType::bf16)));
  EXPECT_FALSE(in_one_pass(cast(exp(other) / sum(exp(other), 1, true), DType::bf16)));
  const Tensor less = f - max(f, 1, true);
  EXPECT_FALSE(in_one_pass(cast(square(less) / sum(square(less), 1, true), DType::bf16)));
}

}  // namespace
}  // namespace ebb::testing
