// SPDX-License-Identifier: MIT
#include "ebb/dtype.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ebb/tensor.h"
#include "expect_error.h"

namespace ebb {
namespace {

constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                          DType::i64, DType::i32, DType::u8,  DType::bool_};

TEST(DType, HasANameThatLeadsBackToItAndASize) {
  const char* names[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
  const std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 1, 1};
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(name(kAll[i]), names[i]);
    EXPECT_EQ(size_of(kAll[i]), sizes[i]);
    EXPECT_EQ(dtype_from_name(names[i]), kAll[i]);
  }
  EXPECT_THROW_KIND(dtype_from_name("float"), type, "\"float\" is not a dtype");
}

TEST(DType, PromotesByTheTable) {
  using enum DType;
  // Row and column in the order of the enum.
  const DType table[8][8] = {
      {f64, f64, f64, f64, f64, f64, f64, f64},  {f64, f32, f32, f32, f32, f32, f32, f32},
      {f64, f32, f16, f32, f16, f16, f16, f16},  {f64, f32, f32, bf16, bf16, bf16, bf16, bf16},
      {f64, f32, f16, bf16, i64, i64, i64, i64}, {f64, f32, f16, bf16, i64, i32, i32, i32},
      {f64, f32, f16, bf16, i64, i32, u8, u8},   {f64, f32, f16, bf16, i64, i32, u8, bool_},
  };
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) EXPECT_EQ(promote(kAll[a], kAll[b]), table[a][b]) << name(kAll[a]) << name(kAll[b]);
  }
}

TEST(Scalar, TakesTheDTypeOfTheTensorWhereItCan) {
  for (DType d : kAll) {
    EXPECT_EQ(Scalar(true).dtype_beside(d), d);
    EXPECT_EQ(Scalar(3).dtype_beside(d), d == DType::bool_ ? DType::i64 : d);
    EXPECT_EQ(Scalar(0.5).dtype_beside(d), is_floating(d) ? d : DType::f32);
  }
}

// The value of a format with `fraction_bits` and exponent bias `bias`, by the definition of IEEE 754.
double value_of(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

struct HalfFormat {
  static constexpr int fraction_bits = 10, bias = 15;
  static std::uint16_t round(float x) { return half_from(x).bits; }
  static float widen(std::uint16_t bits) { return to_float(Half{bits}); }
};
struct BFloat16Format {
  static constexpr int fraction_bits = 7, bias = 127;
  static std::uint16_t round(float x) { return bfloat16_from(x).bits; }
  static float widen(std::uint16_t bits) { return to_float(BFloat16{bits}); }
};

template <class Format>
class HalfFormats : public testing::Test {};
using Formats = testing::Types<HalfFormat, BFloat16Format>;
TYPED_TEST_SUITE(HalfFormats, Formats);

TYPED_TEST(HalfFormats, WidenEveryPatternExactlyAndRoundItBack) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = value_of(bits, TypeParam::fraction_bits, TypeParam::bias);
    const float wide = TypeParam::widen(bits);
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << i;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      ASSERT_TRUE(std::isnan(TypeParam::widen(TypeParam::round(wide)))) << i;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << i;
      ASSERT_EQ(TypeParam::round(wide), bits) << i;
    }
  }
}

// Between each value and the next: the midpoint goes to the even one, its neighbours to the nearer one. The largest
// finite value's successor is infinity, and overflow begins at the midpoint to what would be the next power of two.
TYPED_TEST(HalfFormats, RoundToNearestEvenBetweenEveryPairOfNeighbours) {
  const int infinity = ((1 << (15 - TypeParam::fraction_bits)) - 1) << TypeParam::fraction_bits;
  for (int i = 0; i < infinity; ++i) {
    const auto lower = static_cast<std::uint16_t>(i), upper = static_cast<std::uint16_t>(i + 1);
    const double a = value_of(lower, TypeParam::fraction_bits, TypeParam::bias);
    const double before = value_of(static_cast<std::uint16_t>(i - 1), TypeParam::fraction_bits, TypeParam::bias);
    const double b = upper == infinity ? 2 * a - before : value_of(upper, TypeParam::fraction_bits, TypeParam::bias);
    const auto middle = static_cast<float>(0.5 * a + 0.5 * b);
    ASSERT_EQ(static_cast<double>(middle), 0.5 * a + 0.5 * b);
    ASSERT_EQ(TypeParam::round(middle), i % 2 == 0 ? lower : upper) << i;
    ASSERT_EQ(TypeParam::round(std::nextafterf(middle, 0.0f)), lower) << i;
    ASSERT_EQ(TypeParam::round(std::nextafterf(middle, std::numeric_limits<float>::infinity())), upper) << i;
    ASSERT_EQ(TypeParam::round(-middle), 0x8000 | (i % 2 == 0 ? lower : upper)) << i;
  }
}

// Any float rounds to a neighbour, and to none that is farther away than the other.
TYPED_TEST(HalfFormats, RoundRandomPatternsToTheNearestValue) {
  std::mt19937 generator(1);
  const int infinity = ((1 << (15 - TypeParam::fraction_bits)) - 1) << TypeParam::fraction_bits;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    const std::uint16_t bits = TypeParam::round(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(TypeParam::widen(bits)));
      continue;
    }
    ASSERT_EQ((bits & 0x8000) != 0, std::signbit(x));
    if ((bits & 0x7fff) == infinity) continue;  // where overflow begins is the other test's
    const double magnitude = std::fabs(static_cast<double>(x));
    auto distance = [&](int pattern) {
      return std::fabs(value_of(static_cast<std::uint16_t>(pattern), TypeParam::fraction_bits, TypeParam::bias) -
                       magnitude);
    };
    const int pattern = bits & 0x7fff;
    if (pattern > 0) {
      ASSERT_LE(distance(pattern), distance(pattern - 1)) << x;
    }
    if (pattern + 1 < infinity) {
      ASSERT_LE(distance(pattern), distance(pattern + 1)) << x;
    }
  }
}

TYPED_TEST(HalfFormats, KeepNaNWhateverItsPayload) {
  for (std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u, 0x7f801fffu, 0x7f80ffffu}) {
    const std::uint16_t narrow = TypeParam::round(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(TypeParam::widen(narrow))) << bits;
    EXPECT_EQ((narrow & 0x8000) != 0, (bits & 0x80000000u) != 0);
  }
}

}  // namespace
}  // namespace ebb
