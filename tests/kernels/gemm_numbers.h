// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/gemm/gemm.h"

// Matrices for tests of products: numbers of any dtype in any layout, and their expected product.
namespace ebb::cpu {

enum class Lies { by_rows, by_cols, apart, reversed };  // reversed: rows and columns run backwards, no stride is 1
inline constexpr Lies kWays[] = {Lies::by_rows, Lies::by_cols, Lies::apart, Lies::reversed};

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A matrix of numbers of S in memory that ends where the matrix does, so that sanitizers see a read past it.
template <class S>
struct Numbers {
  std::int64_t rows, cols, row_stride, col_stride, first = 0;
  std::vector<S> memory;

  Numbers(std::int64_t m, std::int64_t n, Lies lies) : rows(m), cols(n) {
    row_stride = lies == Lies::by_cols ? 1 : lies == Lies::apart ? 2 * n + 3 : n;
    col_stride = lies == Lies::by_cols ? m : lies == Lies::apart ? 2 : 1;
    if (lies == Lies::reversed) {
      first = m * n - 1;
      row_stride = -n;
      col_stride = -1;
    }
    const std::int64_t end = lies == Lies::reversed ? m * n : (m - 1) * row_stride + (n - 1) * col_stride + 1;
    memory.resize(m == 0 || n == 0 ? 0 : at(end));
  }
  S& operator()(std::int64_t i, std::int64_t j) { return memory[at(first + i * row_stride + j * col_stride)]; }
  const S& operator()(std::int64_t i, std::int64_t j) const {
    return memory[at(first + i * row_stride + j * col_stride)];
  }
  template <class T>
  Matrix<T> matrix() const {
    return {memory.data() + first, row_stride, col_stride, dtype_of_type<S>::value};
  }
};

inline float value(float x) { return x; }
inline double value(double x) { return x; }
inline float value(Half x) { return to_float(x); }
inline float value(BFloat16 x) { return to_float(x); }
inline void set(float& to, double x) { to = static_cast<float>(x); }
inline void set(double& to, double x) { to = x; }
inline void set(Half& to, double x) { to = half_from(static_cast<float>(x)); }
inline void set(BFloat16& to, double x) { to = bfloat16_from(static_cast<float>(x)); }

template <class S>
Numbers<S> random_numbers(std::int64_t m, std::int64_t n, Lies lies, std::mt19937& rng) {
  std::normal_distribution<double> normal;
  Numbers<S> x(m, n, lies);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) set(x(i, j), normal(rng));
  }
  return x;
}

template <class T>
using Product = void (*)(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*,
                         std::int64_t);

// Each element of a product, in a wider type, with the sum of the sizes of its products. Columns are the inner
// loop, which the compiler turns into vectors: most of the time of these tests is spent here.
template <class Wide>
struct Reference {
  std::vector<Wide> sums, sizes;

  template <class S>
  Reference(const Numbers<S>& a, const Numbers<S>& b) : sums(at(a.rows * b.cols)), sizes(sums) {
    const std::size_t n = at(b.cols);
    std::vector<Wide> right(at(b.rows * b.cols));
    for (std::int64_t p = 0; p < b.rows; ++p) {
      for (std::int64_t j = 0; j < b.cols; ++j) right[at(p) * n + at(j)] = static_cast<Wide>(value(b(p, j)));
    }
    for (std::int64_t i = 0; i < a.rows; ++i) {
      Wide* const sum = sums.data() + at(i) * n;
      Wide* const size = sizes.data() + at(i) * n;
      for (std::int64_t p = 0; p < a.cols; ++p) {
        const Wide left = static_cast<Wide>(value(a(i, p)));
        const Wide* const row = right.data() + at(p) * n;
        for (std::size_t j = 0; j < n; ++j) {
          const Wide one = left * row[j];
          sum[j] += one;
          size[j] += std::fabs(one);
        }
      }
    }
  }
};

// The bound of a sum of k products, in any order: |error| <= (k + 2)·u·Σ|a·b|, and as much for what was in C.
template <class T, class S>
void expect_close(const Numbers<S>& a, const Numbers<S>& b, T alpha, T beta, Product<T> product, std::mt19937& rng) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;
  const std::int64_t m = a.rows, n = b.cols, k = a.cols, stride = n + 5;
  std::vector<T> c(at(m * stride));
  std::normal_distribution<double> normal;
  for (T& x : c) x = beta == T(0) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(normal(rng));
  const std::vector<T> before = c;
  product(m, n, k, alpha, a.template matrix<T>(), b.template matrix<T>(), beta, c.data(), stride);
  const Reference<Wide> exact(a, b);
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const Wide sum = exact.sums[at(i * n + j)];
      const double size = static_cast<double>(exact.sizes[at(i * n + j)]);
      const T old = before[at(i * stride + j)];
      const double expected = static_cast<double>(alpha * sum) + (beta == T(0) ? 0.0 : static_cast<double>(beta * old));
      const double scale = std::fabs(alpha) * size + (beta == T(0) ? 0.0 : std::fabs(beta * old));
      ASSERT_NEAR(c[at(i * stride + j)], expected, static_cast<double>(k + 3) * unit * scale)
          << m << "x" << n << "x" << k << " at " << i << ", " << j;
    }
    for (std::int64_t j = n; j < stride; ++j)
      ASSERT_EQ(std::memcmp(&c[at(i * stride + j)], &before[at(i * stride + j)], sizeof(T)), 0) << "beyond the row";
  }
}

struct Size {
  std::int64_t m, n, k;
};

// A NaN in A spoils its row and no other, an infinity in B its column, even as the very last number: the zeros after it
// never turn it into NaN.
template <class S>
void expect_nan_and_infinity_stay(const std::vector<Size>& sizes) {
  std::mt19937 rng(4);
  for (const Size& s : sizes) {
    for (const Lies lies : kWays) {
      auto a = random_numbers<S>(s.m, s.k, lies, rng), b = random_numbers<S>(s.k, s.n, lies, rng);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t p = 0; p < s.k; ++p) set(a(i, p), std::fabs(value(a(i, p))) + 0.1);
      }
      const std::int64_t row = s.m - 1, col = s.n - 1;
      if (s.m > 1) set(a(row, s.k / 2), std::numeric_limits<double>::quiet_NaN());
      set(b(s.k - 1, col), -std::numeric_limits<double>::infinity());
      std::vector<float> c(at(s.m * s.n));
      gemm<float>(s.m, s.n, s.k, 1.0f, a.template matrix<float>(), b.template matrix<float>(), 0.0f, c.data(), s.n);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          const float x = c[at(i * s.n + j)];
          if (s.m > 1 && i == row) {
            ASSERT_TRUE(std::isnan(x)) << i << ", " << j;
          } else if (j == col) {
            ASSERT_EQ(x, -std::numeric_limits<float>::infinity()) << i << ", " << j;
          } else {
            ASSERT_TRUE(std::isfinite(x)) << i << ", " << j;
          }
        }
      }
    }
  }
}

}  // namespace ebb::cpu
