// SPDX-License-Identifier: MIT
#include "cpu/gemm/bf16.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ebb/memory.h"
#include "kernels/amx_emulated.h"
#include "kernels/gemm_numbers.h"

// Products of bf16 by each of the processor's own instructions, by AMX in plain C++, and without: right for every tail,
// close to each other, and with the same bits for every form of request.
namespace ebb::cpu {
namespace {

struct Way {
  const char* name;
  const GemmBf16Tiles* tiles;  // null: through f32
};

std::vector<Way> ways() {
  std::vector<Way> all{{"f32", nullptr}};
  const auto add = [&](const char* name, const GemmBf16Tiles* tiles) {
    if (tiles) all.push_back({name, tiles});
  };
#if defined(__aarch64__)
  add("bfmmla", gemm_bf16_tiles_arm64());
#elif defined(__x86_64__)
  add("amx", gemm_bf16_tiles_amx());
  add("vdpbf16ps", gemm_bf16_tiles_vdpbf16ps());
#endif
  add("emulated_amx", emulated_amx_tiles());
  return all;
}

class GemmBf16 : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override { use(GetParam()); }
  void TearDown() override {
    allow_gemm_bf16_tiles(true);
    force_gemm_bf16_tiles(nullptr);
    set_num_threads(threads_);
  }
  static void use(const Way& way) {
    allow_gemm_bf16_tiles(way.tiles != nullptr);
    force_gemm_bf16_tiles(way.tiles);
  }
  int threads_ = num_threads();
};
INSTANTIATE_TEST_SUITE_P(Each, GemmBf16, ::testing::ValuesIn(ways()), [](const auto& i) { return i.param.name; });

// Sizes near the limits of tiles and panels of either processor, groups and blocks of k, tasks, deep sums.
const Size kSizesOfHalves[] = {{65, 67, 33},   {33, 50, 511},  {9, 200, 1023}, {17, 13, 1024},  {8, 12, 1025},
                               {16, 48, 2049}, {1, 150, 900},  {150, 1, 900},  {1, 1, 2000},    {3, 1, 70000},
                               {7, 5, 9000},   {1030, 13, 20}, {5, 2070, 20},  {300, 107, 2051}};

TEST_P(GemmBf16, EveryTailOfRowsColumnsAndDepth) {
  std::mt19937 rng(1);
  for (std::int64_t m = 1; m <= 17; ++m) {
    for (std::int64_t n = 1; n <= 17; ++n) {
      for (std::int64_t k = 1; k <= 17; ++k) {
        const Lies la = kWays[at((m + n + k) % 4)], lb = kWays[at((m + 2 * n + k / 2) % 4)];
        const auto a = random_numbers<BFloat16>(m, k, la, rng), b = random_numbers<BFloat16>(k, n, lb, rng);
        expect_close<float>(a, b, 1.0f, 0.0f, &gemm<float>, rng);
      }
    }
  }
  for (const std::int64_t n : {18, 24, 31, 32, 33, 47, 48, 49, 96, 97}) {
    for (const std::int64_t k : {1, 2, 5, 8}) {
      const auto a = random_numbers<BFloat16>(9, k, Lies::by_rows, rng);
      expect_close<float>(a, random_numbers<BFloat16>(k, n, Lies::by_rows, rng), 1.0f, 0.0f, &gemm<float>, rng);
      expect_close<float>(a, random_numbers<BFloat16>(k, n, Lies::by_cols, rng), 1.0f, 0.0f, &gemm<float>, rng);
    }
  }
}

TEST_P(GemmBf16, EveryLayoutAndCut) {
  std::mt19937 rng(2);
  for (const Size& s : kSizesOfHalves) {
    for (const Lies la : kWays) {
      for (const Lies lb : kWays) {
        if (s.m * s.n * s.k > 100000 && la != lb) continue;  // the reference is slow
        const auto a = random_numbers<BFloat16>(s.m, s.k, la, rng), b = random_numbers<BFloat16>(s.k, s.n, lb, rng);
        expect_close<float>(a, b, 1.0f, 0.0f, &gemm<float>, rng);
        expect_close<float>(a, b, -0.5f, 1.0f, &gemm_serial<float>, rng);
        expect_close<float>(a, b, 1.0f, 3.0f, &gemm<float>, rng);
      }
    }
  }
}

TEST_P(GemmBf16, NothingToSumIsZeroOrWhatWasThere) {
  const Matrix<float> empty{nullptr, 1, 1, DType::bf16};
  std::vector<float> c(6, 2.0f);
  gemm<float>(2, 3, 0, 1.0f, empty, empty, 1.0f, c.data(), 3);
  EXPECT_EQ(c, std::vector<float>(6, 2.0f));
  gemm<float>(2, 3, 0, 1.0f, empty, empty, 0.0f, c.data(), 3);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  std::vector<BFloat16> halves(6, bfloat16_from(5.0f));
  gemm_to_halves(2, 3, 0, empty, empty, DType::bf16, halves.data(), 3);
  for (const BFloat16 x : halves) EXPECT_EQ(x.bits, 0);
  gemm_to_halves(0, 3, 4, empty, empty, DType::bf16, nullptr, 3);
  gemm<float>(0, 3, 4, 1.0f, empty, empty, 0.0f, nullptr, 3);
}

TEST_P(GemmBf16, NaNAndInfinityStayInTheirRowAndColumn) {
  expect_nan_and_infinity_stay<BFloat16>({{4, 5, 6}, {13, 17, 41}, {1, 21, 403}, {21, 1, 401}, {70, 45, 1101}});
}

TEST_P(GemmBf16, TooLargeIsInfiniteAndOppositeInfinitiesAreNaN) {
  const BFloat16 huge = bfloat16_from(3e38f), infinite = bfloat16_from(std::numeric_limits<float>::infinity());
  const BFloat16 a[] = {huge, huge}, b[] = {huge, huge}, c[] = {infinite, bfloat16_from(-INFINITY)};
  float out = 0;
  gemm<float>(1, 1, 2, 1.0f, {a, 2, 1, DType::bf16}, {b, 1, 1, DType::bf16}, 0.0f, &out, 1);
  EXPECT_EQ(out, std::numeric_limits<float>::infinity());
  const BFloat16 one[] = {bfloat16_from(1.0f), bfloat16_from(1.0f)};
  gemm<float>(1, 1, 2, 1.0f, {c, 2, 1, DType::bf16}, {one, 1, 1, DType::bf16}, 0.0f, &out, 1);
  EXPECT_TRUE(std::isnan(out));
}

// A part of a larger matrix, NaN all around: nothing beyond its rows and columns is multiplied, not even by zero.
TEST_P(GemmBf16, WhatLiesAroundAFactorIsNotRead) {
  std::mt19937 rng(10);
  for (const Size& s : {Size{130, 140, 401}, Size{70, 300, 1040}, Size{260, 70, 95}, Size{20, 30, 7}}) {
    Numbers<BFloat16> a(s.m + 9, s.k + 37, Lies::by_rows), b(s.k + 37, s.n + 9, Lies::by_rows);
    for (auto* x : {&a, &b}) std::fill(x->memory.begin(), x->memory.end(), bfloat16_from(NAN));
    const auto inner_a = random_numbers<BFloat16>(s.m, s.k, Lies::by_rows, rng);
    const auto inner_b = random_numbers<BFloat16>(s.k, s.n, Lies::by_rows, rng);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t p = 0; p < s.k; ++p) a(i + 3, p + 5) = inner_a(i, p);
    }
    for (std::int64_t p = 0; p < s.k; ++p) {
      for (std::int64_t j = 0; j < s.n; ++j) b(p + 3, j + 5) = inner_b(p, j);
    }
    for (const int threads : {1, 4}) {
      set_num_threads(threads);
      std::vector<float> alone(at(s.m * s.n)), part(at(s.m * s.n));
      gemm<float>(s.m, s.n, s.k, 1.0f, inner_a.matrix<float>(), inner_b.matrix<float>(), 0.0f, alone.data(), s.n);
      gemm<float>(s.m, s.n, s.k, 1.0f, a.matrix<float>().from(3, 5), b.matrix<float>().from(3, 5), 0.0f, part.data(),
                  s.n);
      EXPECT_EQ(part, alone) << s.m << "x" << s.n << "x" << s.k;
    }
  }
}

std::vector<float> product_of(const Size& s, const Matrix<float>& a, const Matrix<float>& b) {
  std::vector<float> c(at(s.m * s.n));
  gemm<float>(s.m, s.n, s.k, 1.0f, a, b, 0.0f, c.data(), s.n);
  return c;
}

// Rows of A by rows are tiles in place unless they are whole pages long (2,048 numbers); by columns they are packed by
// each task, or once for all of them if there are many (2,000 columns).
TEST_P(GemmBf16, SameBitsForEveryNumberOfThreads) {
  std::mt19937 rng(4);
  struct Product {
    Size size;
    Lies a = Lies::by_rows;
  };
  for (const auto& [s, lies] : {Product{{300, 260, 1500}}, Product{{64, 64, 64}}, Product{{10, 16, 30000}},
                                Product{{1, 3000, 700}}, Product{{3000, 1, 700}}, Product{{1100, 40, 90}},
                                Product{{70, 90, 2048}}, Product{{70, 200, 130}, Lies::by_cols},
                                Product{{40, 2000, 40}, Lies::by_cols}, Product{{2100, 70, 33}, Lies::by_cols}}) {
    const auto a = random_numbers<BFloat16>(s.m, s.k, lies, rng);
    const auto b = random_numbers<BFloat16>(s.k, s.n, Lies::by_cols, rng);
    std::vector<float> serial(at(s.m * s.n));
    gemm_serial<float>(s.m, s.n, s.k, 1.0f, a.matrix<float>(), b.matrix<float>(), 0.0f, serial.data(), s.n);
    for (const int threads : {1, 2, 3, 8}) {
      set_num_threads(threads);
      EXPECT_EQ(product_of(s, a.matrix<float>(), b.matrix<float>()), serial) << s.m << "x" << s.n << "x" << s.k;
    }
  }
}

// A single row or column has the bits it has among others, wherever it is and in every layout.
TEST_P(GemmBf16, BitsAreThoseOfTheRowAndTheColumnAlone) {
  std::mt19937 rng(5);
  for (const Size& s : {Size{21, 30, 35}, Size{9, 50, 1030}, Size{130, 14, 2100}, Size{20, 20, 5000}}) {
    for (const Lies lies : kWays) {
      const auto a = random_numbers<BFloat16>(s.m, s.k, lies, rng), b = random_numbers<BFloat16>(s.k, s.n, lies, rng);
      const std::vector<float> c = product_of(s, a.matrix<float>(), b.matrix<float>());
      for (std::int64_t i = 0; i < s.m; ++i) {
        const std::vector<float> row = product_of({1, s.n, s.k}, a.matrix<float>().from(i, 0), b.matrix<float>());
        ASSERT_TRUE(std::equal(row.begin(), row.end(), c.begin() + i * s.n)) << "row " << i;
      }
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::vector<float> col = product_of({s.m, 1, s.k}, a.matrix<float>(), b.matrix<float>().from(0, j));
        for (std::int64_t i = 0; i < s.m; ++i) ASSERT_EQ(col[at(i)], c[at(i * s.n + j)]) << i << ", " << j;
      }
    }
  }
}

// An f32 factor that may be rounded is rounded to nearest if there are instructions, and used unrounded otherwise.
TEST_P(GemmBf16, RoundsWhatMayBeRounded) {
  std::mt19937 rng(6);
  const bool rounds = gemm_bf16_tiles() != nullptr;
  for (const Size& s : {Size{33, 29, 37}, Size{9, 14, 1100}, Size{5, 17, 3}}) {
    for (const Lies lies : kWays) {
      const auto a = random_numbers<float>(s.m, s.k, lies, rng);
      const auto b = random_numbers<BFloat16>(s.k, s.n, lies, rng);
      Numbers<BFloat16> near(s.m, s.k, Lies::by_rows);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t p = 0; p < s.k; ++p) near(i, p) = bfloat16_from(a(i, p));
      }
      const Matrix<float> exact = a.matrix<float>();
      Matrix<float> rounded = exact;
      rounded.may_round = true;
      const auto as_it_is = product_of(s, exact, b.matrix<float>());
      const auto expected = rounds ? product_of(s, near.matrix<float>(), b.matrix<float>()) : as_it_is;
      EXPECT_EQ(product_of(s, rounded, b.matrix<float>()), expected);
      if (rounds) {
        EXPECT_NE(expected, as_it_is);
      }
    }
  }
}

TEST_P(GemmBf16, AgreesWithTheWayThroughF32) {
  std::mt19937 rng(7);
  for (const Size& s : {Size{40, 50, 60}, Size{30, 40, 1000}, Size{20, 30, 9000}}) {
    const auto a = random_numbers<BFloat16>(s.m, s.k, Lies::by_rows, rng);
    const auto b = random_numbers<BFloat16>(s.k, s.n, Lies::by_cols, rng);
    const auto by_instructions = product_of(s, a.matrix<float>(), b.matrix<float>());
    use({"f32", nullptr});
    const auto through_f32 = product_of(s, a.matrix<float>(), b.matrix<float>());
    use(GetParam());
    // Sums of k products of normals are about √k; both ways err by some √k units in the last place of that.
    const double k = static_cast<double>(s.k), allowed = 4 * k * std::numeric_limits<float>::epsilon();
    for (std::size_t i = 0; i < through_f32.size(); ++i) ASSERT_NEAR(by_instructions[i], through_f32[i], allowed);
  }
}

// AMX, where available, gives the bits of the emulation, also for numbers that are flushed to zero.
TEST(GemmBf16Amx, IsWhatTheManualSays) {
  std::vector<Way> both;
  for (const Way& way : ways()) {
    if (std::string(way.name).ends_with("amx")) both.push_back(way);
  }
  std::mt19937 rng(9);
  std::uniform_int_distribution<int> bits(0, 0xffff);
  for (const Size& s : {Size{35, 50, 60}, Size{16, 32, 1000}, Size{1, 30, 3000}}) {
    auto a = random_numbers<BFloat16>(s.m, s.k, Lies::by_rows, rng);
    auto b = random_numbers<BFloat16>(s.k, s.n, Lies::by_rows, rng);
    for (const int exponents : {16, 40, 126}) {
      for (auto* x : {&a, &b}) {
        for (BFloat16& number : x->memory) {
          const int exponent = bits(rng) % exponents - exponents / 2;
          number = bfloat16_from(std::ldexp(to_float(number), exponent));
        }
      }
      std::vector<std::vector<float>> made;
      for (const Way& way : both) {
        force_gemm_bf16_tiles(way.tiles);
        made.push_back(product_of(s, a.matrix<float>(), b.matrix<float>()));
      }
      force_gemm_bf16_tiles(nullptr);
      for (const auto& one : made) {
        ASSERT_EQ(0, std::memcmp(one.data(), made[0].data(), one.size() * sizeof(float)))
            << s.m << "x" << s.n << "x" << s.k << ", " << exponents;
      }
    }
  }
}

// Results in halves are gemm's, rounded once: in one block of k and in several, whole and in parts.
TEST_P(GemmBf16, HalvesAreRoundedOnce) {
  std::mt19937 rng(8);
  for (const Size& s : {Size{9, 13, 5}, Size{65, 70, 1024}, Size{300, 107, 2051}, Size{20, 30, 20000},
                        Size{1, 70, 1500}, Size{600, 2100, 9}}) {
    const auto a = random_numbers<BFloat16>(s.m, s.k, Lies::by_rows, rng);
    const auto b = random_numbers<BFloat16>(s.k, s.n, Lies::by_cols, rng);
    const auto sums = product_of(s, a.matrix<float>(), b.matrix<float>());
    const std::int64_t stride = s.n + 3;
    const BFloat16 untouched = bfloat16_from(7.0f);
    for (auto* product : {&gemm_to_halves, &gemm_to_halves_serial}) {
      std::vector<BFloat16> c(at(s.m * stride), untouched);
      product(s.m, s.n, s.k, a.matrix<float>(), b.matrix<float>(), DType::bf16, c.data(), stride);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < stride; ++j)
          ASSERT_EQ(c[at(i * stride + j)].bits, (j < s.n ? bfloat16_from(sums[at(i * s.n + j)]) : untouched).bits)
              << s.m << "x" << s.n << "x" << s.k << " at " << i << ", " << j;
      }
      std::vector<Half> h(at(s.m * s.n));
      product(s.m, s.n, s.k, a.matrix<float>(), b.matrix<float>(), DType::f16, h.data(), s.n);
      for (std::size_t i = 0; i < h.size(); ++i) ASSERT_EQ(h[i].bits, half_from(sums[i]).bits);
    }
  }
}

}  // namespace
}  // namespace ebb::cpu
