// SPDX-License-Identifier: MIT
// Products of factors rounded to eight bits: the rounding itself, the bound of the error, gradients.
#include "ebb/ops/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "test_device.h"

namespace ebb::testing {
namespace {

using Numbers = std::vector<double>;

struct Format {
  int mantissa, bias;
  double largest;
};
constexpr Format kE4M3{3, 7, 448}, kE5M2{2, 15, 57344};

// A line divided by the smallest power of two that makes its elements fit, rounded to the nearest number of the format.
Numbers rounded(const Numbers& line, const Format& f) {
  double most = 0;
  for (const double x : line) most = std::max(most, std::fabs(x));
  if (most == 0) return line;
  const double scale = std::exp2(std::ceil(std::log2(most / f.largest)));
  Numbers out;
  for (const double x : line) {
    int exponent = 0;
    std::frexp(x / scale, &exponent);
    const int unit = std::max(exponent - 1, 1 - f.bias) - f.mantissa;
    out.push_back(std::ldexp(std::nearbyint(std::ldexp(x / scale, -unit)), unit) * scale);
  }
  return out;
}

struct Matrix {
  std::int64_t rows, columns;
  Numbers x;
  double at(std::int64_t i, std::int64_t j) const { return x[static_cast<std::size_t>(i * columns + j)]; }
  Matrix turned() const {
    Matrix t{columns, rows, {}};
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) t.x.push_back(at(i, j));
    }
    return t;
  }
  Numbers row(std::int64_t i) const { return {x.begin() + i * columns, x.begin() + (i + 1) * columns}; }
};
Matrix matrix_of(const Tensor& t) { return {t.size(0), t.size(1), t.to_vector<double>()}; }

// a·bᵀ of these lines; of rounded ones if a format is given.
Matrix product(const Matrix& a, const Matrix& b, const Format* of_a = nullptr, const Format* of_b = nullptr) {
  Matrix c{a.rows, b.rows, {}};
  std::vector<Numbers> right;
  for (std::int64_t j = 0; j < b.rows; ++j) right.push_back(of_b ? rounded(b.row(j), *of_b) : b.row(j));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const Numbers left = of_a ? rounded(a.row(i), *of_a) : a.row(i);
    for (std::int64_t j = 0; j < b.rows; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < left.size(); ++k) sum += left[k] * right[static_cast<std::size_t>(j)][k];
      c.x.push_back(sum);
    }
  }
  return c;
}

// The largest |found − a·bᵀ| in units of the bound.
double share_of_bound(const Matrix& found, const Matrix& a, const Matrix& b, DType dtype, bool gradient) {
  const Matrix exact = product(a, b);
  const Fp8ErrorBound e = fp8_error_bound(a.columns, dtype, gradient);
  double worst = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.rows; ++j) {
      double both = 0, left = 0, right = 0, most_left = 0, most_right = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const double x = std::fabs(a.at(i, k)), y = std::fabs(b.at(j, k));
        both += x * y, left += x, right += y;
        most_left = std::max(most_left, x), most_right = std::max(most_right, y);
      }
      const double bound = e.products * both + e.left * most_left * right + e.right * most_right * left;
      worst = std::max(worst, std::fabs(found.at(i, j) - exact.at(i, j)) / (bound + 1e-300));
    }
  }
  return worst;
}

// Numbers of many magnitudes: some lines have elements that are negligible next to their largest.
Tensor spread(const Shape& shape, double width, DType dtype) {
  return cast(randn(shape) * exp(width * randn(shape)), dtype).eval();
}

TEST(Fp8, FactorsAreRoundedToTheNearest) {
  const std::vector<float> x{448,      447,        17,      18,      19,     20,     0.015625f, 0.0146f, 0.0009765625f,
                             0.00293f, 0.0009766f, -0.001f, 450,     -3.3f,  0,      -0.0f,     1e-9f,   17.5f,
                             99,       -217,       1.75f,   1.8125f, 0.3f,   464,    -1e30f,    3e29f,   1e28f,
                             7e27f,    -9e26f,     1e25f,   0,       2e29f,  1,      2,         3,       4,
                             1e-39f,   2e-39f,     -3e-39f, 0,       1e-40f, 5e-41f, 0,         0,       0,
                             1e-45f,   4e-39f,     6e-39f};
  const Tensor rows = reshape(from_data(x, Shape{48}), {4, 12});
  const Matrix got = matrix_of(fp8_linear(rows, eye(12))), given = matrix_of(rows);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(got.row(i), rounded(given.row(i), kE4M3)) << "row " << i;
  // The scale of subnormal numbers is at least 2^-126, and devices may drop subnormal results.
  for (const double v : got.row(3)) EXPECT_LT(std::fabs(v), 7e-39);
}

TEST(Fp8, ErrorStaysWithinTheBound) {
  manual_seed(3);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [m, k, n] :
         {std::array<std::int64_t, 3>{5, 7, 3}, {33, 64, 17}, {1, 300, 32}, {16, 16, 16}, {40, 129, 70}}) {
      const double width = dtype == DType::f16 ? 0.5 : 2;
      const Tensor x = variable(spread({m, k}, width, dtype)), w = variable(spread({n, k}, width, dtype));
      const Tensor y = fp8_linear(x, w), g = spread({m, n}, width, dtype);
      const Gradients d = backward(sum(cast(y, DType::f32) * cast(g, DType::f32)));
      const Matrix a = matrix_of(x), b = matrix_of(w), c = matrix_of(g);
      EXPECT_LE(share_of_bound(matrix_of(y), a, b, dtype, false), 1) << m << " x " << k << " x " << n;
      EXPECT_LE(share_of_bound(matrix_of(d[x]), c, b.turned(), dtype, true), 1);
      EXPECT_LE(share_of_bound(matrix_of(d[w]), c.turned(), a.turned(), dtype, true), 1);
    }
  }
}

// The bound is not trivially large: some element comes near, and exact factors have no error.
TEST(Fp8, BoundIsNearWhatHappens) {
  const Tensor x = full({1, 64}, 17.0), w = full({16, 64}, 1.0625);  // both halfway between two numbers
  const Matrix y = matrix_of(fp8_linear(x, w));
  EXPECT_GT(share_of_bound(y, matrix_of(x), matrix_of(w), DType::f32, false), 0.4);
  const Tensor exact = full({3, 64}, 15.0), one = full({16, 64}, -0.875);
  for (const double v : fp8_linear(exact, one).to_vector<double>()) EXPECT_EQ(v, -840);
}

TEST(Fp8, GradientsRoundCotangentsToE5M2) {
  manual_seed(5);
  const Tensor x = variable(randn({6, 20})), w = variable(randn({9, 20})), g = spread({6, 9}, 3, DType::f32);
  const Gradients d = backward(sum(fp8_linear(x, w) * g));
  const Matrix a = matrix_of(x), b = matrix_of(w), c = matrix_of(g);
  // Tensor cores of Hopper cut products of FP8 to 14 bits of the largest before they add them, here up to nine: 1.1e-4
  // of the largest sum were found on an H200. Rounded to another format, factors differ by some hundredths.
  const double share = on_gpu() ? 9 * 0x1p-13 : 1e-5;
  const auto expect_near = [&](const Matrix& found, const Matrix& wanted) {
    double most = 0;
    for (const double v : wanted.x) most = std::max(most, std::fabs(v));
    for (std::size_t i = 0; i < wanted.x.size(); ++i) EXPECT_NEAR(found.x[i], wanted.x[i], share * most);
  };
  expect_near(matrix_of(d[x]), product(c, b.turned(), &kE5M2, &kE4M3));
  expect_near(matrix_of(d[w]), product(c.turned(), a.turned(), &kE5M2, &kE4M3));
}

TEST(Fp8, InfinitiesAndNaNSpoilTheirRowAlone) {
  Tensor x = ones({3, 4});
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  x = where(tensor({{false}, {true}, {false}}), tensor({1.0, inf, 1.0, 1.0}), x);
  const Tensor w = where(tensor({{false}, {false}, {true}}), tensor({nan, 1.0, 1.0, 1.0}), ones({3, 4}));
  const Matrix y = matrix_of(fp8_linear(cast(x, DType::f32), cast(w, DType::f32)));
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      if (i == 1 || j == 2) {
        EXPECT_TRUE(std::isnan(y.at(i, j)));
      } else {
        EXPECT_EQ(y.at(i, j), 4);
      }
    }
  }
}

TEST(Fp8, HasBatchesBiasAndEmptyTensors) {
  manual_seed(7);
  const Tensor x = randn({2, 3, 16}), w = randn({5, 16}), b = randn({5});
  const Tensor flat = fp8_linear(reshape(x, {6, 16}), w);
  EXPECT_EQ(fp8_linear(x, w, b).to_vector<float>(), (reshape(flat, {2, 3, 5}) + b).to_vector<float>());
  EXPECT_EQ(fp8_linear(zeros({0, 4}), ones({3, 4})).shape(), (Shape{0, 3}));
  EXPECT_EQ(fp8_linear(zeros({2, 0}), ones({3, 0})).to_vector<float>(), std::vector<float>(6, 0.0F));
  const Tensor vector = fp8_linear(ones({4}), ones({3, 4}));
  EXPECT_EQ(vector.to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

TEST(Fp8, JacobiansAreThoseOfRows) {
  const Tensor w = ones({3, 4});
  const Tensor j = jacobian([&](const Tensor& x) { return fp8_linear(reshape(x, {1, 4}), w); }, ones({4}));
  for (const double v : j.to_vector<double>()) EXPECT_EQ(v, 1);
}

TEST(Fp8, SchedulePrintsTheBound) {
  const OnDevice host(Device{});
  const std::string text = print_schedule({fp8_linear(ones({32, 64}), ones({16, 64}))});
  EXPECT_NE(text.find("e4m3 x e4m3, error <= 0.129 sum|ab|"), std::string::npos) << text;
}

TEST(Fp8, NamesWhatDoesNotFit) {
  EXPECT_THROW_MESSAGE((void)fp8_linear(ones({2, 3}), ones({4, 5})),
                       "fp8_linear: an input of shape [2, 3] and a weight of shape [4, 5] do not fit; the weight is "
                       "[out, in]");
  EXPECT_THROW_MESSAGE((void)fp8_linear(ones({2, 3}, DType::f64), ones({4, 3}, DType::f64)),
                       "fp8_linear: needs f32, f16 or bf16, got f64 and f64; linear() multiplies other numbers");
}

}  // namespace
}  // namespace ebb::testing
