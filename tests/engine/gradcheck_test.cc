// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/ebb.h"
#include "expect_error.h"

// The checker must detect errors, not only accept what is right.
namespace ebb {
namespace {

Tensor checked_numbers(const Shape& shape, DType dtype = DType::f64) {
  manual_seed(4);
  return randn(shape, dtype).eval();
}

// exp with a wrong gradient.
Tensor crooked(const Tensor& x, double error) {
  return custom_function([](const std::vector<Tensor>& in) { return exp(in[0]); },
                         [error](const Tensor& grad, const Tensor& y, const std::vector<Tensor>&) {
                           return std::vector<Tensor>{grad * y * (1 + error)};
                         },
                         {x});
}

TEST(Gradcheck, PassesWhatIsRight) {
  const Function f = [](const Tensor& x) { return softmax(tanh(x) * x); };
  for (DType d : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const GradcheckReport report = check_gradients(f, checked_numbers({3, 4}, d));
    EXPECT_TRUE(report.passed()) << report;
    EXPECT_EQ(report.rows.at(0).dtype, d);
  }
  require_second_gradients(f, checked_numbers({3, 4}));
}

TEST(Gradcheck, SeesASmallError) {
  EXPECT_TRUE(check_gradients(Function([](const Tensor& x) { return crooked(x, 0); }), checked_numbers({5})).passed());
  EXPECT_FALSE(
      check_gradients(Function([](const Tensor& x) { return crooked(x, 1e-4); }), checked_numbers({5})).passed());
  EXPECT_TRUE(
      check_gradients(Function([](const Tensor& x) { return crooked(x, 1e-4); }), checked_numbers({5}), {.rtol = 1e-3})
          .passed());
}

TEST(Gradcheck, SeesAnErrorOfTheSecondDerivativeOnly) {
  // The first gradient is right, but it hides how it depends on x.
  const Function f = [](const Tensor& x) {
    return custom_function([](const std::vector<Tensor>& in) { return square(in[0]); },
                           [](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) {
                             return std::vector<Tensor>{grad * 2 * stop_gradient(in[0])};
                           },
                           {x});
  };
  EXPECT_TRUE(check_gradients(f, checked_numbers({5})).passed());
  EXPECT_FALSE(check_second_gradients(f, checked_numbers({5})).passed());
}

TEST(Gradcheck, ItsCotangentIsNotOnes) {
  // The gradient of a softmax's sum is 0 whatever its rule says: a cotangent of ones would pass this.
  const Function f = [](const Tensor& x) { return stop_gradient(softmax(x)) + 0 * x; };
  EXPECT_FALSE(check_gradients(f, checked_numbers({5})).passed());
}

TEST(Gradcheck, NamesTheWorstElement) {
  const Tensor x = checked_numbers({2, 3});
  const Tensor bump = from_data(std::vector<double>{0, 0, 0, 0, 0.5, 0}, Shape{2, 3});
  const Function f = [&](const Tensor& z) { return z + bump * stop_gradient(z); };
  const GradcheckReport report = check_gradients(f, x);
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.rows[0].worst, (std::vector<std::int64_t>{1, 1}));
  EXPECT_NE(report.str().find("[1, 1]"), std::string::npos) << report;
  EXPECT_NE(report.str().find("FAILED"), std::string::npos) << report;
  EXPECT_THROW_MESSAGE(require_gradients(f, x), "the gradient differs from central differences");
}

TEST(Gradcheck, SkipsIntegersAndRefusesNothingElse) {
  const Tensor index = from_data(std::vector<std::int64_t>{2, 0}, Shape{2});
  const FunctionOfMany f = [](const std::vector<Tensor>& x) { return index_select(exp(x[0]), 1, x[1]); };
  const GradcheckReport report = check_gradients(f, {checked_numbers({2, 3}), index});
  EXPECT_EQ(report.rows.size(), 1u);
  EXPECT_TRUE(report.passed()) << report;
  require_second_gradients(f, {checked_numbers({2, 3}), index});
  EXPECT_THROW_KIND(check_gradients(FunctionOfMany([](const std::vector<Tensor>& x) { return x[0]; }), {index}), type,
                    "none of the 1 inputs has a floating dtype");
}

TEST(Gradcheck, RepeatsRandomNumbers) {
  require_gradients(Function([](const Tensor& x) { return dropout(x, 0.4) * x; }), checked_numbers({20}));
  manual_seed(8);
  const double next = rand({1}).item();
  manual_seed(8);
  check_gradients(Function([](const Tensor& x) { return x * 2; }), ones({2}, DType::f64));
  EXPECT_EQ(rand({1}).item(), next);  // a check draws nothing from the user's stream
}

TEST(NumericalGradient, IsTheSlope) {
  const Tensor x = checked_numbers({4});
  const Tensor n = numerical_gradient([](const Tensor& z) { return sum(pow(z, 3.0)); }, x);
  EXPECT_TRUE(allclose(n, 3 * square(x), {.rtol = 1e-7, .atol = 1e-8}));
  const Tensor u = checked_numbers({4});
  EXPECT_TRUE(allclose(numerical_gradient([](const Tensor& z) { return exp(z); }, x, u), u * exp(x),
                       {.rtol = 1e-7, .atol = 1e-8}));
  EXPECT_THROW_MESSAGE(numerical_gradient([](const Tensor& z) { return exp(z); }, x), "f gives shape [4]");
}

}  // namespace
}  // namespace ebb
