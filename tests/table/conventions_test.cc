// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/ebb.h"
#include "expect_error.h"

// The conventions at kinks, poles and ties: rules that are often implemented wrongly, one test each.
namespace ebb {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor row(const std::vector<double>& v) { return from_data(v, Shape{static_cast<std::int64_t>(v.size())}); }
using Values = std::vector<double>;

Values slope(const Function& f, const Values& at) {
  return grad(Function([&](const Tensor& x) { return sum(f(x)); }))(row(at)).to_vector();
}
std::vector<Values> slopes(const FunctionOfMany& f, const std::vector<Tensor>& at, const Tensor& cotangent) {
  const auto g = grad(FunctionOfMany([&](const std::vector<Tensor>& x) { return sum(f(x) * cotangent); }))(at);
  std::vector<Values> out;
  for (const Tensor& t : g) out.push_back(t.to_vector());
  return out;
}
std::vector<Values> slopes(const FunctionOfMany& f, const std::vector<Tensor>& at) {
  return slopes(f, at, full({}, 1.0, DType::f64));
}
Values near(const Values& v, const Values& expected, double tolerance = 1e-12) {
  EXPECT_EQ(v.size(), expected.size());
  for (std::size_t i = 0; i < v.size() && i < expected.size(); ++i)
    EXPECT_NEAR(v[i], expected[i], tolerance) << "element " << i;
  return v;
}

TEST(Conventions, BroadcastSumsWhereThePaddedSizeIsOne) {
  // [3] combined with [2, 3] is padded from the left, so the cotangent is summed over axis 0, not over axis 1.
  const Tensor a = row({1, 2, 3}), b = reshape(row({1, 2, 3, 4, 5, 6}), {2, 3});
  const Tensor g = reshape(row({1, 10, 100, 2, 20, 200}), {2, 3});
  const auto d = slopes([](const std::vector<Tensor>& x) { return x[0] + x[1]; }, {a, b}, g);
  EXPECT_EQ(d[0], (Values{3, 30, 300}));
  // [3, 1] with [1, 3]: each is summed over the axis it was repeated along. A square shape tells left from right.
  const Tensor column = reshape(row({1, 2, 3}), {3, 1}), line = reshape(row({4, 5, 6}), {1, 3});
  const auto e = slopes([](const std::vector<Tensor>& x) { return x[0] * x[1]; }, {column, line});
  EXPECT_EQ(e[0], (Values{15, 15, 15}));
  EXPECT_EQ(e[1], (Values{6, 6, 6}));
}

TEST(Conventions, DivHasNoHiddenEpsilon) {
  const auto d =
      slopes([](const std::vector<Tensor>& x) { return x[0] / x[1]; }, {row({1, 1, -2}), row({1e-9, -1e-9, 0})});
  EXPECT_DOUBLE_EQ(d[0][0], 1e9);
  EXPECT_DOUBLE_EQ(d[0][1], -1e9);
  EXPECT_EQ(d[0][2], kInf);
  EXPECT_DOUBLE_EQ(d[1][0], -1e18);
  EXPECT_DOUBLE_EQ(d[1][1], -1e18);
}

TEST(Conventions, DivEpsilonKeepsTheSign) {
  const auto [da, db] = div_backward(row({1, 1}), row({1, 1}), row({1e-9, -1e-9}), 1e-3);
  near(da.to_vector(), {1e3, -1e3}, 1e-9);
  (void)db;
}

TEST(Conventions, LogAndSqrtHaveInfinitiesAtThePole) {
  EXPECT_EQ(slope([](const Tensor& x) { return log(x); }, {0.5, 0})[1], kInf);
  EXPECT_EQ(slope([](const Tensor& x) { return sqrt(x); }, {4, 0}), (Values{0.25, kInf}));
  EXPECT_DOUBLE_EQ(slope([](const Tensor& x) { return log(x); }, {-2})[0], -0.5);
}

// The sign at a pole depends on the side for even orders; like SciPy, take that of ζ(n+1, 0+).
TEST(Conventions, PolygammaIsInfiniteAtItsPoles) {
  const Values at{0, -0.0, -1, -7, kInf};
  EXPECT_EQ(polygamma(1, row(at)).to_vector(), (Values{kInf, kInf, kInf, kInf, 0}));
  EXPECT_EQ(polygamma(2, row(at)).to_vector(), (Values{-kInf, -kInf, -kInf, -kInf, 0}));
  EXPECT_EQ(polygamma(3, row(at)).to_vector(), (Values{kInf, kInf, kInf, kInf, 0}));
  for (const double none : polygamma(2, row({-kInf, std::nan("")})).to_vector()) EXPECT_TRUE(std::isnan(none));
}

TEST(Conventions, ErfcxGoesOnWhereErfcIsZero) {
  const Values at{-30, 0, 40, 1e4, 1e300};
  const Values y = erfcx(row(at)).to_vector();
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], 1);
  for (std::size_t k = 2; k < at.size(); ++k) {
    const double first = 1 / (at[k] * std::sqrt(M_PI));
    EXPECT_NEAR(y[k] / first, 1 - 0.5 / (at[k] * at[k]), 1e-6) << at[k];
  }
  // The slope far out is −1/(√π·x²), small relative to the two terms whose difference it is; in f32 as well.
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = variable(cast(row({0, 9, 1e4}), dtype));
    const Values d = cast(backward(sum(erfcx(x)))[x], DType::f64).to_vector();
    EXPECT_NEAR(d[0], -2 / std::sqrt(M_PI), 1e-6);
    EXPECT_NEAR(d[1] / -0.0068401344, 1, 1e-6);
    EXPECT_NEAR(d[2] * 1e8 * std::sqrt(M_PI), -1, 1e-6);
  }
  const Tensor second = hessian([](const Tensor& x) { return sum(erfcx(x)); }, row({0, 50}));
  EXPECT_NEAR(second.to_vector()[0], 2, 1e-12);  // 2·erfcx + 2x·erfcx'
  EXPECT_NEAR(second.to_vector()[3] * std::sqrt(M_PI) * 50 * 50 * 50 / 2, 1, 1e-2);
}

TEST(Conventions, PowAtZeroBaseAndZeroExponent) {
  const auto d = slopes([](const std::vector<Tensor>& x) { return pow(x[0], x[1]); },
                        {row({0, 0, 2, -2, 3}), row({0, 2, 0, 3, 2})});
  EXPECT_EQ(d[0], (Values{0, 0, 0, 12, 6}));   // 0 where b = 0
  EXPECT_EQ(d[1][1], 0);                       // a = 0, b > 0
  EXPECT_NEAR(d[1][2], std::log(2.0), 1e-15);  // 2⁰·ln 2
  EXPECT_NEAR(d[1][4], 9 * std::log(3.0), 1e-12);
}

TEST(Conventions, StepFunctionsHaveGradientZero) {
  for (const Function& f :
       {Function([](const Tensor& x) { return floor(x); }), Function([](const Tensor& x) { return ceil(x); }),
        Function([](const Tensor& x) { return round(x); }), Function([](const Tensor& x) { return trunc(x); }),
        Function([](const Tensor& x) { return sign(x); }),
        Function([](const Tensor& x) { return floor_divide(x, 2.0); })}) {
    EXPECT_EQ(slope(f, {-1.5, 0, 0.4, 2}), (Values{0, 0, 0, 0}));
  }
}

TEST(Conventions, RemainderFollowsTheFloor) {
  const auto d =
      slopes([](const std::vector<Tensor>& x) { return remainder(x[0], x[1]); }, {row({7.5, -7.5}), row({2, 2})});
  EXPECT_EQ(d[0], (Values{1, 1}));
  EXPECT_EQ(d[1], (Values{-3, 4}));
}

TEST(Conventions, MaxSplitsAmongTies) {
  EXPECT_EQ(slope([](const Tensor& x) { return max(x); }, {1, 3, 3, 3, 2, 3}), (Values{0, 0.25, 0.25, 0.25, 0, 0.25}));
  EXPECT_EQ(slope([](const Tensor& x) { return 3 * min(x); }, {2, 1, 1, 4}), (Values{0, 1.5, 1.5, 0}));
}

TEST(Conventions, MaximumGivesHalfEachAtATie) {
  const auto d =
      slopes([](const std::vector<Tensor>& x) { return maximum(x[0], x[1]); }, {row({1, 2, 3}), row({2, 2, 1})});
  EXPECT_EQ(d[0], (Values{0, 0.5, 1}));
  EXPECT_EQ(d[1], (Values{1, 0.5, 0}));
  const auto e =
      slopes([](const std::vector<Tensor>& x) { return minimum(x[0], x[1]); }, {row({1, 2, 3}), row({2, 2, 1})});
  EXPECT_EQ(e[0], (Values{1, 0.5, 0}));
}

TEST(Conventions, MeanDividesByWhatWasReduced) {
  const auto d =
      slopes([](const std::vector<Tensor>& x) { return mean(x[0], 1); }, {zeros({2, 4}, DType::f64)}, row({8, 4}));
  EXPECT_EQ(d[0], (Values{2, 2, 2, 2, 1, 1, 1, 1}));
}

TEST(Conventions, VarHasACorrection) {
  const Tensor x = row({1, 2, 4, 9});
  EXPECT_NEAR(var(x).item(), 38.0 / 3, 1e-12);
  EXPECT_NEAR(var(x, {}, false, 0).item(), 38.0 / 4, 1e-12);
  near(slope([](const Tensor& v) { return var(v); }, {1, 2, 4, 9}), {-6.0 / 3, -4.0 / 3, 0, 10.0 / 3});
}

TEST(Conventions, ClampPassesAtBothEnds) {
  EXPECT_EQ(slope([](const Tensor& x) { return clamp(x, -1, 1); }, {-2, -1, 0, 1, 2}), (Values{0, 1, 1, 1, 0}));
}

TEST(Conventions, KinksAtZero) {
  EXPECT_EQ(slope([](const Tensor& x) { return abs(x); }, {-1, 0, 1}), (Values{-1, 0, 1}));
  EXPECT_EQ(slope([](const Tensor& x) { return relu(x); }, {-1, 0, 1}), (Values{0, 0, 1}));
  EXPECT_EQ(slope([](const Tensor& x) { return leaky_relu(x, 0.25); }, {-1, 0, 1}), (Values{0.25, 0.25, 1}));
}

TEST(Conventions, PreluSumsTheGradientOfItsSlope) {
  const Tensor x = reshape(row({-1, 2, -3, -4, 5, -6}), {2, 3});
  const auto per_channel =
      slopes([](const std::vector<Tensor>& v) { return prelu(v[0], v[1]); }, {x, row({0.1, 0.2, 0.3})});
  EXPECT_EQ(per_channel[1], (Values{-5, 0, -9}));
  const auto one = slopes([](const std::vector<Tensor>& v) { return prelu(v[0], v[1]); }, {x, row({0.1})});
  EXPECT_EQ(one[1], (Values{-14}));
}

TEST(Conventions, SoftmaxAlongAnyAxis) {
  const Tensor x = reshape(row({0, 1, 2, -1, 0.5, 3}), {2, 3}), g = reshape(row({1, 2, 3, 4, 5, 6}), {2, 3});
  for (int axis : {0, 1}) {
    const Tensor s = softmax(x, axis), l = log_softmax(x, axis);
    near(slopes([&](const std::vector<Tensor>& v) { return softmax(v[0], axis); }, {x}, g)[0],
         (s * (g - sum(g * s, axis, true))).to_vector());
    near(slopes([&](const std::vector<Tensor>& v) { return log_softmax(v[0], axis); }, {x}, g)[0],
         (g - exp(l) * sum(g, axis, true)).to_vector());
  }
}

TEST(Conventions, LogsumexpOfNothingButMinusInfinity) {
  const Values all(3, -kInf);
  EXPECT_EQ(logsumexp(row(all)).item(), -kInf);
  EXPECT_EQ(slope([](const Tensor& x) { return logsumexp(x); }, all), (Values{0, 0, 0}));
  near(slope([](const Tensor& x) { return logsumexp(x); }, {-kInf, 0, 0}), {0, 0.5, 0.5});
}

TEST(Conventions, GeluHasTwoForms) {
  const double x = 0.7, phi = std::exp(-x * x / 2) / std::sqrt(2 * M_PI), cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
  near(slope([](const Tensor& t) { return gelu(t); }, {x}), {cdf + x * phi});
  const double c = std::sqrt(2 / M_PI), u = c * (x + 0.044715 * x * x * x), th = std::tanh(u);
  near(slope([](const Tensor& t) { return gelu(t, GeluForm::tanh); }, {x}),
       {0.5 * (1 + th) + 0.5 * x * (1 - th * th) * c * (1 + 3 * 0.044715 * x * x)});
}

TEST(Conventions, MatmulSumsOverBroadcastBatches) {
  const Tensor a = ones({4, 2, 3}, DType::f64), b = ones({3, 5}, DType::f64);
  const auto d = slopes([](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); }, {a, b});
  EXPECT_EQ(d[1], Values(15, 8.0));  // 4 batches of 2 rows
  EXPECT_EQ(d[0], Values(24, 5.0));
}

TEST(Conventions, ProdWithZeros) {
  EXPECT_EQ(slope([](const Tensor& x) { return prod(x); }, {2, 3, 4}), (Values{12, 8, 6}));
  EXPECT_EQ(slope([](const Tensor& x) { return prod(x); }, {2, 0, 4}), (Values{0, 8, 0}));
  EXPECT_EQ(slope([](const Tensor& x) { return prod(x); }, {2, 0, 0}), (Values{0, 0, 0}));
  // The second derivative is there too: d²/dx₁dx₂ of x₀x₁x₂ at two zeros.
  const Tensor h = hessian([](const Tensor& x) { return prod(x); }, row({2, 0, 0}));
  EXPECT_EQ(h.to_vector(), (Values{0, 0, 0, 0, 0, 2, 0, 2, 0}));
}

TEST(Conventions, IntegersComputeButAreNotDifferentiated) {
  const Tensor n = from_data(std::vector<std::int64_t>{-3, 0, 5}, Shape{3});
  EXPECT_EQ(relu(n).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 5}));
  EXPECT_EQ(clamp(abs(n), 1, 4).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 1, 4}));
  EXPECT_EQ(sum(n).item<std::int64_t>(), 2);
  EXPECT_EQ(relu_backward(ones_like(n), n).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 1}));
  const auto [da, db] = add_backward(n, n, n);
  EXPECT_EQ(da.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-3, 0, 5}));
  EXPECT_EQ(db.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-3, 0, 5}));
  EXPECT_THROW_KIND(variable(n), type, "cannot be differentiated");
}

TEST(Conventions, CastSendsTheGradientBack) {
  const Tensor w = variable(row({1.5, 2.5}));
  const Tensor g = backward(sum(square(cast(w, DType::f32))))[w];
  EXPECT_EQ(g.dtype(), DType::f64);
  EXPECT_EQ(g.to_vector(), (Values{3, 5}));
}

TEST(Conventions, DropoutIsAFunctionOfSeedAndOperation) {
  const Tensor x = ones({1000});
  manual_seed(7);
  const Values first = dropout(x, 0.4).to_vector(), second = dropout(x, 0.4).to_vector();
  manual_seed(7);
  EXPECT_EQ(dropout(x, 0.4).to_vector(), first);
  EXPECT_EQ(dropout(x, 0.4).to_vector(), second);
  EXPECT_NE(first, second);
  // The gradient uses the mask of the value.
  manual_seed(7);
  const Tensor w = variable(x);
  EXPECT_EQ(backward(sum(dropout(w, 0.4)))[w].to_vector(), first);
}

}  // namespace
}  // namespace ebb
