// SPDX-License-Identifier: MIT
// Halves that are computed two at a time, powers that share a logarithm, quotients that share a divisor.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/emulated_device.h"
#include "cuda/plan/kernel_plan.h"
#include "ebb/device.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "emulated_device.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

class Pairs : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(29);
  }
  // Bits of f64 represent those of every other type; all NaNs are equal.
  static std::vector<std::uint64_t> bits(const Tensor& x) {
    std::vector<std::uint64_t> result;
    for (const double v : x.to_vector<double>())
      result.push_back(std::isnan(v) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(v));
    return result;
  }
  // Numbers of every size, of both signs, and those that are none.
  static Tensor hostile(std::int64_t n, DType dtype, double spread) {
    std::vector<double> v = (randn({n}) * exp(spread * randn({n}))).to_vector<double>();
    const double infinity = std::numeric_limits<double>::infinity();
    const double special[] = {0.0, -0.0, infinity, -infinity, std::nan(""), 1.0, -1.0, 0.5};
    for (std::size_t k = 0; k < v.size(); k += 7) v[k] = special[k / 7 % 8];
    return cast(tensor_from(v, {n}, DType::f64), dtype).eval();
  }
  // Whether the plan's description contains these words.
  static bool planned(const Tensor& x, const char* words) {
    const auto c = make_case("pairs", {x});
    return std::any_of(c->plan.steps.begin(), c->plan.steps.end(), [&](const PlanStep& step) {
      return describe(cuda::plan_kernel(*step.program)).find(words) != std::string::npos;
    });
  }
};

Tensor rounded_often(const Tensor& x, const Tensor& y) {
  const Tensor a = x * y - 0.375, b = maximum(a + x, -y), c = where(x < y, square(a), abs(b));
  return (1 - c) * b + where(a >= 0, c, x) * 2;
}

// Sums, differences and products of halves, bit-identical to the CPU: each is rounded, and -0, infinities and NaN are
// kept.
TEST_F(Pairs, OfHalvesHaveTheBitsOfTheCpu) {
  for (const DType d : {DType::bf16, DType::f16}) {
    for (const std::int64_t n : {8, 64, 2048, 2049, 4095, 70'001}) {
      const Tensor x = hostile(n, d, 1.5), y = hostile(n, d, 1.5);
      EXPECT_EQ(bits(rounded_often(x.to(kGpu), y.to(kGpu))), bits(rounded_often(x, y))) << name(d) << ", " << n;
    }
    const Tensor x = hostile(6 * 520, d, 1.5), y = hostile(6 * 520, d, 1.5);
    const auto by_rows = [&](const Tensor& a, const Tensor& b) {  // after the row's largest number, and strided
      const Tensor m = max(abs(b), 1, true);
      return rounded_often(a, where(m > 0, b, a));
    };
    const auto shaped = [](const Tensor& t) { return permute(reshape(t, {520, 6}), {1, 0}); };
    for (const bool strided : {false, true}) {
      const auto of = [&](const Tensor& t) { return strided ? shaped(t) : reshape(t, {6, 520}); };
      EXPECT_EQ(bits(by_rows(of(x.to(kGpu)), of(y.to(kGpu)))), bits(by_rows(of(x), of(y)))) << name(d) << strided;
    }
  }
}

TEST_F(Pairs, ArePlannedWhereHalvesAreRoundedInBetween) {
  const Tensor x = hostile(4096, DType::bf16, 1), y = hostile(4096, DType::bf16, 1);
  EXPECT_TRUE(planned(rounded_often(x, y), "bf16 pairs"));
  EXPECT_TRUE(planned(rounded_often(cast(x, DType::f16).eval(), cast(y, DType::f16).eval()), "f16 pairs"));
  // In f32, and where nothing is rounded in between, there is nothing to pair.
  EXPECT_FALSE(planned(rounded_often(cast(x, DType::f32), cast(y, DType::f32)), "pairs"));
  EXPECT_FALSE(planned(x * y, "pairs"));
}

// Each value is visited once, however many paths lead to it.
TEST_F(Pairs, OfDeepFormulasAreFoundInTime) {
  const Tensor x = hostile(600, DType::bf16, 1);
  const auto deep = [](Tensor t) {
    for (int k = 0; k < 60; ++k) t = maximum(t, where(t > 0.5, -abs(t), t));
    return t * t + t;
  };
  EXPECT_EQ(bits(deep(x.to(kGpu))), bits(deep(x)));
}

// Functions between them are those of single numbers: within a unit in the last place of the half.
TEST_F(Pairs, TakeFunctionsOfEach) {
  for (const DType d : {DType::bf16, DType::f16}) {
    const Tensor x = cast(rand({4099}) + 0.25, d).eval(), y = cast(randn({4099}), d).eval();
    const auto f = [](const Tensor& a, const Tensor& b) {
      const Tensor e = exp(-square(b)) + a, p = pow(a, 1.5) * log(e) - pow(a, 0.5);
      return (1 - tanh(b) / e) * p + pow(b, 3) * (sqrt(a) + sign(b));
    };
    const std::vector<double> got = f(x.to(kGpu), y.to(kGpu)).to_vector<double>(), want = f(x, y).to_vector<double>();
    const double unit = d == DType::bf16 ? 0x1p-7 : 0x1p-10;
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 6 * unit * (1 + std::fabs(want[i]))) << name(d) << ", element " << i;
  }
}

// One logarithm serves all powers of a base, and each has the bits it has alone.
TEST_F(Pairs, PowersOfOneBaseAreThoseAlone) {
  const Tensor x = hostile(5003, DType::f32, 20).to(kGpu);
  std::vector<Tensor> together, alone;
  for (const double y : {0.65, -0.35, 3.0, -2.0, 0.0, 1e10, 64.5, 65.0}) {
    together.push_back(pow(x, y));
    alone.push_back(pow(x.to(Device{}).to(kGpu), y).eval());
  }
  eval(together);
  const std::vector<float> base = x.to_vector<float>();
  const double exponents[] = {0.65, -0.35, 3.0, -2.0, 0.0, 1e10, 64.5, 65.0};
  for (std::size_t k = 0; k < together.size(); ++k) {
    EXPECT_EQ(bits(together[k]), bits(alone[k])) << "to the power of " << exponents[k];
    const std::vector<float> got = together[k].to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto want = static_cast<float>(std::pow(static_cast<double>(base[i]), static_cast<float>(exponents[k])));
      const float next = std::nextafter(want, std::numeric_limits<float>::infinity()),
                  before = std::nextafter(want, -std::numeric_limits<float>::infinity());
      ASSERT_TRUE((std::isnan(got[i]) && std::isnan(want)) || (before <= got[i] && got[i] <= next))
          << base[i] << " to the power of " << exponents[k] << ": " << got[i] << ", not " << want;
    }
  }
}

// The first power of a base may be unable to use a shared logarithm: its exponent differs per element, or an earlier
// pass has left it on chip.
TEST_F(Pairs, PowersShareALogarithmThatTheFirstHasNoUseFor) {
  const auto near = [](const Tensor& got, const Tensor& want, double unit) {
    const std::vector<double> g = got.to_vector<double>(), w = want.to_vector<double>();
    for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], w[i], unit * (1 + std::fabs(w[i]))) << i;
  };
  const Tensor h = cast(rand({3, 5000}) + 0.25, DType::bf16).eval(), e = cast(rand({3, 5000}), DType::bf16).eval();
  const auto of_pairs = [](const Tensor& x, const Tensor& y) { return (pow(x, y) + pow(x, 0.5)) * x + x; };
  EXPECT_TRUE(planned(of_pairs(h, e), "bf16 pairs"));
  near(of_pairs(h.to(kGpu), e.to(kGpu)), of_pairs(h, e), 0x1p-5);
  const Tensor x = (rand({3, 5000}) + 0.25).eval(), z = rand({3, 5000}).eval();
  const auto kept = [](const Tensor& a, const Tensor& b) {
    const Tensor y = pow(a, 1.5);
    return y / sum(y * (b + max(b, 1, true)), 1, true) + pow(a, 0.5);
  };
  EXPECT_TRUE(planned(kept(x, z), "keeps %"));
  near(kept(x.to(kGpu), z.to(kGpu)), kept(x, z), 1e-5);
}

// Divisors of a whole row or of everything: the quotients of the CPU, which are rounded once.
TEST_F(Pairs, QuotientsByOneNumberAreRoundedOnce) {
  for (const double d : {3.0, 0.7, -1e-3, 1e30, 1e-30, 0x1p-126, 0.0, 2.0, static_cast<double>(0x1p127f)}) {
    const Tensor x = hostile(4097, DType::f32, 12);
    EXPECT_EQ(bits(x.to(kGpu) / d), bits(x / d)) << "divided by " << d;
  }
  const Tensor x = hostile(37 * 300, DType::f32, 3), rows = reshape(x, {37, 300});
  const auto by_row = [](const Tensor& t) { return t / max(where(isfinite(t), abs(t), zeros_like(t)), 1, true); };
  EXPECT_EQ(bits(by_row(rows.to(kGpu))), bits(by_row(rows)));
  // Where only columns are added, and where rows are, too, before they are: numbers that f32 adds exactly.
  const Tensor whole = floor(8 * randn({37, 300})), steps = pow(2.0, floor(3 * rand({37, 1})));
  const auto columns = [](const Tensor& t, const Tensor& d) { return sum(t / d, 0); };
  const auto both = [](const Tensor& t, const Tensor& d) { return sum(t / (d * max(abs(t), 1, true)), 0); };
  EXPECT_EQ(bits(columns(whole.to(kGpu), steps.to(kGpu))), bits(columns(whole, steps)));
  const std::vector<double> got = both(whole.to(kGpu), steps.to(kGpu)).to_vector<double>();
  const std::vector<double> want = both(cast(whole, DType::f64), cast(steps, DType::f64)).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::fabs(want[i])));
}

}  // namespace
}  // namespace ebb::testing
