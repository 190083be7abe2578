// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cpu/tile/kernels.h"

// remainder and floor_divide of f32, which are vectors of f64 where quotients are small: bit-identical to fmod.
namespace ebb::cpu {
namespace {

float remainder_by_fmod(float a, float b) {
  const float r = std::fmod(a, b);
  if (r == 0) return std::copysign(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
// floor(a / b) of exact quotients below 2^53.
float floor_of_quotient(float a, float b) {
  const float rest = std::fmod(a, b);
  const double whole = (static_cast<double>(a) - static_cast<double>(rest)) / static_cast<double>(b);
  const double down = rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
  return down == 0 ? std::copysign(0.0f, a / b) : static_cast<float>(down);
}

TEST(DivisionOfF32, HasTheBitsOfFmod) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> number(-1000, 1000), small(-3, 3), exponent(-20, 20);
  std::vector<float> a, b;
  const auto add = [&](float x, float y) { a.push_back(x), b.push_back(y); };
  for (int i = 0; i < 20000; ++i) {
    add(number(rng), small(rng));
    const float y = small(rng);
    const auto whole = static_cast<float>(static_cast<int>(number(rng)));
    add(whole * y, y);  // a multiple, but for rounding
    add(std::nextafter(whole * 0.125f, i % 2 ? 1e9f : -1e9f), i % 3 ? 0.125f : -0.125f);  // just next to one
    add(whole * 0.125f, i % 2 ? 0.125f : -0.125f);                                        // a multiple
    add(std::exp2(exponent(rng)), std::exp2(exponent(rng)) * (i % 2 ? 1.3f : -1.3f));
  }
  for (const float big : {0x1p21f, 0x1.fffffep21f, 0x1p22f, 0x1p23f, 0x1p30f})
    add(big, 1), add(-big, 3), add(big * 1.5f, -7);
  for (const float x : {0.0f, -0.0f, 5.0f, -5.0f}) add(x, 2), add(x, -2), add(x, 1e-40f), add(x, 1e30f), add(x, -1e30f);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    const TileKernels& kernels = *targets.begin_[t];
    std::vector<float> rest(a.size()), quotient(a.size());
    kernels.elementwise(Op::remainder, RegType::f32, 0)(rest.data(), a.data(), b.data(), nullptr, a.size());
    kernels.elementwise(Op::floor_divide, RegType::f32, 0)(quotient.data(), a.data(), b.data(), nullptr, a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rest[i]), std::bit_cast<std::uint32_t>(remainder_by_fmod(a[i], b[i])))
          << a[i] << " % " << b[i] << " is " << rest[i] << " on " << kernels.target;
      if (std::fabs(a[i] / b[i]) > 0x1p22f) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(quotient[i]), std::bit_cast<std::uint32_t>(floor_of_quotient(a[i], b[i])))
          << a[i] << " // " << b[i] << " is " << quotient[i] << " on " << kernels.target;
    }
  }
}

// Operands without a quotient next to those with one: each lane as if alone, for every tail.
TEST(DivisionOfF32, ALaneDoesNotDependOnItsNeighbours) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const float numbers[] = {0.0f, -0.0f, 3.5f, -3.5f, 1e30f, -1e-30f, kInf, -kInf, kNaN, 2.0f, 7.0f, -0.25f};
  std::mt19937 rng(4);
  const TargetList targets = tile_kernel_targets();
  for (std::size_t t = 0; t < targets.count; ++t) {
    for (const Op op : {Op::remainder, Op::floor_divide}) {
      const auto kernel = targets.begin_[t]->elementwise(op, RegType::f32, 0);
      for (std::size_t n = 1; n < 70; ++n) {
        std::vector<float> a(n), b(n), got(n);
        for (std::size_t i = 0; i < n; ++i) a[i] = numbers[rng() % 12], b[i] = numbers[rng() % 12];
        kernel(got.data(), a.data(), b.data(), nullptr, n);
        for (std::size_t i = 0; i < n; ++i) {
          float alone = 0;
          kernel(&alone, &a[i], &b[i], nullptr, 1);
          EXPECT_TRUE(std::isnan(alone) ? std::isnan(got[i])
                                        : std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(alone))
              << a[i] << ", " << b[i] << ": " << got[i] << " and alone " << alone;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::cpu
