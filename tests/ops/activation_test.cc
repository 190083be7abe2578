// SPDX-License-Identifier: MIT
#include "ebb/ops/activation.h"

#include "ebb/backward/activation.h"
#include "ebb/ops/reduce.h"
#include "ebb/random.h"
#include "expect_error.h"
#include "ops/values.h"

namespace ebb {
namespace {

TEST(Sigmoid, IsExactInBothTails) {
  const Tensor x = row({0, 40, -40, 1000, -1000, kInf, -kInf, kNaN});
  expect_values(sigmoid(x), {0.5, 1, 0, 1, 0, 1, 0, kNaN});
  EXPECT_NEAR(sigmoid(row({-700})).item<double>() / std::exp(-700.0), 1, 1e-12);
  expect_values(softplus(x), {std::log(2.0), 40, 0, 1000, 0, kInf, 0, kNaN});
  EXPECT_NEAR(softplus(row({-700})).item<double>() / std::exp(-700.0), 1, 1e-12);
  expect_values(log_sigmoid(x), {-std::log(2.0), 0, -40, 0, -1000, 0, -kInf, kNaN});
  expect_values(softplus(row({1}), 2), {0.5 * std::log1p(std::exp(2.0))});
}

TEST(Logit, ClampsOnlyWhenAsked) {
  expect_values(logit(row({0, 1, 0.5, 2})), {-kInf, kInf, 0, kNaN});
  expect_values(logit(row({0, 1}), 0.1), {std::log(0.1 / 0.9), std::log(0.9 / 0.1)});
  expect_values(logit_backward(row({1, 1, 1}), row({0, 0.1, 0.5}), 0.1), {0, 1 / 0.09, 4});
}

TEST(Gelu, KeepsItsDigitsInTheNegativeTail) {
  // Φ(−10) = 7.619853024160526e-24
  EXPECT_NEAR(gelu(row({-10})).item<double>() / -7.619853024160526e-23, 1, 1e-10);
  expect_values(gelu(row({1})), {0.8413447460685429});
  expect_values(gelu(row({1}), GeluForm::tanh), {0.8411919906082768});
  expect_values(gelu_backward(row({1}), row({1})), {1.0833154705876864});
  expect_values(gelu(row({1e30, -1e30}, DType::f32), GeluForm::tanh), {1e30, 0}, 1e-6);
  expect_values(gelu_backward(row({1, 1}, DType::f32), row({1e30, -1e30}, DType::f32), GeluForm::tanh), {1, 0});
}

TEST(Activations, GradientsAtKinksFollowTheirConventions) {
  const Tensor x = row({-1, 0, 1}), g = row({1, 1, 1});
  expect_values(relu_backward(g, x), {0, 0, 1});
  expect_values(leaky_relu_backward(g, x, 0.2), {0.2, 0.2, 1});
  expect_values(relu6_backward(row({1, 1, 1}), row({0, 3, 6})), {0, 1, 0});
  expect_values(hardtanh_backward(g, x), {0, 1, 0});
  expect_values(elu_backward(g, x), {std::exp(-1.0), 1, 1});
  expect_values(hardshrink_backward(g, row({-0.5, 0.5, 0.6})), {0, 0, 1});
  EXPECT_EQ(relu_backward(integers({1, 1}), integers({-1, 1})).dtype(), DType::i64);
  expect_values(relu_backward(integers({1, 1}), integers({-1, 1})), {0, 1});
}

TEST(Prelu, HasOneSlopeOrOneForEachChannel) {
  const Tensor x = from_data(std::vector<double>{-1, 2, -3, 4, -5, -6}, Shape{1, 3, 2});
  const Tensor w = row({0.1, 0.2, 0.3});
  expect_values(prelu(x, w), {-0.1, 2, -0.6, 4, -1.5, -1.8});
  const auto [dx, dw] = prelu_backward(ones_like(x), x, w);
  expect_values(dx, {0.1, 1, 0.2, 1, 0.3, 0.3});
  expect_values(dw, {-1, -3, -11});
  expect_values(prelu_backward(ones_like(x), x, row({0.5})).second, {-15});
  EXPECT_THROW_MESSAGE(prelu(x, row({1, 2})), "one for each of the 3 channels");
}

TEST(Softmax, SumsToOneAlongAnyAxisAndDoesNotOverflow) {
  const Tensor x = from_data(std::vector<double>{1000, 1001, -1000, 0, 1, 2}, Shape{2, 3});
  for (int axis : {0, 1, -1})
    EXPECT_TRUE(allclose(sum(softmax(x, axis), axis), ones(Shape{axis == 0 ? 3 : 2}, DType::f64)));
  expect_values(softmax(row({0, std::log(3.0)})), {0.25, 0.75});
  expect_values(log_softmax(row({-kInf, 0})), {-kInf, 0});
  expect_values(softmax(row({-kInf, -kInf})), {kNaN, kNaN});
  EXPECT_THROW_MESSAGE(softmax(x, 2), "softmax: axis 2 does not exist");
}

TEST(Softmax, GradientIsOrthogonalToOnes) {
  const Tensor s = softmax(row({1, 2, 3})), g = row({0.3, -1, 2});
  EXPECT_NEAR(sum(softmax_backward(g, s)).item<double>(), 0, 1e-15);
  EXPECT_NEAR(sum(log_softmax_backward(g, log(s))).item<double>(), 0, 1e-15);
}

TEST(Glu, SplitsTheAxisInHalves) {
  expect_values(reglu(row({1, 2, -3, 4})), {0, 8});
  expect_values(glu(row({1, 2, 0, 0})), {0.5, 1});
  expect_values(reglu_backward(row({1, 1}), row({1, 2, -3, 4})), {0, 4, 0, 2});
  EXPECT_THROW_MESSAGE(glu(row({1, 2, 3})), "must have an even size");
}

TEST(Dropout, RepeatsItselfWithTheSeedAndKeepsTheMean) {
  const Tensor x = ones(Shape{10000});
  manual_seed(7);
  const std::vector<double> first = dropout(x, 0.25).to_vector<double>();
  manual_seed(7);
  EXPECT_EQ(dropout(x, 0.25).to_vector<double>(), first);
  double total = 0;
  for (double v : first) total += v;
  EXPECT_NEAR(total / 10000, 1, 0.03);
  expect_values(dropout(row({1, 2}), 0.5, false), {1, 2});
  expect_values(dropout(row({1, 2}), 1), {0, 0});
  EXPECT_THROW_MESSAGE(dropout(x, 1.5), "p must be a probability");
}

TEST(GumbelSoftmax, HardSamplesAreOneHot) {
  const Tensor s = gumbel_softmax(zeros(Shape{50, 4}), {.tau = 0.5, .hard = true});
  EXPECT_TRUE(allclose(sum(s, -1), ones(Shape{50})));
  EXPECT_TRUE(allclose(sum(square(s), -1), ones(Shape{50})));
}

TEST(Halves, AreComputedInF32AndRoundedOnce) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = row({-4, -1, -0.25, 0.5, 3}, dtype);
    const Tensor wide = cast(x, DType::f32);
    EXPECT_EQ(mish(x).to_vector<double>(), cast(mish(wide), dtype).to_vector<double>());
    EXPECT_EQ(softmax(x).to_vector<double>(), cast(softmax(wide), dtype).to_vector<double>());
    EXPECT_EQ(gelu(x).to_vector<double>(), cast(gelu(wide), dtype).to_vector<double>());
  }
}

}  // namespace
}  // namespace ebb
