// SPDX-License-Identifier: MIT
#include "ebb/ops/elementwise.h"

#include <bit>

#include "ebb/backward/elementwise.h"
#include "expect_error.h"
#include "ops/values.h"

namespace ebb {
namespace {

// ---- dtypes and shapes ----------------------------------------------------------------------------------------------

TEST(Promotion, ANumberTakesTheTensorsDtypeWhereItCan) {
  EXPECT_EQ((row({1}, DType::f16) * 2).dtype(), DType::f16);
  EXPECT_EQ((row({1}, DType::f16) * 2.5).dtype(), DType::f16);
  EXPECT_EQ((integers({1}, DType::i32) * 2).dtype(), DType::i32);
  EXPECT_EQ((integers({1}) * 0.5).dtype(), DType::f32);
  EXPECT_EQ((row({1}, DType::f16) + row({1}, DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ((integers({1}) + row({1}, DType::f16)).dtype(), DType::f16);
  EXPECT_EQ((row({1}) > 0).dtype(), DType::bool_);
}

TEST(Promotion, ANumberThatTheDtypeCannotHoldIsRefused) {
  EXPECT_THROW_MESSAGE(integers({1}, DType::u8) + 300, "the number 300 does not fit a tensor of dtype u8");
}

TEST(Broadcast, AlignsAtTheRight) {
  const Tensor a = from_data(std::vector<double>{1, 2}, Shape{2, 1});
  EXPECT_EQ((a + row({10, 20, 30})).shape(), (Shape{2, 3}));
  expect_values(a + row({10, 20, 30}), {11, 21, 31, 12, 22, 32});
  EXPECT_THROW_MESSAGE(row({1, 2, 3}) + row({1, 2}), "[3] and [2] do not broadcast");
}

TEST(Broadcast, EmptyTensorsStayEmpty) {
  const Tensor none = from_data(std::vector<double>{}, Shape{0, 3});
  EXPECT_EQ((none + row({1, 2, 3})).shape(), (Shape{0, 3}));
  EXPECT_TRUE((none * 2).to_vector<double>().empty());
}

TEST(Integers, ArithmeticStaysIntegerAndDivisionIsTrueDivision) {
  const Tensor i = integers({-7, 0, 7});
  EXPECT_EQ((i + 1).dtype(), DType::i64);
  EXPECT_EQ((i / 2).dtype(), DType::f32);
  expect_values(i / 2, {-3.5, 0, 3.5});
  expect_values(floor_divide(i, 2), {-4, 0, 3});
  expect_values(remainder(i, 3), {2, 0, 1});
  expect_values(pow(i, 2), {49, 0, 49});
  expect_values(clamp(i, -1, 1), {-1, 0, 1});
  expect_values(exp(integers({0, 1})), {1, std::exp(1.0)}, 1e-6);
  EXPECT_THROW_MESSAGE(pow(i, -1), "an integer to the power -1 is not an integer");
}

TEST(Bools, AddAndMultiplyAreOrAndAnd) {
  const Tensor a = row({1, 1, 0, 0}) > 0, b = row({1, 0, 1, 0}) > 0;
  EXPECT_EQ((a + b).dtype(), DType::bool_);
  expect_values(a + b, {1, 1, 1, 0});
  expect_values(a * b, {1, 0, 0, 0});
  expect_values(where(a, b, logical_not(b)), {1, 0, 0, 1});
  expect_values(b < a, {0, 1, 0, 0});
  EXPECT_THROW_MESSAGE(a - b, "sub: not defined for two bool operands");
}

// ---- values at the edges --------------------------------------------------------------------------------------------

TEST(Selection, MaximumAndClampKeepNaN) {
  expect_values(maximum(row({kNaN, 1, -1}), 0), {kNaN, 1, 0});
  expect_values(clamp(row({kNaN, 5, -5}), -1, 1), {kNaN, 1, -1});
  expect_values(clamp(row({-5, 5}), {}, 1), {-5, 1});
  EXPECT_THROW_MESSAGE(clamp(row({1}), {}, {}), "give a lower bound");
}

// Enough of these to make a formula worth rewriting.
std::vector<double> many(const std::vector<double>& few) {
  std::vector<double> all;
  while (all.size() < 10000) all.insert(all.end(), few.begin(), few.end());
  return all;
}

// A number times a sign is computed as a choice; every bit is the product's.
TEST(Sign, TimesANumberIsTheProduct) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> xs = many({0.0, -0.0, 1e-300, -2.5, inf, -inf, nan});
  for (double s : {2.0, -3.0, 0.0, inf, nan}) {
    const std::vector<double> got = (s * sign(row(xs, DType::f64))).to_vector<double>();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double expected = s * (xs[i] > 0 ? 1 : xs[i] < 0 ? -1 : xs[i]);
      EXPECT_EQ(std::isnan(got[i]), std::isnan(expected)) << s << " " << xs[i];
      if (std::isnan(expected)) continue;
      ASSERT_EQ(got[i], expected) << s << " " << xs[i];
      ASSERT_EQ(std::signbit(got[i]), std::signbit(expected)) << s << " " << xs[i];
    }
  }
}

// Signs and factors moved to where they cost less change no bit of the result.
TEST(Sign, MovesWithoutATrace) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> xs = many({0.0, -0.0, 1.25, -2.5, inf, -inf}), ys = many({-0.0, 0.0, 3.0, 2.5, inf, inf});
  const Tensor x = row(xs, DType::f64), y = row(ys, DType::f64), above = x > 0;
  auto expect_bits = [&](const Tensor& got, auto expected) {
    const std::vector<double> values = got.to_vector<double>();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double e = expected(xs[i], ys[i]);
      ASSERT_EQ(std::isnan(values[i]), std::isnan(e)) << i;
      if (!std::isnan(e)) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(values[i]), std::bit_cast<std::uint64_t>(e)) << i;
      }
    }
  };
  for (double s : {1.5, -3.0, 0.0}) {
    const Tensor n = full({}, s, DType::f64);
    expect_bits(-(n * x), [&](double a, double) { return -(s * a); });
    expect_bits(n * -x, [&](double a, double) { return s * -a; });
    expect_bits(-where(above, n, 0.0), [&](double a, double) { return -(a > 0 ? s : 0.0); });
    expect_bits(n * where(above, n, -2.0), [&](double a, double) { return s * (a > 0 ? s : -2.0); });
    expect_bits(-(n * sign(x)), [&](double a, double) { return -(s * (a > 0 ? 1 : a < 0 ? -1 : a)); });
  }
  expect_bits(-(-x), [](double a, double) { return a; });
  expect_bits(x + -y, [](double a, double b) { return a - b; });
  expect_bits(-x + y, [](double a, double b) { return -a + b; });
  expect_bits(-x + -y, [](double a, double b) { return -a + -b; });
  expect_bits(x - -y, [](double a, double b) { return a + b; });
}

TEST(Xlogy, IsZeroWhereXIsZeroUnlessYIsNaN) {
  expect_values(xlogy(row({0, 0, 0, 0, 2}), row({0, kInf, kNaN, -1, 3})), {0, 0, kNaN, 0, 2 * std::log(3.0)});
}

TEST(Lerp, IsExactAtBothEnds) {
  const Tensor a = row({1e16, 0.1}), b = row({1, 0.3});
  expect_values(lerp(a, b, 0), {1e16, 0.1}, 0);
  expect_values(lerp(a, b, 1), {1, 0.3}, 0);
  expect_values(lerp(a, b, row({1, 0})), {1, 0.1}, 0);
}

TEST(IsClose, InfinitiesAreCloseToThemselvesOnly) {
  expect_values(isclose(row({kInf, kInf, 1, kNaN}), row({kInf, -kInf, kInf, kNaN})), {1, 0, 0, 0});
  EXPECT_TRUE(allclose(row({1, kNaN}), row({1 + 1e-9, kNaN}), {.equal_nan = true}));
  EXPECT_FALSE(allclose(row({1}), row({1.1})));
}

// ---- gradients by hand: the conventions at kinks and poles
// -----------------------------------------------------------

TEST(Backward, CotangentsAreSummedToTheOperandsShape) {
  const Tensor a = from_data(std::vector<double>{1, 2, 3, 4, 5, 6}, Shape{2, 3}), b = row({10, 20, 30});
  const auto [da, db] = mul_backward(ones_like(a), a, b);
  expect_values(da, {10, 20, 30, 10, 20, 30});
  EXPECT_EQ(db.shape(), (Shape{3}));
  expect_values(db, {5, 7, 9});
}

TEST(Backward, DivisionHasItsPoleAndAnEpsilonThatKeepsTheSign) {
  const Tensor one = row({1, 1, 1}), b = row({0, -0.0, 4});
  expect_values(div_backward(one, one, b).first, {kInf, -kInf, 0.25});
  expect_values(div_backward(one, one, b, 1e-3).first, {1000, -1000, 0.25});
  expect_values(div_backward(one, one, row({2, 2, 4})).second, {-0.25, -0.25, -1.0 / 16});
}

TEST(Backward, PowerIsDefinedAtZero) {
  const Tensor base = row({0, 0, 0, 2}), exponent = row({0, 1, 2, 3});
  const auto [da, db] = pow_backward(ones_like(base), base, exponent);
  expect_values(da, {0, 1, 0, 12});
  expect_values(db, {0, 0, 0, 8 * std::log(2.0)});
  expect_values(pow_backward(ones_like(base), base, 0), {0, 0, 0, 0});
}

TEST(Backward, KinksFollowTheirConventions) {
  const Tensor x = row({-1, 0, 1}), g = row({1, 1, 1});
  expect_values(abs_backward(g, x), {-1, 0, 1});
  const auto [da, db] = maximum_backward(g, x, row({0, 0, 0}));
  expect_values(da, {0, 0.5, 1});
  expect_values(db, {1, 0.5, 0});
  expect_values(clamp_backward(row({1, 1, 1, 1}), row({-1, 1, 2, -2}), -1, 1), {1, 1, 0, 0});
  expect_values(floor_backward(g), {0, 0, 0});
  expect_values(remainder_backward(g, row({5, -5, 7}), row({3, 3, 7})).second, {-1, 2, -1});
}

TEST(Backward, PolesAreInfinite) {
  expect_values(log_backward(row({1, 1}), row({0, 2})), {kInf, 0.5});
  expect_values(sqrt_backward(row({1, 1}), row({0, 2})), {kInf, 0.25});
  expect_values(hypot_backward(row({1}), row({0}), row({0})).first, {0});
  expect_values(atan2_backward(row({1}), row({0}), row({0})).second, {0});
}

TEST(Backward, WorksOnIntegersByHand) {
  const Tensor i = integers({-2, 0, 3}), g = integers({1, 1, 1});
  EXPECT_EQ(abs_backward(g, i).dtype(), DType::i64);
  expect_values(abs_backward(g, i), {-1, 0, 1});
  EXPECT_EQ(add_backward(g, i, i).first.dtype(), DType::i64);
  expect_values(mul_backward(g, i, integers({4, 5, 6})).first, {4, 5, 6});
}

TEST(Backward, HalvesAreComputedInF32AndRoundedOnce) {
  // 1 − y² of y = 1 − 2^−11 is 2^−10 − 2^−22; a square rounded to f16 would lose the last bit.
  const Tensor y = row({0.99951171875}, DType::f16);
  const Tensor d = tanh_backward(row({1}, DType::f16), y);
  EXPECT_EQ(d.dtype(), DType::f16);
  expect_values(d, {0.000976324081}, 1e-6);
}

}  // namespace
}  // namespace ebb
