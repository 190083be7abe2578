// SPDX-License-Identifier: MIT
// Choices between the common case and the one for infinities and NaN: the rare arm is a branch.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "cuda/emulated_device.h"
#include "cuda/plan/kernel_plan.h"
#include "ebb/device.h"
#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "emulated_device.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

class Rare : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(31);
  }
  static std::vector<std::uint64_t> bits(const Tensor& x) {
    std::vector<std::uint64_t> result;
    for (const double v : x.to_vector<double>())
      result.push_back(std::isnan(v) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(v));
    return result;
  }
  // So far apart that quotients overflow, and some NaNs.
  static Tensor far_apart(std::int64_t n) {
    std::vector<double> v = (randn({n}) * exp(30 * randn({n}))).to_vector<double>();
    const double infinity = std::numeric_limits<double>::infinity();
    const double special[] = {0.0, infinity, -infinity, std::nan("")};
    for (std::size_t k = 0; k < v.size(); k += 11) v[k] = special[k / 11 % 4];
    return cast(tensor_from(v, {n}, DType::f64), DType::f32).eval();
  }
  static std::size_t branches(const Tensor& x) {
    std::size_t n = 0;
    const auto c = make_case("rare", {x});
    for (const PlanStep& step : c->plan.steps) {
      for (const cuda::PassPlan& pass : cuda::plan_kernel(*step.program).passes) n += pass.rare_arms.size();
    }
    return n;
  }
};

Tensor one_choice(const Tensor& x, const Tensor& y) {
  const Tensor q = x / y;
  return where(logical_and(isinf(q), isfinite(x)), (x * 0x1p-64) / (y * 0x1p64), maximum(q, -1e30)) + q;
}
Tensor other_choices(const Tensor& x, const Tensor& y) {
  const Tensor q = x / y, r = y / x;
  const Tensor a = where(isfinite(q), q, (r - 1) / (abs(r) + 2));
  return where(logical_not(isnan(a)), a, (x + 3) / (y * y + 1) - where(isnan(r), (x - 7) / (y - 5), r));
}

TEST_F(Rare, ArmsHaveTheBitsOfTheCpu) {
  for (const std::int64_t n : {8, 2049, 70'001}) {
    const Tensor x = far_apart(n), y = far_apart(n);
    EXPECT_EQ(bits(one_choice(x.to(kGpu), y.to(kGpu))), bits(one_choice(x, y))) << n;
    EXPECT_EQ(bits(other_choices(x.to(kGpu), y.to(kGpu))), bits(other_choices(x, y))) << n;
  }
  const Tensor x = reshape(far_apart(6 * 5000), {6, 5000}), y = reshape(far_apart(6 * 5000), {6, 5000});
  const auto by_rows = [](const Tensor& a, const Tensor& b) {  // in a pass after a reduction
    return one_choice(a, where(max(abs(b), 1, true) > 1, b, a));
  };
  EXPECT_EQ(bits(by_rows(x.to(kGpu), y.to(kGpu))), bits(by_rows(x, y)));
}

TEST_F(Rare, ArmsArePlannedAsBranches) {
  const Tensor x = far_apart(4096), y = far_apart(4096);
  EXPECT_EQ(branches(one_choice(x, y)), 1u);
  EXPECT_EQ(branches(other_choices(x, y)), 2u);  // the third is part of an arm
  const Tensor q = x / y;
  EXPECT_EQ(branches(where(isinf(q), x, q)), 0u);                    // nothing to save
  EXPECT_EQ(branches(where(x < y, exp(x) / y, q)), 0u);              // not rare
  EXPECT_EQ(branches(where(isinf(q), exp(x) / y, q) + exp(x)), 1u);  // the exponential is made anyway, the quotient not
  EXPECT_EQ(branches(where(isinf(q), exp(x) / y, q) + exp(x) / y), 0u);
}

// The loss that has one.
TEST_F(Rare, GeneralizedKlIsThatOfTheCpu) {
  const auto inputs = [](std::int64_t n) { return cast(minimum(exp(30 * randn({n})), 1e38), DType::f32).eval(); };
  const Tensor x = inputs(5000), y = inputs(5000);
  EXPECT_EQ(branches(generalized_kl(x, y)), 1u);
  const GeneralizedKlOptions each{.reduction = Reduction::none};
  const std::vector<double> here = generalized_kl(x, y, each).to_vector<double>(),
                            there = generalized_kl(x.to(kGpu), y.to(kGpu), each).to_vector<double>(),
                            sizes = (x + y).to_vector<double>();
  for (std::size_t k = 0; k < here.size(); ++k) {
    if (here[k] == there[k]) continue;
    ASSERT_NEAR(there[k], here[k], 1e-6 * (std::fabs(here[k]) + sizes[k])) << k;
  }
}

}  // namespace
}  // namespace ebb::testing
