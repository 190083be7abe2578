// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "ebb/ops.h"

// Compares a gradient rule with central differences of its operation, in f64 and with a cotangent that is not constant.
namespace ebb::testing {

using Function = std::function<Tensor(const Tensor&)>;

// Numbers without pattern in (−1, 1), away from 0.
inline std::vector<double> some_numbers(std::int64_t n, double phase = 0) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) {
    const double s = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 + phase) * 43758.5453;
    const double u = s - std::floor(s);
    v.push_back(u < 0.5 ? u - 0.95 : u - 0.05);
  }
  return v;
}
inline Tensor some(const Shape& shape, double phase = 0) {
  return from_data(some_numbers(shape.numel(), phase), shape);
}

// backward(grad) must be the gradient of sum(f(x)·grad) with respect to x.
inline void expect_gradient(const Function& f, const Function& backward, const Tensor& x, double tolerance = 1e-6) {
  const Tensor grad = some(f(x).shape(), 0.7);
  const Tensor analytic = backward(grad);
  ASSERT_EQ(analytic.shape(), x.shape());
  ASSERT_EQ(analytic.dtype(), x.dtype());
  const std::vector<double> a = analytic.to_vector(), g = grad.to_vector(), at = x.to_vector();
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double h = 6e-6 * std::max(1.0, std::abs(at[i]));
    auto value = [&](double step) {
      std::vector<double> moved = at;
      moved[i] += step;
      const std::vector<double> y = f(from_data(moved, x.shape())).to_vector();
      double total = 0;
      for (std::size_t k = 0; k < y.size(); ++k) total += y[k] * g[k];
      return total;
    };
    const double numeric = (value(h) - value(-h)) / (2 * h);
    EXPECT_NEAR(a[i], numeric, tolerance * (1 + std::abs(numeric)))
        << "element " << i << " of shape " << x.shape().str();
  }
}

inline void expect_shape_and_values(const Tensor& t, const Shape& shape, const std::vector<double>& expected,
                                    double tolerance = 0) {
  EXPECT_EQ(t.shape(), shape) << t.shape().str();
  const std::vector<double> v = t.to_vector();
  ASSERT_EQ(v.size(), expected.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(v[i])) << "element " << i;
    } else if (tolerance == 0 || std::isinf(expected[i])) {
      EXPECT_EQ(v[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(v[i], expected[i], tolerance) << "element " << i;
    }
  }
}

}  // namespace ebb::testing
