// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "ebb/autograd.h"
#include "ebb/backward/linear.h"
#include "ebb/gradcheck.h"
#include "ebb/ops.h"
#include "ebb/ops/arrange.h"
#include "ebb/ops/image.h"
#include "ebb/ops/linear.h"
#include "ebb/ops/numbers.h"
#include "ebb/ops/volume.h"
#include "expect_error.h"
#include "graph/node.h"
#include "ops/values.h"

// Operations that are formulas of others: values by hand, first and second gradients by differences.
namespace ebb {
namespace {

Tensor numbers(const Shape& shape, double offset = 0) {
  return reshape(sin(arange(0, shape.numel(), 1, DType::f64) * 1.3 + 0.4 + offset), shape).eval();
}
Tensor whole(const std::vector<std::int64_t>& v, const Shape& shape) { return reshape(integers(v), shape); }

void expect_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
  require_gradients(f, inputs);
  require_second_gradients(f, inputs);
}

TEST(Logaddexp, IsExactAtInfinitiesAndHasAHessianAtTies) {
  expect_values(logaddexp(row({0, kInf, -kInf, kInf, -kInf, 1e300}), row({0, kInf, -kInf, 0, 3, -1e300})),
                {std::log(2.0), kInf, -kInf, kInf, 3, 1e300});
  // log(e^a + e^b): gradient (1/2, 1/2) and Hessian ±1/4 where a = b
  const Tensor h =
      hessian([](const Tensor& v) { return logaddexp(select(v, 0, 0), select(v, 0, 1)); }, row({0.7, 0.7}));
  expect_values(h, {0.25, -0.25, -0.25, 0.25});
  expect_gradients([](const std::vector<Tensor>& v) { return logaddexp(v[0], v[1]); },
                   {numbers({2, 3}), numbers({3}, 2)});
}

TEST(Fmod, HasTheSignOfTheDividendAndIsExact) {
  expect_values(fmod(row({5.5, -5.5, 5.5, 0, 1e17}), row({2, 2, -2, 3, 3})), {1.5, -1.5, 1.5, 0, std::fmod(1e17, 3)});
  expect_values(fmod(integers({7, -7}), integers({3, 3})), {1, -1});
  expect_gradients([](const std::vector<Tensor>& v) { return fmod(v[0] * 5, v[1] + 3); },
                   {numbers({5}), numbers({5}, 1)});
  const Tensor x = variable(row({0}));
  expect_values(backward(sum(fmod(x, 2.0)))[x], {1});
}

TEST(Copysign, SeesTheSignOfZero) {
  const Tensor y = copysign(row({1, -2, 3}), row({-0.0, 0.0, -5}));
  expect_values(y, {-1, 2, -3});
  expect_values(cast(signbit(row({-0.0, 0.0, -1, 1, -kInf})), DType::f64), {1, 0, 1, 0, 1});
  const Tensor a = variable(row({1, -2}));
  expect_values(backward(sum(copysign(a, row({-1, -1}))))[a], {-1, 1});
}

TEST(NanToNum, ReplacesWhatIsNoNumber) {
  expect_values(nan_to_num(row({kNaN, kInf, -kInf, 2})),
                {0, std::numeric_limits<double>::max(), -std::numeric_limits<double>::max(), 2});
  expect_values(nan_to_num(row({kNaN, kInf, -kInf}), {.nan = 1, .posinf = 2, .neginf = 3}), {1, 2, 3});
  EXPECT_EQ(nan_to_num(row({kInf}, DType::f16)).item<double>(), 65504);
  const Tensor x = variable(row({kNaN, 3}));
  expect_values(backward(sum(nan_to_num(x)))[x], {0, 1});
}

TEST(Erfinv, UndoesErf) {
  const Tensor x = row({-0.999999, -0.9, -0.3, -1e-10, 0, 0.2, 0.7, 0.99, 1 - 1e-14});
  expect_values(erf(erfinv(x)), x.to_vector(), 1e-15);
  expect_values(erfinv(row({-3, -1, 1, 2, kNaN})), {kNaN, -kInf, kInf, kNaN, kNaN});
  EXPECT_NEAR(erfinv(row({0.5})).item<double>(), 0.47693627620446987, 1e-15);
  EXPECT_NEAR(erfinv(row({0.5}, DType::f32)).item<double>(), 0.47693627620446987, 1e-7);
  expect_gradients([](const std::vector<Tensor>& v) { return erfinv(v[0] * 0.9); }, {numbers({5})});
}

// 1 − |x| is exact, so that erfc tells how many digits of y are right far out.
TEST(Erfinv, KeepsItsDigitsNearOne) {
  for (const double rest : {1e-3, 1e-5, 3e-6, 0x1p-24, 1e-9, 1e-12, 1e-14, 0x1p-52, 0x1p-53}) {
    const double x = 1 - rest, y = erfinv(row({x})).item<double>(), slope = 2 * y * y + 1;
    EXPECT_NEAR(std::erfc(y) / (1 - x), 1, 1e-15 * slope) << rest;
    EXPECT_EQ(erfinv(row({-x})).item<double>(), -y) << rest;
  }
}

TEST(Erfinv, OfFloatsIsWithinTwoAndAHalfUnits) {
  std::vector<double> points;
  for (int i = -999; i < 1000; ++i) points.push_back(static_cast<double>(static_cast<float>(i * 0.001)));
  for (int i = 1; i < 24; ++i) points.push_back(1 - std::ldexp(1.0, -i)), points.push_back(std::ldexp(1.0, -5 * i));
  const std::vector<double> exact = erfinv(row(points)).to_vector(),
                            found = erfinv(row(points, DType::f32)).to_vector();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto near = static_cast<float>(std::fabs(exact[i]));
    const double unit = static_cast<double>(std::nextafter(near, 10.0f)) - static_cast<double>(near);
    EXPECT_LE(std::fabs(found[i] - exact[i]), 2.5 * unit) << points[i];
  }
}

// The first is s = e^(y²)·√π/2, the second 2y·s², the third 2s³·(1 + 4y²).
TEST(Erfinv, HasDerivativesOfAnyOrder) {
  const Function total = [](const Tensor& v) { return sum(erfinv(v)); };
  const Function of_first = [&](const Tensor& v) { return sum(grad(total)(v)); };
  const Function of_second = [&](const Tensor& v) { return sum(grad(of_first)(v)); };
  const Tensor x = row({-0.9, 0, 0.3}), y = erfinv(x), first = grad(total)(x), second = grad(of_first)(x),
               third = grad(of_second)(x);
  const std::vector<double> v = y.to_vector(), a = first.to_vector(), b = second.to_vector(), c = third.to_vector();
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double slope = std::exp(v[i] * v[i]) / std::numbers::inv_sqrtpi / 2;
    EXPECT_NEAR(a[i], slope, 1e-14 * slope);
    EXPECT_NEAR(b[i], 2 * v[i] * slope * slope, 1e-12 * std::pow(slope, 2));
    EXPECT_NEAR(c[i], 2 * std::pow(slope, 3) * (1 + 4 * v[i] * v[i]), 1e-12 * std::pow(slope, 4));
  }
  const Tensor ends = variable(row({-1, 1}));
  expect_values(backward(sum(erfinv(ends)))[ends], {kInf, kInf});
}

TEST(Bits, OfIntegers) {
  const Tensor a = integers({12, -1, 7}), b = integers({10, 5, 0});
  expect_values(bitwise_and(a, b), {8, 5, 0});
  expect_values(bitwise_or(a, b), {14, -1, 7});
  expect_values(bitwise_xor(a, b), {6, -6, 7});
  expect_values(bitwise_not(a), {-13, 0, -8});
  expect_values(bitwise_not(cast(integers({5}), DType::u8)), {250});
  expect_values(bitwise_left_shift(a, integers({2})), {48, -4, 28});
  expect_values(bitwise_right_shift(a, integers({1})), {6, -1, 3});
  EXPECT_THROW_MESSAGE(bitwise_and(row({1}), b), "needs integers");
  expect_values(bitwise_left_shift(a, integers({64})), {0, 0, 0});
  expect_values(bitwise_right_shift(a, integers({64})), {0, -1, 0});
  const Tensor bytes = cast(integers({255, 1}), DType::u8);
  expect_values(bitwise_left_shift(bytes, cast(integers({8, 7}), DType::u8)), {0, 128});
  expect_values(bitwise_right_shift(bytes, cast(integers({8, 0}), DType::u8)), {0, 1});
  EXPECT_THROW_MESSAGE(bitwise_left_shift(a, integers({-1})).eval(),
                       "bitwise_left_shift: the number of places is negative");
}

TEST(Linear, IsItsProductAndItsRuleIsPublic) {
  const Tensor x = numbers({2, 3, 4}), w = numbers({5, 4}, 1), b = numbers({5}, 2);
  EXPECT_TRUE(allclose(linear(x, w, b), matmul(x, t(w)) + b));
  expect_gradients([](const std::vector<Tensor>& v) { return linear(v[0], v[1], v[2]); }, {x, w, b});
  const Tensor vx = variable(x), vw = variable(w), vb = variable(b), g = numbers({2, 3, 5}, 3);
  const Gradients all = backward(sum(linear(vx, vw, vb) * g));
  const auto [dx, dw, db] = linear_backward(g, x, w);
  EXPECT_TRUE(allclose(dx, all[vx]) && allclose(dw, all[vw]) && allclose(db, all[vb]));
  EXPECT_THROW_MESSAGE(linear_backward(ones({2, 3, 4}), x, w), "linear_backward: the gradient has shape [2, 3, 4]");
  EXPECT_THROW_MESSAGE(linear(x, t(w)), "do not fit");
}

TEST(Addmm, ScalesBothParts) {
  const Tensor c = numbers({3}), a = numbers({2, 4}), b = numbers({4, 3}, 1);
  EXPECT_TRUE(allclose(addmm(c, a, b, 0.5, 2), 0.5 * c + 2 * matmul(a, b)));
  expect_values(addmm(full({3}, kNaN, DType::f64), a, b, 0), matmul(a, b).to_vector());
  const Tensor bb = numbers({2, 4, 3}, 1), aa = numbers({2, 2, 4});
  EXPECT_TRUE(allclose(baddbmm(c, aa, bb), c + matmul(aa, bb)));
}

// 256 + 1 needs nine bits, bf16 has eight: a rounded product would lose the 1.
TEST(Addmm, RoundsHalvesOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double large = dtype == DType::bf16 ? 256 : 2048;
    const Tensor a = cast(tensor({{large, 1.0}}), dtype), b = cast(tensor({{1.0}, {1.0}}), dtype);
    const Tensor c = cast(tensor({{-large}}), dtype);
    expect_values(addmm(c, a, b), {1});
    expect_values(baddbmm(unsqueeze(c, 0), unsqueeze(a, 0), unsqueeze(b, 0)), {1});
    EXPECT_EQ(addmm(c, a, b).dtype(), dtype);
    const auto [dc, da, db] = std::tuple(grad([&](const Tensor& x) { return sum(addmm(x, a, b)); })(c),
                                         grad([&](const Tensor& x) { return sum(addmm(c, x, b)); })(a),
                                         grad([&](const Tensor& x) { return sum(addmm(c, a, x)); })(b));
    EXPECT_TRUE(dc.dtype() == dtype && da.dtype() == dtype && db.dtype() == dtype);
    expect_values(db, {large, 1});
  }
}

TEST(Addmm, OfIntegersIsAnInteger) {
  const Tensor a = tensor({{1, 2}, {3, 4}}),
               b = from_data(std::vector<std::int64_t>{(std::int64_t{1} << 60) + 1, 0, 0, 1}, {2, 2});
  const Tensor y = addmm(tensor({{5, 6}, {7, 8}}), a, b, 2, 3);
  EXPECT_EQ(y.dtype(), DType::i64);
  const std::int64_t big = std::int64_t{3} << 60;
  EXPECT_EQ(y.to_vector<std::int64_t>()[0], 10 + big + 3);
  EXPECT_EQ(y.to_vector<std::int64_t>()[1], 12 + 6);
  EXPECT_THROW_MESSAGE(addmm(a, a, b, 0.5), "addmm: beta must be a whole number for i64, got 0.5");
  EXPECT_THROW_MESSAGE(baddbmm(unsqueeze(a, 0), unsqueeze(a, 0), unsqueeze(b, 0), 1, 1.5),
                       "baddbmm: alpha must be a whole number for i64, got 1.5");
}

TEST(Addmm, KeepsTheDigitsOfTheWidestOperand) {
  const Tensor a = tensor({{1.0}}), b = tensor({{1.0}}), c = tensor({{1e-12}}, DType::f64);
  EXPECT_EQ(addmm(c, a, b).item<double>(), 1 + 1e-12);
}

TEST(Addmm, RefusesShapesThatDoNotFit) {
  EXPECT_THROW_MESSAGE(addmm(ones({4, 2, 2}), ones({2, 3}), ones({3, 2})),
                       "addmm: an input of shape [4, 2, 2] cannot be added to a product of shape [2, 2]");
  EXPECT_THROW_MESSAGE(baddbmm(ones({1}), ones({2, 2, 3}), ones({1, 3, 2})),
                       "baddbmm: needs equally many matrices of 3 axes, got shapes [2, 2, 3] and [1, 3, 2]");
}

TEST(PairwiseDistance, IsTheNormOfEveryDifference) {
  expect_gradients([](const std::vector<Tensor>& v) { return pairwise_distance(v[0], v[1]); },
                   {numbers({2, 3}), numbers({2, 3}, 1)});
}

// Windows of every kind: of equal or different sizes, short and long, along either axis or both.
TEST(AdaptiveAvgPool, IsTheMeanOfEveryWindow) {
  const auto first = [](std::int64_t i, std::int64_t n, std::int64_t outputs) { return i * n / outputs; };
  const auto last = [](std::int64_t i, std::int64_t n, std::int64_t outputs) {
    return ((i + 1) * n + outputs - 1) / outputs;
  };
  for (const auto& [h, w, p, q] : std::initializer_list<std::array<std::int64_t, 4>>{{1, 200, 1, 3},
                                                                                     {3, 198, 2, 3},
                                                                                     {50, 7, 3, 7},
                                                                                     {40, 40, 2, 4},
                                                                                     {9, 10, 4, 7},
                                                                                     {37, 300, 3, 17},
                                                                                     {1, 200, 1, 77},
                                                                                     {90, 70, 110, 33},
                                                                                     {1, 20000, 1, 3}}) {
    const Tensor x = numbers({2, 3, h, w});
    const Tensor y = adaptive_avg_pool2d(x, {p, q});
    ASSERT_EQ(y.shape(), Shape({2, 3, p, q}));
    for (std::int64_t i = 0; i < p; ++i) {
      for (std::int64_t j = 0; j < q; ++j) {
        const Tensor rows = narrow(x, 2, first(i, h, p), last(i, h, p) - first(i, h, p));
        const Tensor window = narrow(rows, 3, first(j, w, q), last(j, w, q) - first(j, w, q));
        EXPECT_TRUE(allclose(select(select(y, 3, j), 2, i), mean(window, {2, 3}), {.rtol = 1e-12, .atol = 1e-13}));
      }
    }
    if (h == 1) {
      EXPECT_TRUE(allclose(adaptive_avg_pool1d(select(x, 2, 0), q), select(y, 2, 0)));
    }
  }
  require_gradients([](const Tensor& x) { return adaptive_avg_pool1d(x, 3); }, numbers({2, 2, 200}));
  require_gradients([](const Tensor& x) { return adaptive_avg_pool2d(x, {2, 3}); }, numbers({1, 2, 17, 25}));
  require_gradients([](const Tensor& x) { return adaptive_avg_pool1d(x, 31); }, numbers({1, 2, 70}));
}

TEST(TraceAndKron, AreWhatTheirDefinitionsSay) {
  expect_values(trace(whole({1, 2, 3, 4}, {2, 2})), {5});
  expect_values(kron(whole({1, 2}, {1, 2}), whole({1, 2, 3, 4}, {2, 2})), {1, 2, 2, 4, 3, 4, 6, 8});
  expect_gradients([](const std::vector<Tensor>& v) { return kron(v[0], v[1]); },
                   {numbers({2, 2}), numbers({2, 3}, 1)});
}

TEST(Stacks, PutVectorsSideBySideOrAboveEachOther) {
  EXPECT_EQ(hstack({row({1, 2}), row({3})}).shape(), Shape{3});
  EXPECT_EQ(hstack({ones({2, 1}), ones({2, 3})}).shape(), (Shape{2, 4}));
  EXPECT_EQ(vstack({row({1, 2}), row({3, 4})}).shape(), (Shape{2, 2}));
}

TEST(RepeatInterleave, RepeatsEachInARow) {
  expect_values(repeat_interleave(row({1, 2, 3}), 2), {1, 1, 2, 2, 3, 3});
  expect_values(repeat_interleave(row({1, 2, 3}), integers({2, 0, 1})), {1, 1, 3});
  expect_values(repeat_interleave(whole({1, 2, 3, 4}, {2, 2}), 2, 0), {1, 2, 1, 2, 3, 4, 3, 4});
  expect_gradients(
      [](const std::vector<Tensor>& v) {
        return repeat_interleave(v[0], integers({2, 1, 3}), 1);
      },
      {numbers({2, 3})});
}

TEST(Randperm, HasEveryNumberOnce) {
  const Tensor p = randperm(1000);
  EXPECT_TRUE(all(sort(p).first == arange(1000)).item<bool>());
  EXPECT_FALSE(all(p == arange(1000)).item<bool>());
}

TEST(Searchsorted, FindsTheFirstPlaceOrTheLast) {
  const Tensor s = row({1, 3, 3, 5}), v = row({0, 1, 3, 4, 9});
  expect_values(searchsorted(s, v), {0, 0, 1, 3, 4});
  expect_values(searchsorted(s, v, true), {0, 1, 3, 3, 4});
  expect_values(searchsorted(s, row({3, 0, 3, 9, 1})), {1, 0, 1, 4, 0});
  expect_values(searchsorted(whole({1, 2, 5, 6}, {2, 2}), whole({2, 0, 6, 7}, {2, 2})), {1, 0, 1, 2});
}

// Random rows with ties, NaNs and infinities, against counting.
TEST(Searchsorted, CountsWhatComesBefore) {
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  for (const auto& [n, m] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 40}, {30, 7}, {200, 333}}) {
    const Tensor coarse = floor(numbers({3, n + m}) * 8) / 4;
    const Tensor mixed = where(coarse > 1.7, kInf, where(coarse < -1.7, kNaN, coarse)).eval();
    const Tensor s = sort(narrow(mixed, 1, 0, n), 1).first, v = narrow(mixed, 1, n, m);
    const std::vector<double> rows = s.to_vector(), values = contiguous(v).to_vector();
    for (const bool right : {false, true}) {
      const std::vector<std::int64_t> found = searchsorted(s, v, right).to_vector<std::int64_t>();
      for (std::int64_t i = 0; i < 3 * m; ++i) {
        const double value = values[static_cast<std::size_t>(i)];
        std::int64_t want = 0;
        for (std::int64_t k = 0; k < n; ++k) {
          const double at = rows[static_cast<std::size_t>(i / m * n + k)];
          want += right ? !less(value, at) : less(at, value);
        }
        ASSERT_EQ(found[static_cast<std::size_t>(i)], want) << value << (right ? " behind" : " before") << " equals";
      }
    }
  }
  expect_values(searchsorted(row({1, 2}), zeros({0}, DType::f64)), {});
  expect_values(searchsorted(zeros({0}, DType::f64), row({1, 2})), {0, 0});
}

TEST(Cummax, KeepsTheLargestSoFarAndItsPlace) {
  const auto [v, i] = cummax(row({1, 3, 2, 3, 5, 4}), 0);
  expect_values(v, {1, 3, 3, 3, 5, 5});
  expect_values(i, {0, 1, 1, 3, 4, 4});
  const auto [w, j] = cummin(row({3, 4, 2, kNaN, 1}), 0);
  expect_values(w, {3, 3, 2, kNaN, kNaN});
  expect_values(j, {0, 0, 2, 3, 3});
  const Tensor x = variable(row({1, 3, 2}));
  expect_values(backward(sum(cummax(x, 0).first))[x], {1, 2, 0});
}

TEST(Logcumsumexp, IsTheLogarithmOfTheSumSoFar) {
  const Tensor x = numbers({2, 5});
  EXPECT_TRUE(allclose(logcumsumexp(x, 1), log(cumsum(exp(x), 1))));
  expect_values(logcumsumexp(row({-kInf, 1000, 1000}), 0), {-kInf, 1000, 1000 + std::log(2.0)});
  expect_gradients([](const std::vector<Tensor>& v) { return logcumsumexp(v[0], 1); }, {x});
  for (const std::int64_t n :
       {512, 513, 520, 1025, 4099}) {  // above 512 in blocks, and above 4,096 in blocks of blocks
    const Tensor line = 30 * randn({3, n, 2});
    std::vector<double> want;
    const std::vector<double> given = line.to_vector<double>();
    for (std::int64_t i = 0; i < 3; ++i) {
      std::vector<double> most(2, -kInf), sum(2, 0);
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t k = 0; k < 2; ++k) {
          const double v = given[(i * n + j) * 2 + k], top = std::max(most[k], v);
          sum[k] = sum[k] * std::exp(most[k] - top) + std::exp(v - top);
          most[k] = top;
          want.push_back(top + std::log(sum[k]));
        }
      }
    }
    EXPECT_TRUE(allclose(logcumsumexp(line, 1), from_data(want, line.shape()), {.rtol = 1e-5, .atol = 1e-4})) << n;
  }
  const Tensor begins = cat({full({600}, -kInf, DType::f64), zeros({2}, DType::f64)}, 0);  // nothing yet is nothing
  expect_values(narrow(logcumsumexp(begins, 0), 0, 599, 3), {-kInf, 0, std::log(2.0)});
  const Tensor w = variable(cast(randn({2, 521}), DType::f64)), g = cast(randn({2, 521}), DType::f64);
  const Tensor slope = backward(sum(g * logcumsumexp(w, 1)))[w];
  const Tensor turned = flip(cumsum(flip(g * exp(-logcumsumexp(w, 1)), {1}), 1), {1});
  EXPECT_TRUE(allclose(slope, exp(w) * turned, {.rtol = 1e-9, .atol = 1e-9}));
}

TEST(IndexFillAndPut, WriteToPlaces) {
  expect_values(index_fill(row({1, 2, 3}), 0, integers({2, 0}), 9.0), {9, 2, 9});
  expect_values(index_fill(row({1, 2, 3}), 0, integers({-1, 2, -3}), 9.0), {9, 2, 9});
  const Tensor whole = reshape(arange(6), {2, 3});
  expect_values(cast(index_fill(whole, 1, integers({1}), 7), DType::f64), {0, 7, 2, 3, 7, 5});
  EXPECT_EQ(index_fill(whole, 1, integers({1}), 0.5).dtype(), DType::f32);
  EXPECT_THROW_KIND(index_fill(whole, 1, integers({0, -4}), 7).eval(), index, "index_fill: index[1] = -4");
  expect_gradients(
      [](const std::vector<Tensor>& v) {
        return index_fill(v[0], 1, integers({2, 0, 2}), sum(square(v[1])));
      },
      {reshape(row({1, 2, 3, 4, 5, 6}), {2, 3}), row({0.3, 0.2})});
  const Tensor x = zeros({2, 3}, DType::f64), at = integers({0, 1, 0}), to = integers({2, -3, 2});
  expect_values(index_put(x, {at, to}, row({1, 2, 3})), {0, 0, 3, 2, 0, 0});
  expect_values(index_put(x, {at, to}, row({1, 2, 3}), true), {0, 0, 4, 2, 0, 0});
  expect_values(index_put(x, {integers({1})}, row({7})), {0, 0, 0, 7, 7, 7});
  try {
    index_put(x, {integers({0, -3, 5})}, row({7})).to_vector<double>();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "index_put: index[1] = -3 is outside [-2, 2)");
    EXPECT_EQ(e.kind(), Error::Kind::index);
  }
  expect_gradients(
      [&](const std::vector<Tensor>& v) {
        return index_put(v[0], {at, to}, v[1], true);
      },
      {numbers({2, 3}), numbers({3}, 1)});
}

TEST(ScatterReduce, CombinesWhatMeetsAtAPlace) {
  const Tensor x = row({1, 2, 3}), at = integers({0, 0, 2, 2}), src = row({5, -1, 7, 9});
  expect_values(scatter_reduce(x, 0, at, src, "sum"), {5, 2, 19});
  expect_values(scatter_reduce(x, 0, at, src, "sum", false), {4, 2, 16});
  expect_values(scatter_reduce(x, 0, at, src, "mean"), {5.0 / 3, 2, 19.0 / 3});
  expect_values(scatter_reduce(x, 0, at, src, "mean", false), {2, 2, 8});
  expect_values(scatter_reduce(x, 0, at, src, "amax"), {5, 2, 9});
  expect_values(scatter_reduce(x, 0, at, src, "amin"), {-1, 2, 3});
  expect_values(scatter_reduce(x, 0, at, src, "amin", false), {-1, 2, 7});
  expect_values(scatter_reduce(x, 0, at, src, "prod"), {-5, 2, 189});
  expect_values(scatter_reduce(x, 0, at, src, "prod", false), {-5, 2, 63});
  EXPECT_THROW_MESSAGE(scatter_reduce(x, 0, at, src, "median"), "'sum', 'prod', 'mean', 'amax' or 'amin'");
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
    expect_gradients([&](const std::vector<Tensor>& v) { return scatter_reduce(v[0], 0, at, v[1], reduce); },
                     {numbers({3}), numbers({4}, 1)});
}

// Runs of every length, and zeros, whose gradient is the product of the others.
TEST(ScatterReduce, ProductsOfLongRunsWithZeros) {
  const Tensor at = integers({1, 0, 1, 1, 3, 1, 0, 1, 1, 3}), src = row({2, 3, 0, 4, 5, 6, 7, 2, 3, 2});
  expect_values(scatter_reduce(row({1, 1, 9, 1}), 0, at, src, "prod"), {21, 0, 9, 10});
  const Tensor slopes = grad([&](const Tensor& s) {
    return sum(scatter_reduce(row({1, 1, 9, 1}), 0, at, s, "prod"));
  })(src);
  expect_values(slopes, {0, 7, 288, 0, 2, 0, 3, 0, 0, 5});
  expect_gradients([&](const std::vector<Tensor>& v) { return scatter_reduce(v[0], 0, at, v[1], "prod", false); },
                   {numbers({4}), numbers({10}, 1)});
}

TEST(NonzeroAndUnique, AreComputedAtOnce) {
  expect_values(nonzero(whole({0, 3, 0, 4}, {2, 2})), {0, 1, 1, 1});
  EXPECT_EQ(nonzero(zeros({2, 2})).shape(), (Shape{0, 2}));
  const auto [values, inverse, counts] = unique(whole({3, 1, 3, 2}, {2, 2}));
  expect_values(values, {1, 2, 3});
  expect_values(inverse, {2, 0, 2, 1});
  EXPECT_EQ(inverse.shape(), (Shape{2, 2}));
  expect_values(counts, {1, 1, 2});
}

// Arrays of other libraries and files may hold bytes that are neither 0 nor 1.
TEST(NonzeroAndUnique, TakesEveryByteOfAMaskButZeroForTrue) {
  constexpr std::int64_t kBytes = 100'000;
  const std::uint8_t some[] = {0, 2, 255, 0, 1, 128, 127, 0, 0, 3, 64};
  const BufferPtr memory = BufferPtr::allocate(kBytes, "mask");
  std::vector<double> expected;
  for (std::int64_t i = 0; i < kBytes; ++i) {
    const std::uint8_t byte = some[i % std::size(some)];
    memory.data()[i] = std::byte{byte};
    if (byte != 0) expected.push_back(static_cast<double>(i));
  }
  expect_values(reshape(nonzero(make_data(DType::bool_, Shape{kBytes}, memory)), {-1}), expected);
  const Tensor places = nonzero(make_data(DType::bool_, Shape{kBytes / 100, 100}, memory));
  expect_values(select(places, 1, 0) * 100 + select(places, 1, 1), expected);
}

TEST(Unfold, ListsWindowsAndFoldAddsThem) {
  const Tensor x = reshape(arange(0, 9, 1, DType::f64), {1, 1, 3, 3});
  const Tensor columns = unfold(x, 2);
  EXPECT_EQ(columns.shape(), (Shape{1, 4, 4}));
  expect_values(columns, {0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8});
  expect_values(fold(columns, 3, 2), {0, 2, 2, 6, 16, 10, 6, 14, 8});
  const UnfoldOptions o{.dilation = {1, 2}, .padding = {1, 2}, .stride = {2, 1}};
  // A convolution is a product with the columns.
  const Tensor image = numbers({2, 3, 5, 6}), w = numbers({4, 3, 3, 2}, 1);
  const Tensor by_columns = matmul(reshape(w, {4, 18}), unfold(image, {3, 2}, o));
  const Tensor direct = conv2d(image, w, {}, {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}});
  EXPECT_TRUE(allclose(reshape(by_columns, direct.shape()), direct));
  expect_gradients([&](const std::vector<Tensor>& v) { return unfold(v[0], {3, 2}, o); }, {numbers({1, 1, 4, 4})});
  expect_gradients([&](const std::vector<Tensor>& v) { return fold(v[0], {4, 4}, 2); }, {numbers({1, 4, 9})});
}

TEST(PixelShuffle, IsUndoneByItsOpposite) {
  const Tensor x = reshape(arange(0, 16, 1, DType::f64), {1, 4, 2, 2}), y = pixel_shuffle(x, 2);
  expect_values(y, {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  expect_values(pixel_unshuffle(y, 2), x.to_vector());
  EXPECT_EQ(pixel_shuffle(zeros({3, 4, 0, 2}), 2).shape(), Shape({3, 1, 0, 4}));
  EXPECT_EQ(pixel_unshuffle(zeros({0, 1, 2, 2}), 2).shape(), Shape({0, 4, 1, 1}));
}

TEST(Interpolate, FollowsPyTorchsFormulas) {
  const Tensor x = reshape(row({1, 2, 4}), {1, 1, 3});
  expect_values(interpolate(x, {.size = {6}}), {1, 1, 2, 2, 4, 4});
  expect_values(interpolate(x, {.scale_factor = {2}, .mode = "linear"}), {1, 1.25, 1.75, 2.5, 3.5, 4});
  expect_values(interpolate(x, {.size = {5}, .mode = "linear", .align_corners = true}), {1, 1.5, 2, 3, 4});
  expect_values(interpolate(reshape(row({1, 2, 3, 4}), {1, 1, 4}), {.size = {2}, .mode = "area"}), {1.5, 3.5});
  const Tensor image = numbers({1, 2, 4, 3});
  for (const char* mode : {"nearest", "bilinear", "bicubic", "area"})
    expect_gradients(
        [&](const std::vector<Tensor>& v) {
          return interpolate(v[0], {.size = {3, 5}, .mode = mode});
        },
        {image});
  // Keys' kernel with a = −0.75, written as a function of the distance.
  const auto kernel = [](double t) {
    const double a = -0.75, d = std::fabs(t);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
  };
  const Tensor line = reshape(numbers({8}), {1, 1, 1, 8});
  const std::vector<double> values = line.to_vector();
  const std::vector<double> fine = interpolate(line, {.size = {1, 16}, .mode = "bicubic"}).to_vector();
  for (int i = 0; i < 16; ++i) {
    const double at = (i + 0.5) / 2 - 0.5;
    double expected = 0;
    for (int k = -2; k < 10; ++k) expected += kernel(at - k) * values[static_cast<std::size_t>(std::clamp(k, 0, 7))];
    EXPECT_NEAR(fine[static_cast<std::size_t>(i)], expected, 1e-12);
  }
  EXPECT_THROW_MESSAGE(interpolate(x, {.size = {2}, .mode = "bicubic"}), "does not exist for an input of shape");
}

TEST(Dropout2d, DropsWholeChannels) {
  const Tensor y = dropout2d(ones({8, 16, 3, 3}), 0.5);
  const std::vector<double> sums = sum(y, {2, 3}).to_vector();
  int dropped = 0;
  for (double s : sums) {
    EXPECT_TRUE(s == 0 || s == 18);
    dropped += s == 0;
  }
  EXPECT_GT(dropped, 30);
  EXPECT_LT(dropped, 98);
}

// The element of a volume, 0 outside of it.
double element(const std::vector<double>& v, const Shape& s, std::array<std::int64_t, 5> at) {
  std::int64_t place = 0;
  for (int k = 0; k < 5; ++k) {
    if (at[static_cast<std::size_t>(k)] < 0 || at[static_cast<std::size_t>(k)] >= s[k]) return 0;
    place = place * s[k] + at[static_cast<std::size_t>(k)];
  }
  return v[static_cast<std::size_t>(place)];
}

TEST(Volumes, AreConvolvedByTheDefinition) {
  const Tensor x = numbers({2, 4, 5, 6, 4}), w = numbers({6, 2, 3, 2, 2}, 1), b = numbers({6}, 2);
  const Conv3dOptions o{.stride = {2, 1, 1}, .padding = {1, 0, 1}, .dilation = {1, 2, 1}, .groups = 2};
  const Tensor y = conv3d(x, w, b, o);
  ASSERT_EQ(y.shape(), (Shape{2, 6, 3, 4, 5}));
  const std::vector<double> in = x.to_vector(), weight = w.to_vector(), bias = b.to_vector(), got = y.to_vector();
  std::size_t place = 0;
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t c = 0; c < 6; ++c)
      for (std::int64_t d = 0; d < 3; ++d)
        for (std::int64_t h = 0; h < 4; ++h)
          for (std::int64_t e = 0; e < 5; ++e) {
            double expected = bias[static_cast<std::size_t>(c)];
            for (std::int64_t i = 0; i < 2; ++i)
              for (std::int64_t kd = 0; kd < 3; ++kd)
                for (std::int64_t kh = 0; kh < 2; ++kh)
                  for (std::int64_t kw = 0; kw < 2; ++kw)
                    expected += element(weight, w.shape(), {c, i, kd, kh, kw}) *
                                element(in, x.shape(), {n, c / 3 * 2 + i, 2 * d + kd - 1, h + 2 * kh, e + kw - 1});
            ASSERT_NEAR(got[place++], expected, 1e-12);
          }
  expect_gradients([&](const std::vector<Tensor>& v) { return conv3d(v[0], v[1], v[2], {.padding = 1}); },
                   {numbers({1, 2, 3, 2, 2}), numbers({2, 2, 2, 2, 2}, 1), numbers({2}, 2)});
  EXPECT_EQ(conv3d(numbers({4, 5, 6, 4}), w, b, o).shape(), (Shape{6, 3, 4, 5}));
  EXPECT_THROW_MESSAGE(conv3d(x, w), "does not fit a weight of shape");
}

// ⟨conv3d(x), y⟩ = ⟨x, conv_transpose3d(y)⟩ for all x and y: the gradient of conv3d, as an operation.
TEST(Volumes, TransposedConvolutionIsTheAdjoint) {
  const Tensor x = numbers({2, 4, 5, 6, 4}), w = numbers({6, 2, 3, 2, 2}, 1);
  const Conv3dOptions o{.stride = {2, 1, 2}, .padding = {1, 0, 1}, .dilation = {1, 2, 1}, .groups = 2};
  const Tensor there = conv3d(x, w, {}, o), y = numbers(there.shape(), 2);
  const ConvTranspose3dOptions back{
      .stride = o.stride, .padding = o.padding, .output_padding = {0, 0, 0}, .groups = 2, .dilation = o.dilation};
  const Tensor again = conv_transpose3d(y, w, {}, back);
  ASSERT_EQ(again.shape(), x.shape());
  EXPECT_NEAR(sum(there * y).item(), sum(x * again).item(), 1e-9);
  const Tensor bias = numbers({4}, 3);
  EXPECT_TRUE(allclose(conv_transpose3d(y, w, bias, back), again + reshape(bias, {4, 1, 1, 1}), {.rtol = 1e-12}));
  const Tensor longer = conv_transpose3d(y, w, {}, {.stride = {2, 1, 2}, .output_padding = {1, 0, 1}, .groups = 2});
  EXPECT_EQ(longer.shape(), (Shape{2, 4, 2 * (y.size(2) - 1) + 4, y.size(3) + 1, 2 * (y.size(4) - 1) + 3}));
  expect_gradients(
      [](const std::vector<Tensor>& v) { return conv_transpose3d(v[0], v[1], v[2], {.stride = 2, .padding = 1}); },
      {numbers({1, 2, 2, 2, 2}), numbers({2, 3, 2, 3, 2}, 1), numbers({3}, 2)});
  EXPECT_THROW_MESSAGE(conv_transpose3d(x, w), "does not fit a weight of shape");
}

// Along the depth only, plane k of position d lands at d·stride + k·dilation: each placed separately.
TEST(Volumes, TransposedPlanesLandWhereTheyShould) {
  const Tensor x = numbers({2, 1, 4, 2, 3});
  for (std::int64_t taps : {1, 2, 3, 4, 5}) {
    for (std::int64_t stride : {1, 2, 3}) {
      for (std::int64_t dilation : {1, 2}) {
        const Tensor w = numbers({1, 1, taps, 1, 1}, 1);
        const std::int64_t extra = std::max(stride, dilation) - 1,
                           size = 3 * stride + dilation * (taps - 1) + 1 + extra;
        Tensor expected = zeros({2, 1, size, 2, 3}, x.dtype());
        for (std::int64_t d = 0; d < 4; ++d) {
          for (std::int64_t k = 0; k < taps; ++k) {
            const std::int64_t at = d * stride + k * dilation;
            expected = expected + pad(narrow(x, 2, d, 1) * narrow(w, 2, k, 1), {0, 0, 0, 0, at, size - at - 1});
          }
        }
        const Tensor found = conv_transpose3d(
            x, w, {}, {.stride = {stride, 1, 1}, .output_padding = {extra, 0, 0}, .dilation = {dilation, 1, 1}});
        ASSERT_EQ(found.shape(), expected.shape());
        EXPECT_TRUE(allclose(found, expected, {.rtol = 1e-12})) << taps << " " << stride << " " << dilation;
      }
    }
  }
}

TEST(Volumes, SayWhereTheirLargestElementsAre) {
  const Tensor x = numbers({2, 3, 5, 4, 6});
  const Pool3dOptions o{.stride = SizeTriple{2, 1, 2}, .padding = {1, 0, 1}};
  const auto [values, at] = max_pool3d_with_indices(x, {3, 2, 2}, o);
  EXPECT_EQ(values.to_vector(), max_pool3d(x, {3, 2, 2}, o).to_vector());
  const Tensor found = gather(reshape(x, {2, 3, -1}), 2, reshape(at, {2, 3, -1}));
  EXPECT_EQ(found.to_vector(), values.to_vector());
}

TEST(Volumes, ArePooledToASize) {
  const Tensor x = numbers({1, 2, 5, 4, 6});
  const Tensor largest = adaptive_max_pool3d(x, {2, 4, 3}), means = adaptive_avg_pool3d(x, {2, 4, 3});
  ASSERT_EQ(means.shape(), (Shape{1, 2, 2, 4, 3}));
  const Tensor box =
      narrow(narrow(narrow(x[0][1], 0, 2, 3), 1, 1, 1), 2, 2, 2);  // planes 2 to 5, row 1, columns 2 to 4
  EXPECT_EQ(largest[0][1][1][1][1].item<double>(), max(box).item<double>());
  EXPECT_NEAR(means[0][1][1][1][1].item<double>(), mean(box).item<double>(), 1e-14);
  EXPECT_NEAR(adaptive_avg_pool3d(x, 1)[0][0].item(), mean(x[0][0]).item(), 1e-14);
}

TEST(Volumes, ArePooledByTheDefinition) {
  const Tensor x = numbers({1, 2, 4, 5, 6});
  const Tensor largest = max_pool3d(x, {2, 3, 2}, {.stride = SizeTriple{2, 1, 2}});
  const Tensor means = avg_pool3d(x, {2, 3, 2}, {.stride = SizeTriple{2, 1, 2}});
  ASSERT_EQ(largest.shape(), (Shape{1, 2, 2, 3, 3}));
  for (int d = 0; d < 2; ++d)
    for (int h = 0; h < 3; ++h)
      for (int w = 0; w < 3; ++w) {
        const Tensor box = narrow(narrow(narrow(x[0][1], 0, 2 * d, 2), 1, h, 3), 2, 2 * w, 2);
        EXPECT_EQ(largest[0][1][d][h][w].item<double>(), max(box).item<double>());
        EXPECT_NEAR(means[0][1][d][h][w].item<double>(), mean(box).item<double>(), 1e-14);
      }
  expect_gradients([](const std::vector<Tensor>& v) { return max_pool3d(v[0], 2, {.padding = 1}); },
                   {numbers({1, 1, 3, 3, 3})});
  expect_gradients(
      [](const std::vector<Tensor>& v) { return avg_pool3d(v[0], 2, {.padding = 1, .count_include_pad = false}); },
      {numbers({1, 1, 3, 3, 3})});
}

TEST(CosineSimilarity, IsTheCosine) {
  expect_values(cosine_similarity(whole({3, 4, 1, 0}, {2, 2}), whole({4, 3, 0, 1}, {2, 2})), {0.96, 0}, 1e-6);
  expect_gradients([](const std::vector<Tensor>& v) { return cosine_similarity(v[0], v[1], -1); },
                   {numbers({3, 4}), numbers({4}, 1)});
}

}  // namespace
}  // namespace ebb
