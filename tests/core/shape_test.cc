// SPDX-License-Identifier: MIT
#include "ebb/shape.h"

#include <cstdint>

#include "core/format_error.h"
#include "expect_error.h"

namespace ebb {
namespace {

constexpr std::int64_t kBig = std::int64_t{1} << 40;

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape({2, 3, 4}).numel(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).numel(), 0);
  EXPECT_EQ(Shape({1, 2, 3, 4, 5, 6, 7, 8}).numel(), 40320);
}

TEST(Shape, RefusesWhatCannotBeAddressed) {
  EXPECT_EQ(Shape({std::int64_t{1} << 59}).numel(), std::int64_t{1} << 59);
  EXPECT_THROW_MESSAGE(Shape({std::int64_t{1} << 60}), "more elements than memory can address");  // 2^63 bytes
  EXPECT_THROW_MESSAGE(Shape({kBig, kBig}), "[1099511627776, 1099511627776] has more elements");
  EXPECT_THROW_MESSAGE(Shape({INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}), "more elements");
  // As in NumPy an empty tensor's other sizes must still multiply to something that fits.
  EXPECT_THROW_MESSAGE(Shape({kBig, kBig, 0}), "more elements");
  EXPECT_THROW_MESSAGE(Shape({0, kBig, kBig}), "more elements");
  EXPECT_EQ(Shape({kBig, 0}).numel(), 0);
}

TEST(Shape, RefusesNegativeSizesAndTooManyDimensions) {
  EXPECT_THROW_MESSAGE(Shape({2, -3}), "size -3 of axis 1 in [2, -3] is negative");
  EXPECT_THROW_MESSAGE(Shape({0, -1}), "size -1 of axis 1");
  EXPECT_THROW_MESSAGE(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), "9 dimensions requested, at most 8");
  EXPECT_THROW_MESSAGE(Shape(std::vector<std::int64_t>(1000, 1)), "1000 dimensions");
}

TEST(Shape, ComparesSizesAndRank) {
  EXPECT_EQ(Shape({2, 3}), Shape(std::vector<std::int64_t>{2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  // Leftovers of a longer shape must not matter.
  EXPECT_EQ(Shape({2, 3, 4}).without(2), Shape({2, 3}));
}

TEST(Shape, ReplacesRemovesAndInsertsAnAxis) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.with(1, 7), Shape({2, 7, 4}));
  EXPECT_EQ(s.without(0), Shape({3, 4}));
  EXPECT_EQ(s.without(2), Shape({2, 3}));
  EXPECT_EQ(s.inserted(0, 9), Shape({9, 2, 3, 4}));
  EXPECT_EQ(s.inserted(3, 9), Shape({2, 3, 4, 9}));
  EXPECT_EQ(Shape().inserted(0, 5), Shape({5}));
  EXPECT_EQ(s.with(1, 7).numel(), 56);
  EXPECT_THROW_MESSAGE(Shape({1, 1, 1, 1, 1, 1, 1, 1}).inserted(0, 1), "8 dimensions already");
  EXPECT_THROW_MESSAGE(s.with(0, kBig).with(1, kBig), "more elements");
  EXPECT_THROW_KIND(s.without(3), index, "axis 3 does not exist");
}

TEST(Shape, PrintsAsAList) {
  EXPECT_EQ(Shape().str(), "[]");
  EXPECT_EQ(Shape({2, 3}).str(), "[2, 3]");
  EXPECT_EQ(fmt::format("{} of {}", Shape({5}), DType::bf16), "[5] of bf16");
}

TEST(Strides, OfAContiguousTensorAreRowMajor) {
  const Strides s = contiguous_strides({2, 3, 4});
  EXPECT_EQ(s[0], 12);
  EXPECT_EQ(s[1], 4);
  EXPECT_EQ(s[2], 1);
  const Strides empty = contiguous_strides({2, 0, 4});
  EXPECT_EQ(empty[0], 4);
}

TEST(Strides, AreContiguousWhateverTheStrideOfSizeOneAxes) {
  EXPECT_TRUE(is_contiguous({2, 3}, contiguous_strides({2, 3})));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, Strides{{3, 77, 1}}));
  EXPECT_TRUE(is_contiguous({2, 0}, Strides{{-5, 9}}));
  EXPECT_FALSE(is_contiguous({2, 3}, Strides{{1, 2}}));  // transposed
  EXPECT_FALSE(is_contiguous({2, 3}, Strides{{0, 1}}));  // repeated
  EXPECT_FALSE(is_contiguous({2, 3}, Strides{{6, 2}}));  // every second
  EXPECT_FALSE(is_contiguous({3}, Strides{{-1}}));       // backwards
}

TEST(Broadcast, AlignsAtTheRight) {
  EXPECT_EQ(broadcast_shapes("add", {2, 3}, {2, 3}), Shape({2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {2, 3}, {3}), Shape({2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {2, 1}, {1, 3}), Shape({2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {}, {4}), Shape({4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {}), Shape());
  EXPECT_EQ(broadcast_shapes("add", {5, 1, 3}, {4, 1}), Shape({5, 4, 3}));
  EXPECT_EQ(broadcast_shapes("add", {1}, {0}), Shape({0}));
  EXPECT_EQ(broadcast_shapes("add", {0, 3}, {1, 3}), Shape({0, 3}));
}

TEST(Broadcast, NamesTheSizesThatDiffer) {
  EXPECT_THROW_MESSAGE(broadcast_shapes("add", {2, 3}, {4, 3}),
                       "add: shapes [2, 3] and [4, 3] do not broadcast: sizes 2 and 4 of axis 0 differ");
  EXPECT_THROW_MESSAGE(broadcast_shapes("mul", {2, 3}, {2}),
                       "mul: shapes [2, 3] and [2] do not broadcast: sizes 3 and 2 of axis -1 differ");
  EXPECT_THROW_MESSAGE(broadcast_shapes("add", {0}, {2}), "sizes 0 and 2");
  EXPECT_THROW_MESSAGE(broadcast_shapes("add", {kBig, 1}, {1, kBig}), "add: shapes [1099511627776, 1] and");
}

TEST(Axis, CountsFromTheEndWhenNegative) {
  EXPECT_EQ(normalize_axis("sum", 0, 3), 0);
  EXPECT_EQ(normalize_axis("sum", 2, 3), 2);
  EXPECT_EQ(normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(normalize_axis("sum", -3, 3), 0);
}

TEST(Axis, ThatDoesNotExistIsAnIndexError) {
  EXPECT_THROW_KIND(normalize_axis("sum", 3, 3), index, "sum: axis 3 does not exist, 3 dimensions allow -3 to 2");
  EXPECT_THROW_KIND(normalize_axis("sum", -4, 3), index, "axis -4 does not exist");
  EXPECT_THROW_KIND(normalize_axis("sum", 1, 1), index, "1 dimension allows -1 to 0");
  EXPECT_THROW_KIND(normalize_axis("sum", 0, 0), index, "a scalar has no axes");
  EXPECT_THROW_KIND(normalize_axis("sum", INT64_MIN, 2), index, "does not exist");
}

}  // namespace
}  // namespace ebb
