// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/tile/row_sums.h"
#include "cpu/tile/simd_targets.h"
// After the list of targets.
#include <hwy/targets.h>

// Sums of numbered rows against plain loops, on every target.
namespace ebb::cpu {
namespace {

template <class Body>
void with_every_target(Body body) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

// As documented: in order and from zero, f32 in f64 and bf16 in f32.
float plain_sum(const NumberedRows<float>& rows, std::size_t column) {
  double sum = 0;
  for (std::size_t k = 0; k < rows.count; ++k)
    sum += rows.data[rows.number[k] * rows.stride + static_cast<std::int64_t>(column)];
  return static_cast<float>(sum);
}
float plain_sum(const NumberedRows<BFloat16>& rows, std::size_t column) {
  float sum = 0;
  for (std::size_t k = 0; k < rows.count; ++k)
    sum += to_float(rows.data[rows.number[k] * rows.stride + static_cast<std::int64_t>(column)]);
  return sum;
}

template <class T>
T summand(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return bfloat16_from(x);
  } else {
    return x;
  }
}

template <class T>
void compare_row_sums() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  constexpr std::int64_t kRows = 9;
  const float specials[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            -0.0f,
                            1e-40f,
                            3e38f};
  for (std::size_t columns : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 300}) {
    const std::int64_t stride = static_cast<std::int64_t>(columns) + 3;
    // Ends with the last column of the last row, where an access beyond it would be found by the sanitizers.
    std::vector<T> data(static_cast<std::size_t>((kRows - 1) * stride) + columns);
    for (T& x : data) x = summand<T>(random() % 50 == 0 ? specials[random() % std::size(specials)] : normal(random));
    for (std::size_t count : {0, 1, 2, 5, 40}) {
      std::vector<std::int64_t> order(count);
      for (auto& k : order) k = static_cast<std::int64_t>(random() % kRows);
      if (count > 1) order[1] = order[0], order.back() = kRows - 1;
      const NumberedRows<T> rows{data.data(), stride, order.data(), count};
      std::vector<float> sums(columns + 1, -7);
      sum_rows(sums.data(), rows, columns);
      for (std::size_t c = 0; c < columns; ++c) {
        const float want = plain_sum(rows, c);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(sums[c])) << columns << " columns, " << count << " rows, column " << c;
        } else {
          ASSERT_EQ(std::memcmp(&sums[c], &want, sizeof(want)), 0)
              << columns << " columns, " << count << " rows, column " << c << ": " << sums[c] << ", not " << want;
        }
      }
      ASSERT_EQ(sums[columns], -7) << "written behind " << columns << " columns";
    }
  }
}

TEST(RowSums, AreThoseOfPlainLoops) {
  with_every_target([] {
    compare_row_sums<float>();
    compare_row_sums<BFloat16>();
  });
}

}  // namespace
}  // namespace ebb::cpu
