// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/tile/kernels.h"
#include "kernels/ulp.h"

// lgamma, digamma and trigamma of f32: positive numbers have a vector form, the others are computed one by one.
namespace ebb::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct Kernel {
  const char* name;
  Op op;
  void operator()(const TileKernels& k, float* out, const float* x, std::size_t n) const {
    const float order = 1;
    if (op == Op::polygamma) return k.elementwise(op, RegType::f32, 1)(out, &order, x, nullptr, n);
    k.elementwise(op, RegType::f32, 0)(out, x, nullptr, nullptr, n);
  }
};
constexpr Kernel kKernels[] = {{"lgamma", Op::lgamma}, {"digamma", Op::digamma}, {"trigamma", Op::polygamma}};

// Near the roots (1 and 2 of lgamma, 1.46 of digamma), where formulas change, and at every magnitude.
std::vector<float> positive_points() {
  std::vector<float> points;
  std::mt19937 rng(5);
  for (const float at : {0.5f, 1.0f, 1.4616321f, 1.5f, 2.0f, 2.5f, 6.0f, 8.5f, 12.0f}) {
    float low = at, high = at;
    for (int k = 0; k < 200; ++k) {
      points.push_back(low = std::nextafter(low, 0.0f));
      points.push_back(high = std::nextafter(high, kInf));
    }
    points.push_back(at);
    std::uniform_real_distribution<float> around(0.9f * at, 1.1f * at);
    for (int k = 0; k < 500; ++k) points.push_back(around(rng));
  }
  std::uniform_real_distribution<float> exponent(-149, 127.9f), small(0, 20);
  for (int k = 0; k < 3000; ++k) {
    points.push_back(std::max(std::exp2(exponent(rng)), std::numeric_limits<float>::denorm_min()));
    points.push_back(std::max(small(rng), 1e-6f));
  }
  points.push_back(std::numeric_limits<float>::max());
  return points;
}

TEST(GammaOfF32, IsRoundedOnceForPositiveNumbers) {
  const std::vector<float> points = positive_points();
  mpfr_t x, exact;
  mpfr_init2(x, 53), mpfr_init2(exact, 90);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const TileKernels& kernels = *targets.begin_[t];
    for (const Kernel& kernel : kKernels) {
      std::vector<float> got(points.size());
      kernel(kernels, got.data(), points.data(), points.size());
      for (std::size_t i = 0; i < points.size(); ++i) {
        const auto at = static_cast<double>(points[i]);
        if (kernel.op == Op::polygamma) {  // MPFR has no trigamma: the sum of 1/(x + k)², and the rest of it
          const double order = 1;
          double want = 0;
          kernels.elementwise(Op::polygamma, RegType::f64, 1)(&want, &order, &at, nullptr, 1);
          mpfr_set_d(exact, want, MPFR_RNDN);
        } else {
          mpfr_set_d(x, at, MPFR_RNDN);
          kernel.op == Op::lgamma ? mpfr_lngamma(exact, x, MPFR_RNDN) : mpfr_digamma(exact, x, MPFR_RNDN);
        }
        ASSERT_LE(testing::ulp_error(got[i], exact), 0.51)
            << kernel.name << "(" << points[i] << ") is " << got[i] << " on " << kernels.target;
      }
    }
  }
  mpfr_clears(x, exact, nullptr);
}

TEST(GammaOfF32, ALaneDoesNotDependOnItsNeighbours) {
  const float specials[] = {0.0f, -0.0f, -0.5f, -3.0f, -1e9f, kInf, -kInf, kNaN, 0.25f, 1.5f, 7.0f, 1e30f};
  std::mt19937 rng(6);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    for (const Kernel& kernel : kKernels) {
      for (std::size_t n = 1; n < 70; ++n) {
        std::vector<float> x(n), got(n + 1, 123.0f);
        for (float& v : x) v = specials[rng() % (n % 2 ? 8 + 4 * (n % 3 > 0) : 12)];
        kernel(*targets.begin_[t], got.data(), x.data(), n);
        EXPECT_EQ(got[n], 123.0f);
        for (std::size_t i = 0; i < n; ++i) {
          float alone = 0;
          kernel(*targets.begin_[t], &alone, &x[i], 1);
          if (std::isnan(alone)) {
            EXPECT_TRUE(std::isnan(got[i])) << kernel.name << "(" << x[i] << ")";
          } else {
            EXPECT_EQ(got[i], alone) << kernel.name << "(" << x[i] << "), " << i << " of " << n;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::cpu
