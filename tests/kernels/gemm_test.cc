// SPDX-License-Identifier: MIT
#include "cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/gemm/bf16.h"
#include "cpu/gemm/kernels.h"
#include "cpu/tile/kernels.h"
#include "ebb/memory.h"
#include "kernels/gemm_numbers.h"

// Matrix products on every SIMD target: right for every size of tile and tail, every layout of a factor, and with the
// same bits for every form of request.
namespace ebb::cpu {
namespace {

std::vector<const TileKernels*> targets() {
  const TargetList list = tile_kernel_targets();
  return {list.begin_, list.begin_ + list.count};
}

class Gemm : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    force_tile_kernels(targets()[GetParam()]);
    allow_gemm_bf16_tiles(false);  // they have tests of their own
  }
  void TearDown() override {
    force_tile_kernels(nullptr);
    allow_gemm_bf16_tiles(true);
    set_num_threads(threads_);
  }
  int threads_ = num_threads();
};
INSTANTIATE_TEST_SUITE_P(Each, Gemm, ::testing::Range(std::size_t{0}, targets().size()),
                         [](const auto& i) { return std::string(targets()[i.param]->target); });

template <class T, class S>
void every_small_size() {
  std::mt19937 rng(1);
  for (std::int64_t m = 1; m <= 20; ++m) {
    for (std::int64_t n = 1; n <= 20; ++n) {
      for (const std::int64_t k : {1, 3, 7, 19}) {
        const Lies la = kWays[at((m + n + k) % 4)], lb = kWays[at((m + 2 * n + k / 2) % 4)];
        const auto a = random_numbers<S>(m, k, la, rng), b = random_numbers<S>(k, n, lb, rng);
        expect_close<T>(a, b, T(1), T(0), &gemm<T>, rng);
      }
    }
  }
}
TEST_P(Gemm, EverySmallSize) {
  every_small_size<float, float>();
  every_small_size<double, double>();
  every_small_size<float, Half>();
  every_small_size<float, BFloat16>();
}

// Sizes near the limits of tiles, blocks of k, packing, tasks, both vector forms, deep sums,
// turns.
const Size kSizes[] = {{65, 67, 33},  {33, 50, 385},   {9, 200, 769},  {1, 150, 900}, {150, 1, 900},
                       {1, 1, 2000},  {3, 1, 70000},   {1, 3, 70000},  {7, 5, 9000},  {1030, 13, 20},
                       {5, 2070, 20}, {130, 140, 400}, {40, 112, 390}, {67, 397, 770}};

template <class T, class S>
void every_layout() {
  std::mt19937 rng(2);
  for (const Size& s : kSizes) {
    for (const Lies la : kWays) {
      for (const Lies lb : kWays) {
        // The reference is slow: of the large sizes, the layouts of either factor in turn.
        if (s.m * s.n * s.k > 100000 && la != lb) continue;
        const auto a = random_numbers<S>(s.m, s.k, la, rng), b = random_numbers<S>(s.k, s.n, lb, rng);
        expect_close<T>(a, b, T(1), T(0), &gemm<T>, rng);
        expect_close<T>(a, b, T(1), T(1), &gemm_serial<T>, rng);
      }
    }
  }
}
TEST_P(Gemm, EveryLayoutAndCut) {
  every_layout<float, float>();
  every_layout<double, double>();
  every_layout<float, BFloat16>();
  every_layout<float, Half>();
}

TEST_P(Gemm, ScalesAndAdds) {
  std::mt19937 rng(3);
  for (const Size& s : {Size{17, 29, 31}, Size{2, 2, 3}, Size{1, 40, 500}, Size{40, 1, 500}, Size{60, 70, 1600}}) {
    for (const double beta : {0.0, 1.0, -2.0}) {
      const auto a = random_numbers<float>(s.m, s.k, Lies::by_rows, rng);
      const auto b = random_numbers<float>(s.k, s.n, Lies::by_cols, rng);
      expect_close<float>(a, b, 0.5f, static_cast<float>(beta), &gemm<float>, rng);
      const auto x = random_numbers<double>(s.m, s.k, Lies::by_cols, rng);
      const auto y = random_numbers<double>(s.k, s.n, Lies::by_rows, rng);
      expect_close<double>(x, y, -3.0, beta, &gemm<double>, rng);
    }
  }
}

TEST_P(Gemm, NothingToSumIsZeroOrWhatWasThere) {
  std::vector<float> c(6, std::numeric_limits<float>::quiet_NaN());
  gemm<float>(2, 3, 0, 1.0f, {}, {}, 0.0f, c.data(), 3);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  c.assign(6, 2.0f);
  gemm<float>(2, 3, 0, 1.0f, {}, {}, 1.0f, c.data(), 3);
  EXPECT_EQ(c, std::vector<float>(6, 2.0f));
  gemm<float>(2, 3, 0, 1.0f, {}, {}, 3.0f, c.data(), 3);
  EXPECT_EQ(c, std::vector<float>(6, 6.0f));
  gemm<float>(0, 3, 5, 1.0f, {}, {}, 0.0f, nullptr, 3);
  gemm<float>(3, 0, 5, 1.0f, {}, {}, 0.0f, nullptr, 0);
}

TEST_P(Gemm, NaNAndInfinityStayInTheirRowAndColumn) {
  expect_nan_and_infinity_stay<float>({{4, 5, 6}, {13, 17, 40}, {1, 21, 400}, {21, 1, 400}, {70, 45, 800}});
}

// ---- the bits
// ---------------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> bits_of(const Size& s, const Matrix<T>& a, const Matrix<T>& b, Product<T> product) {
  std::vector<T> c(at(s.m * s.n));
  product(s.m, s.n, s.k, T(1), a, b, T(0), c.data(), s.n);
  return c;
}

const Size kRepeated[] = {{300, 260, 500}, {64, 64, 64},    {128, 1024, 784}, {10, 16, 30000},
                          {1, 3000, 700},  {3000, 1, 700},  {1, 2, 400000},   {1100, 40, 90},
                          {128, 10, 1024}, {128, 1024, 10}, {10, 1024, 128}};

TEST_P(Gemm, SameBitsForEveryNumberOfThreads) {
  std::mt19937 rng(5);
  for (const Size& s : kRepeated) {
    for (const Lies lb : {Lies::by_cols, Lies::by_rows}) {
      const auto a = random_numbers<float>(s.m, s.k, Lies::by_rows, rng);
      const auto b = random_numbers<float>(s.k, s.n, lb, rng);
      const auto serial = bits_of<float>(s, a.matrix<float>(), b.matrix<float>(), &gemm_serial<float>);
      for (const int threads : lb == Lies::by_cols ? std::vector{1, 2, 3, 8} : std::vector{3}) {
        set_num_threads(threads);
        EXPECT_EQ(bits_of<float>(s, a.matrix<float>(), b.matrix<float>(), &gemm<float>), serial)
            << s.m << "x" << s.n << "x" << s.k << " with " << threads << " threads";
      }
    }
  }
}

// The elements of C by the definition in cpu/gemm/kernels.h, from the row and the column alone.
template <class T>
T defined(const Matrix<T>& row, const Matrix<T>& col, std::int64_t k) {
  const GemmKernels<T>* const kernels = &gemm_kernels<T>();
  const std::int64_t depth = gemm_depth(k, kGemmDepth<T>);
  T sum = 0;
  for (std::int64_t p = 0; p < k; p += depth) {
    const Matrix<T> a = row.from(0, p), b = col.from(p, 0);
    const T block = kernels->dot(std::min(depth, k - p), static_cast<const T*>(a.data), a.col_stride,
                                 static_cast<const T*>(b.data), b.row_stride);
    sum = p == 0 ? block : sum + block;
  }
  return sum;
}

template <class T>
void bits_are_defined_by_row_and_column() {
  std::mt19937 rng(6);
  for (const Size& s : kSizes) {
    for (const Lies la : {Lies::by_rows, Lies::by_cols, Lies::apart}) {
      for (const Lies lb : {Lies::by_rows, Lies::by_cols}) {
        const auto a = random_numbers<T>(s.m, s.k, la, rng), b = random_numbers<T>(s.k, s.n, lb, rng);
        const std::vector<T> c = bits_of<T>(s, a.template matrix<T>(), b.template matrix<T>(), &gemm<T>);
        for (std::int64_t i = 0; i < s.m; ++i) {
          for (std::int64_t j = 0; j < s.n; ++j)
            ASSERT_EQ(c[at(i * s.n + j)],
                      defined<T>(a.template matrix<T>().from(i, 0), b.template matrix<T>().from(0, j), s.k))
                << s.m << "x" << s.n << "x" << s.k << " at " << i << ", " << j;
        }
      }
    }
  }
}
TEST_P(Gemm, BitsAreThoseOfTheRowAndTheColumnAlone) {
  bits_are_defined_by_row_and_column<float>();
  bits_are_defined_by_row_and_column<double>();
}

// Halves are exact in f32: converting while packing, or before, is the same.
TEST_P(Gemm, ConvertingWhilePackingChangesNoBit) {
  std::mt19937 rng(7);
  for (const Size& s : {Size{70, 45, 800}, Size{1, 100, 500}, Size{100, 1, 500}, Size{3, 3, 3}, Size{12, 9, 5000}}) {
    for (const Lies lies : kWays) {
      const auto a = random_numbers<BFloat16>(s.m, s.k, lies, rng);
      const auto b = random_numbers<Half>(s.k, s.n, lies, rng);
      Numbers<float> wide_a(s.m, s.k, Lies::by_rows), wide_b(s.k, s.n, Lies::by_rows);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t p = 0; p < s.k; ++p) wide_a(i, p) = to_float(a(i, p));
      }
      for (std::int64_t p = 0; p < s.k; ++p) {
        for (std::int64_t j = 0; j < s.n; ++j) wide_b(p, j) = to_float(b(p, j));
      }
      EXPECT_EQ(bits_of<float>(s, a.matrix<float>(), b.matrix<float>(), &gemm<float>),
                bits_of<float>(s, wide_a.matrix<float>(), wide_b.matrix<float>(), &gemm<float>))
          << s.m << "x" << s.n << "x" << s.k;
    }
  }
}

// Products of few numbers, B in any direction and at the end of its memory, set and added to.
template <class T>
void check_small() {
  std::mt19937 rng(8);
  for (std::int64_t n = 1; n <= kSmallGemm; ++n) {
    for (const std::int64_t m : {1, 2, 3, 5, 17}) {
      for (const std::int64_t k : {1, 2, 3, 7, 16}) {
        for (int way = 0; way < 8; ++way) {
          const bool a_turned = way & 1, b_turned = way & 2, add = way & 4;
          std::vector<T> a(at(m * k)), b(at(k * n)), c(at(m * n + 1), T(0.5)), expected = c;
          for (T& x : a) x = static_cast<T>(rng() % 2001) / T(777) - 1;
          for (T& x : b) x = static_cast<T>(rng() % 2001) / T(777) - 1;
          const std::int64_t a_row = a_turned ? 1 : k, a_col = a_turned ? m : 1;
          const std::int64_t b_row = b_turned ? 1 : n, b_col = b_turned ? k : 1;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              const T sum = gemm_kernels<T>().dot(k, a.data() + i * a_row, a_col, b.data() + j * b_col, b_row);
              expected[at(i * n + j)] = add ? T(0.5) + sum : sum;
            }
          }
          gemm_kernels<T>().multiply_small(
              {m, n, k, a.data(), a_row, a_col, b.data(), b_row, b_col, b.data() + b.size(), c.data(), add});
          ASSERT_EQ(c, expected) << m << "x" << n << "x" << k << " way " << way;
        }
      }
    }
  }
}
TEST_P(Gemm, SmallProductsHaveTheSumsOfDots) {
  check_small<float>();
  check_small<double>();
}

// The amount packed at a time is bounded, whatever the sizes.
TEST_P(Gemm, WorkspaceIsBounded) {
  const std::int64_t m = 3000, n = 5000, k = 30;
  const std::vector<float> a(at(m * k), 1.0f), b(at(n * k), 1.0f);
  std::vector<float> c(at(m * n));
  const std::size_t live = memory_stats().live;
  reset_peak_memory();
  gemm<float>(m, n, k, 1.0f, {a.data(), k, 1}, {b.data(), 1, k}, 0.0f, c.data(), n);
  EXPECT_LE(memory_stats().peak - live, std::size_t{1} << 20);
  EXPECT_EQ(memory_stats().live, live);
  EXPECT_EQ(c.front(), 30.0f);
  EXPECT_EQ(c.back(), 30.0f);
}

}  // namespace
}  // namespace ebb::cpu
