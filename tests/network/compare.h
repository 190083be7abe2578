// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "ebb/ebb.h"

namespace ebb::testing {

inline Tensor values(const Shape& shape, unsigned seed, DType dtype = DType::f64) {
  manual_seed(seed);
  return randn(shape, dtype).eval();
}

inline void expect_close(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<double> x = cast(a, DType::f64).to_vector(), y = cast(b, DType::f64).to_vector();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}

}  // namespace ebb::testing
