// SPDX-License-Identifier: MIT
#include "ebb/autograd.h"
#include "ebb/backward.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "ops/values.h"

// Special points, and errors of rules called by hand.
namespace ebb {
namespace {

TEST(Pow, HasGradientZeroToTheExponentAtZeroToTheZero) {
  const auto [base, exponent] = pow_backward(row({1, 1, 1}), row({0, 0, 0}), row({0, 2, -1}));
  expect_values(base, {0, 0, -kInf});
  expect_values(exponent, {0, 0, -kInf});
  const Tensor b = variable(row({0})), y = pow(row({0}), b);
  expect_values(y, {1});
  expect_values(backward(sum(y))[b], {0});
}

TEST(Norm, WithANegativePowerIsZeroBesideAZeroAndSoIsItsGradient) {
  const Tensor x = from_data(std::vector<double>{1, 0, 2, 1, 2, 4}, Shape{2, 3});
  for (const double p : {-1.0, -2.0, -0.5}) {
    const Tensor v = variable(x), y = norm(v, p, 1);
    expect_values(select(y, 0, 0), {0});
    const Tensor g = backward(sum(y))[v];
    expect_values(narrow(g, 0, 0, 1), {0, 0, 0});
    expect_values(norm_backward(row({1, 1}), x, p, 1), g.to_vector());
    expect_values(narrow(normalize(x, p, 1, 0.5), 0, 0, 1), {2, 0, 4});
    const Tensor n = variable(x);
    for (double d : backward(sum(normalize(n, p, 1, 0.5)))[n].to_vector()) EXPECT_TRUE(std::isfinite(d));
  }
  expect_values(norm(row({1, 2, 4}), -1), {1 / (1 + 0.5 + 0.25)});
}

TEST(Cast, ToU8KeepsTheLastEightBitsOfEveryNumber) {
  const std::vector<double> numbers{300, 3e9, -1, 255.9, 256, 1e12, -300.7};
  std::vector<double> bits;
  for (double v : numbers) bits.push_back(static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(v))));
  for (const DType from : {DType::f64, DType::f32})
    expect_values(cast(row({300, 255.9, -1, 256, -300.7}, from), DType::u8), {44, 255, 255, 0, 212});
  expect_values(cast(row(numbers), DType::u8), bits);
  expect_values(cast(cast(row(numbers), DType::i64), DType::u8), bits);
  expect_values(cast(row({kNaN}), DType::u8), {0});
}

TEST(Inv, OfABatchOfAsManyMatricesAsTheyHaveRows) {
  EXPECT_EQ(inv(zeros({0, 0, 0})).shape(), (Shape{0, 0, 0}));
  const Tensor a = from_data(std::vector<double>{2, 0, 0, 4, 1, 1, 0, 1}, Shape{2, 2, 2});
  expect_values(inv(a), {0.5, 0, 0, 0.25, 1, -1, 0, 1});
}

TEST(RulesByHand, RefuseACotangentOfAnotherShape) {
  const Tensor wide = ones({2, 3}, DType::f64), y = row({1, 2, 3});
  EXPECT_THROW_MESSAGE(tanh_backward(wide, y), "tanh_backward: the gradient has shape [2, 3], the result [3]");
  EXPECT_THROW_MESSAGE(exp_backward(wide, y), "exp_backward");
  EXPECT_THROW_MESSAGE(log_backward(wide, y), "log_backward");
  EXPECT_THROW_MESSAGE(relu_backward(wide, y), "relu_backward");
  EXPECT_THROW_MESSAGE(sigmoid_backward(wide, y), "sigmoid_backward");
  EXPECT_THROW_MESSAGE(softmax_backward(wide, y), "softmax_backward");
  EXPECT_THROW_MESSAGE(mul_backward(wide, y, y), "mul_backward: the gradient has shape [2, 3], the result [3]");
  EXPECT_THROW_MESSAGE(pow_backward(wide, y, 2.0), "pow_backward");
  EXPECT_THROW_MESSAGE(where_backward(wide, y > 1, y, y), "where_backward");
  EXPECT_THROW_MESSAGE(clamp_backward(wide, y, 0.0, 1.0), "clamp_backward");
  EXPECT_THROW_MESSAGE(lerp_backward(wide, y, y, y), "lerp_backward");
  EXPECT_THROW_MESSAGE(glu_backward(row({1, 1}), row({1, 2})),
                       "glu_backward: the gradient has shape [2], the result [1]");
  // Operands that were broadcast still get sums.
  expect_values(mul_backward(wide, wide, y).second, {2, 2, 2});
}

TEST(Cotangents, OfBroadcastClampBoundsHaveTheResultsShape) {
  const Tensor x = row({1, 2, 3});
  expect_values(clamp_backward(row({1, 1, 1}), x, 1.5), {0, 1, 1});
  expect_values(clamp_backward(row({1, 1, 1}), x, {}, 2.5), {1, 1, 0});
}

}  // namespace
}  // namespace ebb
