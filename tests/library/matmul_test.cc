// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>

#include "arrays.h"
#include "cpu/gemm/gemm.h"
#include "expect_error.h"

namespace ebb::cpu {
namespace {

Shape product_shape(const Shape& a, const Shape& b) { return a.with(a.rank() - 1, b[b.rank() - 1]); }

// Σ_k a·b in double. Inputs are small multiples of ½, so the sum is exact and every order of adding gives it.
double reference(const Array& a, const Array& b, const Position& p) {
  const int rank = a.shape().rank();
  Position at_a = p, at_b = p;
  double sum = 0;
  for (std::int64_t k = 0; k < a.shape()[rank - 1]; ++k) {
    at_a[static_cast<std::size_t>(rank - 1)] = k;
    at_b[static_cast<std::size_t>(rank - 2)] = k;
    sum += a.get(at_a) * b.get(at_b);
  }
  return sum;
}

void expect_product(const Array& a, const Array& b) {
  const Array c = run_call(Op::matmul, {}, {&a, &b}, a.dtype(), product_shape(a.shape(), b.shape()));
  Array expected(a.dtype(), c.shape());
  for_each_position(c.shape(), [&](const Position& p) {
    const double sum = reference(a, b, p);
    expected.set(p, a.dtype() == DType::u8 ? static_cast<double>(static_cast<std::int64_t>(sum) & 255) : sum);
    ASSERT_EQ(c.get(p), expected.get(p)) << name(a.dtype()) << a.shape().str() << b.shape().str();
  });
}

TEST(Matmul, EveryDtypeShapeAndLayout) {
  std::mt19937 rng(1);
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 4}, {4, 5}},
      {{1, 7}, {7, 9}},
      {{9, 7}, {7, 1}},
      {{1, 5}, {5, 1}},
      {{4, 1}, {1, 6}},
      {{1, 1}, {1, 1}},
      {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},
      {{2, 3}, {3, 0}},
      {{3, 17, 5}, {3, 5, 19}},
      {{2, 3, 4, 5}, {2, 3, 5, 6}},
      {{4, 1, 8}, {4, 8, 3}},
      {{33, 65}, {65, 31}},
      {{0, 2, 3}, {0, 3, 2}},
  };
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::bool_) continue;
    for (const auto& [sa, sb] : shapes) {
      for (const Layout la : kLayouts) {
        for (const Layout lb : kLayouts) {
          const Array a = random_array(dtype, sa, la, rng), b = random_array(dtype, sb, lb, rng);
          expect_product(a, b);
        }
      }
    }
  }
}

// Sizes at which products are cut: in rows, in columns, in depth, and both vector forms.
TEST(Matmul, PiecesMeetWithoutSeams) {
  std::mt19937 rng(2);
  const std::pair<Shape, Shape> shapes[] = {
      {{300, 130}, {130, 270}}, {{1, 700}, {700, 900}},   {{900, 700}, {700, 1}},
      {{5, 9000}, {9000, 7}},   {{1, 70000}, {70000, 3}}, {{3, 90, 80}, {3, 80, 150}},
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
    for (const auto& [sa, sb] : shapes) {
      for (const Layout layout : {Layout::dense, Layout::transposed, Layout::repeated}) {
        // Values of -1, 0 and 1: sums of tens of thousands stay exact in f32.
        Array a = random_array(dtype, sa, layout, rng, -2, 2), b = random_array(dtype, sb, layout, rng, -2, 2);
        expect_product(a, b);
      }
    }
  }
}

// A sum of k = 1100 products of normals is about √k = 33; its f32 error is up to some √k
// roundings of that size.
TEST(Matmul, RandomNumbersAreAsCloseAsTheDtypeAllows) {
  std::mt19937 rng(3);
  std::normal_distribution<double> normal;
  for (const DType dtype : kFloats) {
    const double rounding = dtype == DType::f64   ? 1e-14
                            : dtype == DType::f32 ? 4e-6
                            : dtype == DType::f16 ? 6e-4
                                                  : 5e-3;
    Array a(dtype, {67, 1100}), b(dtype, {1100, 45}, Layout::transposed);
    a.fill([&](const Position&) { return normal(rng); });
    b.fill([&](const Position&) { return normal(rng); });
    const Array c = run_call(Op::matmul, {}, {&a, &b}, dtype, {67, 45});
    for_each_position(c.shape(), [&](const Position& p) {
      const double expected = reference(a, b, p);
      ASSERT_NEAR(c.get(p), expected, rounding * (std::fabs(expected) + 33)) << name(dtype);
    });
  }
}

// Factors of bf16 or f16 and a result of f32: the unrounded sums. Small integers: they are exact.
TEST(Matmul, HalvesGiveTheirSumsWhereAskedTo) {
  std::mt19937 rng(7);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto& [sa, sb] :
         {std::pair<Shape, Shape>{{33, 1300}, {1300, 21}}, {{1, 300}, {300, 40}}, {{2, 9, 5}, {2, 5, 8}}}) {
      const Array a = random_array(dtype, sa, Layout::transposed, rng, -2, 2);
      const Array b = random_array(dtype, sb, Layout::dense, rng, -2, 2);
      const Array c = run_call(Op::matmul, {}, {&a, &b}, DType::f32, product_shape(sa, sb));
      for_each_position(c.shape(), [&](const Position& p) { ASSERT_EQ(c.get(p), reference(a, b, p)) << name(dtype); });
    }
  }
}

TEST(Matmul, IntegersWrap) {
  Array a(DType::i32, {1, 2}), b(DType::i32, {2, 1});
  a.fill([](const Position&) { return 2147483647.0; });
  b.fill([](const Position&) { return 2.0; });
  EXPECT_EQ(run_call(Op::matmul, {}, {&a, &b}, DType::i32, {1, 1}).get({0, 0}), -4.0);
}

TEST(Matmul, BroadcastBatchIsMoreRows) {
  std::mt19937 rng(4);
  const Array a = random_array(DType::f32, {6, 5, 8}, Layout::dense, rng);
  const Array b = random_array(DType::f32, {6, 8, 4}, Layout::repeated, rng);
  expect_product(a, b);
}

TEST(Matmul, BoolIsRefused) {
  Array a(DType::bool_, {1, 1}), b(DType::bool_, {1, 1});
  EXPECT_THROW_KIND(run_call(Op::matmul, {}, {&a, &b}, DType::bool_, {1, 1}), type, "matmul: bool matrices");
}

template <class T>
void check_gemm(T alpha, T beta) {
  std::mt19937 rng(5);
  const std::int64_t m = 150, n = 260, k = 70, c_stride = n + 3;
  std::uniform_int_distribution<int> numbers(-4, 4);
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
      c(static_cast<std::size_t>(m * c_stride));
  for (auto* v : {&a, &b, &c}) {
    for (T& x : *v) x = static_cast<T>(numbers(rng));
  }
  if (beta == T(0)) std::fill(c.begin(), c.end(), std::numeric_limits<T>::quiet_NaN());
  const std::vector<T> before = c;
  std::vector<T> serial = c;
  gemm<T>(m, n, k, alpha, {a.data(), 1, m}, {b.data(), n, 1}, beta, c.data(), c_stride);
  gemm_serial<T>(m, n, k, alpha, {a.data(), 1, m}, {b.data(), n, 1}, beta, serial.data(), c_stride);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < c_stride; ++j) {
      const auto at = static_cast<std::size_t>(i * c_stride + j);
      if (j >= n) {
        EXPECT_EQ(std::memcmp(&c[at], &before[at], sizeof(T)), 0) << "written past the end of a row";
        continue;
      }
      T sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a[static_cast<std::size_t>(p * m + i)] * b[static_cast<std::size_t>(p * n + j)];
      const T expected = alpha * sum + (beta == T(0) ? T(0) : beta * before[at]);
      ASSERT_EQ(c[at], expected);
      ASSERT_EQ(serial[at], expected);
    }
  }
}

TEST(Gemm, ScalesAddsAndKeepsToItsRows) {
  for (const double beta : {0.0, 1.0, -2.0}) {
    check_gemm<float>(2.0f, static_cast<float>(beta));
    check_gemm<double>(1.0, beta);
  }
}

// With beta = 0 the content of C does not matter, not even NaN; also for the vector forms.
TEST(Gemm, VectorFormsDoNotReadTheirOutput) {
  const std::vector<float> a(64, 1.0f), b(64, 2.0f);
  std::vector<float> c(8, std::numeric_limits<float>::quiet_NaN());
  gemm_serial<float>(1, 8, 8, 1.0f, {a.data(), 8, 1}, {b.data(), 8, 1}, 0.0f, c.data(), 8);
  for (const float x : c) EXPECT_EQ(x, 16.0f);
  std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
  gemm_serial<float>(8, 1, 8, 1.0f, {a.data(), 8, 1}, {b.data(), 1, 1}, 0.0f, c.data(), 1);
  for (const float x : c) EXPECT_EQ(x, 16.0f);
}

}  // namespace
}  // namespace ebb::cpu
