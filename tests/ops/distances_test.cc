// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "ebb/autograd.h"
#include "ebb/gradcheck.h"
#include "ebb/ops.h"
#include "ebb/ops/linear.h"
#include "expect_error.h"
#include "ops/distance_nodes.h"
#include "ops/values.h"

// cdist and pdist for every p, dtype and layout, and at the ends of their ranges. The table tests the calls themselves.
namespace ebb {
namespace {

Tensor point_numbers(const Shape& shape, double offset = 0) {
  return reshape(sin(arange(0, shape.numel(), 1, DType::f64) * 1.3 + 0.4 + offset), shape).eval();
}

void expect_distance_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
  require_gradients(f, inputs);
  require_second_gradients(f, inputs);
}

TEST(Cdist, IsTheNormOfEveryDifference) {
  const Tensor a = point_numbers({2, 3}), b = point_numbers({4, 3}, 1);
  for (const double p : {0.0, 1.0, 1.5, 2.0, 3.0, kInf}) {
    const Tensor d = cdist(a, b, p);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 4; ++j) EXPECT_NEAR(d[i][j].item<double>(), norm(a[i] - b[j], p).item<double>(), 1e-14);
    expect_distance_gradients([p](const std::vector<Tensor>& v) { return cdist(v[0], v[1], p); }, {a, b});
  }
}

TEST(Cdist, OfBatchesThatBroadcast) {
  const Tensor a = point_numbers({3, 1, 5, 4}), b = point_numbers({2, 7, 4}, 1);
  for (const double p : {1.0, 2.0, kInf}) {
    const Tensor d = cdist(a, b, p);
    ASSERT_EQ(d.shape(), Shape({3, 2, 5, 7}));
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 2; ++j) EXPECT_TRUE(allclose(d[i][j], cdist(a[i][0], b[j], p), {.rtol = 1e-14, .atol = 0}));
    expect_distance_gradients([p](const std::vector<Tensor>& v) { return cdist(v[0], v[1], p); },
                              {point_numbers({2, 1, 2, 3}), point_numbers({2, 3, 3}, 1)});
  }
  EXPECT_THROW_MESSAGE(cdist(ones({2, 3, 4}), ones({3, 3, 4})), "cdist");
  EXPECT_THROW_MESSAGE(cdist(ones({3, 4}), ones({3, 5})),
                       "cdist: needs rows of equal length, [..., m, k] and [..., n, k], got shapes [3, 4] and [3, 5]");
}

// Differences are formed before they are squared: far from the origin products of f32 would have no correct digit.
TEST(Cdist, OfF32HasTheDigitsOfF32) {
  for (const double p : {1.0, 2.0}) {
    for (const double offset : {0.0, 1000.0}) {
      for (const Shape& shape : {Shape{7, 3}, Shape{2, 30, 40}, Shape{67, 17}}) {
        const Tensor a = cast(point_numbers(shape) + offset, DType::f32).eval(),
                     b = cast(point_numbers(shape, 1) + offset, DType::f32).eval();
        const Tensor want = cdist(cast(a, DType::f64), cast(b, DType::f64), p);
        EXPECT_TRUE(allclose(cast(cdist(a, b, p), DType::f64), want, {.rtol = 1e-6, .atol = 0})) << offset;
        const Tensor w = sin(arange(0, want.numel(), 1, DType::f64));
        const auto loss = [&](const Tensor& x, const Tensor& y) {
          return sum(cast(cdist(x, y, p), DType::f64) * reshape(w, want.shape()));
        };
        const Tensor slope = grad([&](const Tensor& x) { return loss(x, b); })(a);
        const Tensor exact = grad([&](const Tensor& x) { return loss(x, cast(b, DType::f64)); })(cast(a, DType::f64));
        EXPECT_TRUE(allclose(cast(slope, DType::f64), exact, {.rtol = 1e-5, .atol = 1e-5})) << offset;
      }
    }
  }
}

TEST(Cdist, EqualRowsHaveDistanceZeroWithSlopeZero) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const double p : {1.0, 2.0}) {
      const Tensor a = cast(point_numbers({5, 33}) + 10, dtype).eval();
      const Tensor d = cdist(a, a, p);
      for (int i = 0; i < 5; ++i) EXPECT_EQ(d[i][i].item<double>(), 0);
      const Tensor slope = grad([&](const Tensor& x) { return sum(diagonal(cdist(x, a, p))); })(a);
      expect_values(cast(slope, DType::f64), std::vector<double>(5 * 33, 0.0));
      const Tensor twice = cat({a, a}, 0).eval();
      const Tensor of_pairs = grad([&](const Tensor& x) { return sum(pdist(x, p)); })(twice);
      EXPECT_TRUE(all(isfinite(of_pairs)).item<bool>());
    }
  }
}

TEST(Cdist, OfRowsThatAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = from_data<float>({1, 2, inf, 0, nan, 1}, {3, 2}), b = from_data<float>({4, 6, 0, -inf}, {2, 2});
  for (const double p : {1.0, 2.0}) {
    const std::vector<float> d = cdist(a, b, p).to_vector<float>();
    EXPECT_EQ(d[0], p == 1 ? 7 : 5);
    EXPECT_EQ(d[1], inf);
    EXPECT_EQ(d[2], inf);
    for (const std::size_t k : {4, 5}) EXPECT_TRUE(std::isnan(d[k])) << k;
  }
  EXPECT_TRUE(std::isnan(cdist(from_data<float>({inf}, {1, 1}), from_data<float>({inf}, {1, 1})).item<double>()));
}

// Squares that leave the range of their type, next to others that do not: by the call, where formulas are preferred.
TEST(Distances, OfNumbersWhoseSquaresOverflowOrVanish) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double size :
         dtype == DType::f32 ? std::vector<double>{1e-30, 1, 1e25} : std::vector<double>{1e-200, 1, 1e200}) {
      const Tensor a = cast(tensor({{3.0, 0.0}, {0.0, 0.0}, {0.0, 5.0}}), dtype) * size;
      const Tensor b = cast(tensor({{0.0, 4.0}, {3.0, 12.0}}), dtype) * size;
      const std::vector<double> want{5, 12, 4, std::sqrt(153.0), 1, std::sqrt(58.0)};
      const Tensor d = distances_node({unsqueeze(a, 0).eval(), unsqueeze(b, 0).eval()}, {.p = 2});
      const std::vector<double> got = (cast(d, DType::f64) / size).to_vector<double>();
      for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6 * want[k]) << size << ' ' << k;
    }
  }
}

TEST(Cdist, OfTransposedAndEmptyRows) {
  const Tensor a = cast(point_numbers({5, 70}), DType::f32).eval(),
               b = cast(point_numbers({5, 9}, 1), DType::f32).eval();
  for (const double p : {1.0, 2.0}) {
    EXPECT_TRUE(allclose(cdist(t(a), t(b), p), cdist(t(a).contiguous(), t(b).contiguous(), p), {.rtol = 0, .atol = 0}));
    EXPECT_EQ(cdist(ones({0, 3}), ones({4, 3}), p).shape(), Shape({0, 4}));
    EXPECT_EQ(cdist(ones({2, 0, 3}), ones({2, 4, 3}), p).shape(), Shape({2, 0, 4}));
    expect_values(cast(cdist(ones({2, 0}), ones({3, 0}), p), DType::f64), std::vector<double>(6, 0.0));
    const Tensor slope = grad([&](const Tensor& x) { return sum(cdist(x, ones({0, 3}), p)); })(ones({2, 3}));
    expect_values(cast(slope, DType::f64), std::vector<double>(6, 0.0));
  }
}

TEST(Cdist, OfHalvesAndIntegersIsThatOfF32Rounded) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor a = cast(point_numbers({5, 9}), dtype).eval(), b = cast(point_numbers({6, 9}, 1), dtype).eval();
    const Tensor want = cast(cdist(cast(a, DType::f32), cast(b, DType::f32)), dtype);
    ASSERT_EQ(cdist(a, b).dtype(), dtype);
    EXPECT_TRUE(allclose(cast(cdist(a, b), DType::f32), cast(want, DType::f32), {.rtol = 0, .atol = 0}));
  }
  expect_values(cast(cdist(reshape(arange(4), {2, 2}), reshape(arange(2), {1, 2})), DType::f64), {0, std::sqrt(8.0)},
                1e-6);
}

TEST(Pdist, IsTheUpperTriangleOfCdist) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const double p : {0.0, 1.0, 1.5, 2.0, kInf}) {
      for (const std::int64_t n : {0, 1, 2, 5, 70, 131}) {
        const Tensor x = cast(point_numbers({n, 7}), dtype).eval(), all = cdist(x, x, p), pairs = pdist(x, p);
        ASSERT_EQ(pairs.shape(), Shape({n * (n - 1) / 2}));
        ASSERT_EQ(pairs.dtype(), dtype);
        const std::vector<double> whole = cast(all, DType::f64).to_vector<double>();
        const std::vector<double> upper = cast(pairs, DType::f64).to_vector<double>();
        std::size_t at = 0;
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = i + 1; j < n; ++j)
            ASSERT_NEAR(upper[at++], whole[static_cast<std::size_t>(i * n + j)], dtype == DType::bf16 ? 2e-2 : 1e-6);
      }
    }
  }
}

TEST(Pdist, HasGradientsAndSecondGradients) {
  for (const double p : {0.0, 1.0, 1.5, 2.0, kInf})
    expect_distance_gradients([p](const std::vector<Tensor>& v) { return pdist(v[0], p); }, {point_numbers({4, 3})});
  // Many rows, against cdist: every pair counts once.
  const Tensor x = point_numbers({131, 5});
  const Tensor of_pairs = grad([](const Tensor& v) { return sum(square(pdist(v)) + pdist(v)); })(x);
  const Tensor of_all = grad([](const Tensor& v) { return sum(square(cdist(v, v)) + cdist(v, v)) / 2; })(x);
  EXPECT_TRUE(allclose(of_pairs, of_all, {.rtol = 1e-12, .atol = 1e-12}));
}

TEST(Pdist, RefusesWhatIsNotAMatrix) {
  EXPECT_THROW_MESSAGE(pdist(ones({2, 3, 4})), "pdist: needs a matrix and p >= 0, got shape [2, 3, 4] and p = 2");
  EXPECT_THROW_MESSAGE(pdist(ones({2, 3}), -1), "pdist: needs a matrix and p >= 0, got shape [2, 3] and p = -1");
}

// Operands on no device are computed wherever the result is used.
TEST(Cdist, OfNumbersOnNoDevice) {
  const Tensor x = reshape(arange(0, 6, 1, DType::f32), {3, 2}), here = cast(point_numbers({3, 3}), DType::f32).eval();
  const Tensor want = reshape(
      row({0, std::sqrt(8.0), std::sqrt(32.0), std::sqrt(8.0), 0, std::sqrt(8.0), std::sqrt(32.0), std::sqrt(8.0), 0}),
      {3, 3});
  EXPECT_TRUE(
      allclose(cast(cdist(x, x) + here, DType::f64), want + cast(here, DType::f64), {.rtol = 1e-6, .atol = 1e-6}));
}

}  // namespace
}  // namespace ebb
