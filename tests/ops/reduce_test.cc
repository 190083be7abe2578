// SPDX-License-Identifier: MIT
#include "ebb/backward/reduce.h"

#include <cmath>
#include <limits>

#include "expect_error.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Tensor matrix() { return tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}); }

TEST(Reduce, SumsOverAnySetOfAxes) {
  expect_shape_and_values(sum(matrix()), {}, {21});
  expect_shape_and_values(sum(matrix(), 0), {3}, {5, 7, 9});
  expect_shape_and_values(sum(matrix(), -1, true), {2, 1}, {6, 15});
  expect_shape_and_values(sum(matrix(), {0, 1}, true), {1, 1}, {21});
  expect_shape_and_values(sum(zeros({0, 3}), 0), {3}, {0, 0, 0});
  expect_shape_and_values(sum(tensor(4.0)), {}, {4});
}

TEST(Reduce, SumsOfIntegersAreI64AndOfHalvesAreMadeInF32) {
  EXPECT_EQ(sum(tensor({1, 2})).dtype(), DType::i64);
  EXPECT_EQ(sum(tensor({true, true, false})).item<std::int64_t>(), 2);
  const Tensor many = ones({4096}, DType::f16);  // a running sum in f16 would stop at 2048
  EXPECT_EQ(sum(many).item(), 4096);
  EXPECT_EQ(mean(full({4096}, 60000.0, DType::f16)).item(), 60000);  // the sum itself overflows f16
}

TEST(Reduce, MeanOfNothingIsNaNAndOfIntegersReal) {
  EXPECT_TRUE(std::isnan(mean(zeros({0})).item()));
  EXPECT_EQ(mean(tensor({1, 2})).item(), 1.5);
}

TEST(Reduce, MaxAndMin) {
  expect_shape_and_values(max(matrix(), 0), {3}, {4, 5, 6});
  expect_shape_and_values(min(matrix(), {0, 1}), {}, {1});
  EXPECT_TRUE(std::isnan(max(tensor({1.0, kNaN, 3.0})).item()));
  EXPECT_TRUE(max(tensor({false, true})).item<bool>());
  EXPECT_THROW_MESSAGE(max(zeros({2, 0}), 1), "max: nothing to choose from in a tensor of shape [2, 0]");
}

TEST(Reduce, NamesTheAxisThatDoesNotExist) {
  EXPECT_THROW_MESSAGE(sum(matrix(), 2), "sum");
  EXPECT_THROW_MESSAGE(sum(matrix(), {0, -2}), "sum: axis -2 is named twice");
}

TEST(Reduce, VarianceIsExactFarFromZero) {
  const Tensor x = tensor({1e9, 1e9 + 1, 1e9 + 2}, DType::f64);
  EXPECT_EQ(var(x).item(), 1);
  EXPECT_NEAR(var(x, {}, false, 0).item(), 2.0 / 3, 1e-15);
  EXPECT_TRUE(std::isnan(var(tensor({1.0})).item()));
  EXPECT_EQ(stddev(tensor({1.0, 3.0}), {}, false, 0).item(), 1);
}

TEST(Reduce, Norms) {
  const Tensor x = tensor({3.0, -4.0, 0.0});
  EXPECT_EQ(norm(x).item(), 5);
  EXPECT_EQ(norm(x, 1).item(), 7);
  EXPECT_EQ(norm(x, kInf).item(), 4);
  EXPECT_EQ(norm(x, -kInf).item(), 0);
  EXPECT_EQ(norm(x, 0).item(), 2);
  EXPECT_NEAR(norm(x, 3).item(), std::cbrt(91.0), 1e-6);
}

TEST(Reduce, LogSumExpNeitherOverflowsNorLosesInfinities) {
  EXPECT_NEAR(logsumexp(tensor({1000.0, 1000.0}, DType::f64)).item(), 1000 + std::log(2.0), 1e-12);
  EXPECT_EQ(logsumexp(tensor({-kInf, -kInf})).item(), -kInf);
  EXPECT_EQ(logsumexp(tensor({-kInf, kInf})).item(), kInf);
  EXPECT_EQ(logsumexp(zeros({0})).item(), -kInf);
  expect_shape_and_values(logsumexp_backward(tensor(1.0), tensor({-kInf, -kInf})), {2}, {0, 0});
}

TEST(Reduce, AnyAndAll) {
  expect_shape_and_values(any(tensor({{0.0, 0.0}, {0.0, 2.0}}), 1), {2}, {0, 1});
  EXPECT_FALSE(any(zeros({0})).item<bool>());
  EXPECT_TRUE(all(zeros({0})).item<bool>());
  EXPECT_FALSE(all(tensor({1.0, 0.0})).item<bool>());
}

TEST(Reduce, ArgmaxTakesTheFirst) {
  expect_shape_and_values(argmax(tensor({{1.0, 3.0, 3.0}, {2.0, 0.0, 1.0}}), 1), {2}, {1, 0});
  EXPECT_EQ(argmin(matrix()).item<std::int64_t>(), 0);
  expect_shape_and_values(argmax(matrix(), 0, true), {1, 3}, {1, 1, 1});
  EXPECT_THROW_MESSAGE(argmax(zeros({2, 0}), 1), "argmax: axis 1 of shape [2, 0] is empty");
}

TEST(Reduce, RunningSumsAndProducts) {
  expect_shape_and_values(cumsum(matrix(), 1), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_shape_and_values(cumprod(matrix(), 0), {2, 3}, {1, 2, 3, 4, 10, 18});
}

TEST(Reduce, MedianIsTheLowerMiddle) {
  const Tensor x = tensor({{4.0, 1.0, 3.0, 2.0}, {8.0, 8.0, 1.0, 0.0}});
  expect_shape_and_values(median(x, 1), {2}, {2, 1});
  expect_shape_and_values(median(x), {}, {2});
  expect_shape_and_values(median(tensor({1.0, kNaN})), {}, {kNaN});
}

TEST(Reduce, QuantileInterpolates) {
  const Tensor x = tensor({3.0, 1.0, 2.0, 4.0}, DType::f64);
  EXPECT_NEAR(quantile(x, 0.4).item(), 2.2, 1e-15);
  expect_shape_and_values(quantile(x, {0.0, 0.5, 1.0}), {3}, {1, 2.5, 4});
  expect_shape_and_values(quantile(matrix(), 0.5, 0, true), {1, 3}, {2.5, 3.5, 4.5});
  EXPECT_THROW_MESSAGE(quantile(x, 1.5), "quantile: q must lie in [0, 1], got 1.5");
}

TEST(ReduceBackward, AgreesWithDifferences) {
  const Tensor x = some({3, 4, 2});
  const Axes two{0, 2};
  expect_gradient([&](auto& v) { return sum(v, two); }, [&](auto& g) { return sum_backward(g, x.shape(), two); }, x);
  expect_gradient([&](auto& v) { return mean(v, 1); }, [&](auto& g) { return mean_backward(g, x.shape(), 1); }, x);
  expect_gradient([&](auto& v) { return prod(v, two); }, [&](auto& g) { return prod_backward(g, x, two); }, x);
  expect_gradient([&](auto& v) { return max(v, 1, true); }, [&](auto& g) { return max_backward(g, x, 1, true); }, x);
  expect_gradient([&](auto& v) { return min(v, two); }, [&](auto& g) { return min_backward(g, x, two); }, x);
  expect_gradient([&](auto& v) { return var(v, 1); }, [&](auto& g) { return var_backward(g, x, 1); }, x);
  expect_gradient([&](auto& v) { return stddev(v, two); }, [&](auto& g) { return stddev_backward(g, x, two); }, x);
  expect_gradient([&](auto& v) { return logsumexp(v, 1); }, [&](auto& g) { return logsumexp_backward(g, x, 1); }, x);
  expect_gradient([&](auto& v) { return cumsum(v, 1); }, [&](auto& g) { return cumsum_backward(g, 1); }, x);
  expect_gradient([&](auto& v) { return cumprod(v, 1); }, [&](auto& g) { return cumprod_backward(g, x, 1); }, x);
  expect_gradient([&](auto& v) { return median(v, 1); }, [&](auto& g) { return median_backward(g, x, 1); }, x);
  expect_gradient([&](auto& v) { return quantile(v, 0.3, 1); },
                  [&](auto& g) { return quantile_backward(g, x, 0.3, 1); }, x);
  for (double p : {0.5, 1.0, 2.0, 3.0, kInf, -kInf}) {
    expect_gradient([&](auto& v) { return norm(v, p, 1); }, [&](auto& g) { return norm_backward(g, x, p, 1); }, x);
  }
}

TEST(ReduceBackward, ProductsWithZeros) {
  for (const Tensor& x : {tensor({2.0, 0.0, 3.0, 4.0, 5.0}, DType::f64), tensor({2.0, 0.0, 3.0, 0.0, 5.0}, DType::f64),
                          tensor({7.0}, DType::f64)}) {
    expect_gradient([](auto& v) { return prod(v); }, [&](auto& g) { return prod_backward(g, x); }, x);
    expect_gradient([](auto& v) { return cumprod(v, 0); }, [&](auto& g) { return cumprod_backward(g, x, 0); }, x);
  }
  expect_shape_and_values(prod_backward(tensor(1.0), tensor({2.0, 0.0, 3.0})), {3}, {0, 6, 0});
}

// dx_j = Σ_{i≥j} g_i·Π_{k≤i, k≠j} x_k, along an axis of any length, with no zero, one and two.
TEST(ReduceBackward, CumulativeProductsOfAnyLength) {
  for (const std::int64_t n : {1, 2, 16, 17, 129, 1031}) {
    for (const int zeros : {0, 1, 2}) {
      std::vector<double> x(static_cast<std::size_t>(2 * n * 3)), g(x.size()), expected(x.size(), 0.0);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = 0.7 + 0.6 * static_cast<double>(i * 37 % 101) / 101;
        g[i] = static_cast<double>(i * 53 % 97) / 97 - 0.4;
      }
      const auto at = [n](std::int64_t b, std::int64_t i, std::int64_t c) {
        return static_cast<std::size_t>((b * n + i) * 3 + c);
      };
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t c = 0; c < 3; ++c) {
          if (zeros > 0) x[at(b, n / 3, c)] = 0;
          if (zeros > 1) x[at(b, n / 2, c)] = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            double product = 1;
            for (std::int64_t i = 0; i < n; ++i) {
              if (i != j) product *= x[at(b, i, c)];
              if (i >= j) expected[at(b, j, c)] += g[at(b, i, c)] * product;
            }
          }
        }
      }
      const Shape shape{2, n, 3};
      const Tensor dx = cumprod_backward(tensor_from(g, shape, DType::f64), tensor_from(x, shape, DType::f64), 1);
      const std::vector<double> found = dx.to_vector();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-9 * (1 + std::abs(expected[i]))) << n << ' ' << zeros << ' ' << i;
    }
  }
}

TEST(ReduceBackward, TiesShareTheGradient) {
  expect_shape_and_values(max_backward(tensor(6.0), tensor({2.0, 5.0, 5.0, 5.0})), {4}, {0, 2, 2, 2});
  expect_shape_and_values(max_backward(tensor(1.0), tensor({2.0, kNaN})), {2}, {0, 1});
}

TEST(ReduceBackward, ZeroVectorsAndConstantsHaveGradientZero) {
  expect_shape_and_values(norm_backward(tensor(1.0), zeros({3})), {3}, {0, 0, 0});
  expect_shape_and_values(stddev_backward(tensor(1.0), ones({3})), {3}, {0, 0, 0});
}

}  // namespace
}  // namespace ebb
