// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ebb/ops/create.h"
#include "ebb/ops/elementwise.h"

namespace ebb {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline Tensor row(const std::vector<double>& v, DType dtype = DType::f64) {
  return cast(from_data(v, Shape{static_cast<std::int64_t>(v.size())}), dtype);
}
inline Tensor integers(const std::vector<std::int64_t>& v, DType dtype = DType::i64) {
  return cast(from_data(v, Shape{static_cast<std::int64_t>(v.size())}), dtype);
}

// Element by element: NaN equals NaN, infinities equal themselves, numbers to `tolerance` of the expected one.
inline void expect_values(const Tensor& t, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> got = t.to_vector<double>();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(got[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i]))) << "element " << i;
    }
  }
}

}  // namespace ebb
