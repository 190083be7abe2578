// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/ebb.h"
#include "expect_error.h"

namespace ebb {
namespace {

TEST(Digits, AreInkBetweenZeroAndOneWithLabelsOfTen) {
  const Digits d = make_digits(300, 4);
  EXPECT_EQ(d.images.shape(), Shape({300, 784}));
  EXPECT_EQ(d.images.dtype(), DType::f32);
  EXPECT_EQ(d.labels.shape(), Shape({300}));
  EXPECT_EQ(d.labels.dtype(), DType::i64);
  EXPECT_GE(min(d.images).item(), 0);
  EXPECT_LE(max(d.images).item(), 1);
  // Every digit occurs, and every image has a stroke on it.
  EXPECT_EQ(sum(max(one_hot(d.labels, 10), 0)).item<std::int64_t>(), 10);
  EXPECT_GT(min(sum(d.images, 1)).item(), 15);
}

TEST(Digits, ImageIsAFunctionOfSeedAndIndexAlone) {
  const Digits few = make_digits(70, 9), many = make_digits(200, 9), other = make_digits(70, 10);
  EXPECT_TRUE(all(few.images == many.images.slice(0, 0, 70)).item<bool>());
  EXPECT_TRUE(all(few.labels == many.labels.slice(0, 0, 70)).item<bool>());
  EXPECT_FALSE(all(few.images == other.images).item<bool>());
  const int threads = num_threads();
  set_num_threads(1);
  EXPECT_TRUE(all(few.images == make_digits(70, 9).images).item<bool>());
  set_num_threads(threads);
}

TEST(Digits, NoneAreFine) { EXPECT_EQ(make_digits(0).images.shape(), Shape({0, 784})); }

TEST(Digits, ANegativeNumberIsRefused) {
  EXPECT_THROW_MESSAGE(make_digits(-1), "make_digits: the number of images must not be negative, got -1");
}

}  // namespace
}  // namespace ebb
