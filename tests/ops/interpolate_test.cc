// SPDX-License-Identifier: MIT
// Other sizes by banded matrices: values against plain loops in f64, gradients of both orders by differences.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "ops/values.h"

namespace ebb {
namespace {

// One axis, as a function of the numbers of a line.
using Line = std::vector<double>;
Line along(const Line& x, std::int64_t to, const std::string& mode, bool corners) {
  const auto from = static_cast<std::int64_t>(x.size());
  const auto at = [&](double i) {
    return x[static_cast<std::size_t>(std::clamp(i, 0.0, static_cast<double>(from - 1)))];
  };
  const double step = corners ? to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0
                              : static_cast<double>(from) / static_cast<double>(to);
  Line y;
  for (std::int64_t i = 0; i < to; ++i) {
    double place = corners ? static_cast<double>(i) * step : (static_cast<double>(i) + 0.5) * step - 0.5;
    if (mode == "nearest") {
      y.push_back(at(std::floor(static_cast<double>(i) * step)));
    } else if (mode == "bicubic") {
      const auto kernel = [](double d) {
        const double a = -0.75;
        d = std::fabs(d);
        return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
      };
      double sum = 0;
      for (double k = std::floor(place) - 1; k <= std::floor(place) + 2; ++k) sum += kernel(place - k) * at(k);
      y.push_back(sum);
    } else {
      place = std::max(place, 0.0);
      const double low = std::floor(place);
      y.push_back(at(low) * (low + 1 - place) + at(low + 1) * (place - low));
    }
  }
  return y;
}

std::vector<double> resized(const Tensor& x, const std::vector<std::int64_t>& size, const std::string& mode,
                            bool corners) {
  std::vector<double> now = cast(x, DType::f64).to_vector();
  Shape shape = x.shape();
  for (int d = 2; d < shape.rank(); ++d) {
    const std::int64_t to = size[static_cast<std::size_t>(d - 2)], from = shape[d];
    std::int64_t inner = 1;
    for (int k = d + 1; k < shape.rank(); ++k) inner *= shape[k];
    const Shape next = shape.with(d, to);
    std::vector<double> result(static_cast<std::size_t>(next.numel()));
    for (std::int64_t o = 0; o < shape.numel() / from / inner; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        Line line;
        for (std::int64_t k = 0; k < from; ++k)
          line.push_back(now[static_cast<std::size_t>((o * from + k) * inner + i)]);
        line = along(line, to, mode, corners);
        for (std::int64_t k = 0; k < to; ++k)
          result[static_cast<std::size_t>((o * to + k) * inner + i)] = line[static_cast<std::size_t>(k)];
      }
    }
    now = std::move(result);
    shape = next;
  }
  return now;
}

struct Case {
  Shape shape;
  std::vector<std::int64_t> size;
  const char* mode;
  bool corners;
};
// One call and one per axis, few terms and many, axes that stay at the beginning, in the middle and at the end.
std::vector<Case> cases() {
  return {{{2, 3, 7, 17}, {10, 22}, "bilinear", false},
          {{2, 3, 7, 17}, {10, 22}, "bilinear", true},
          {{1, 2, 9, 33}, {4, 70}, "bicubic", false},
          {{1, 2, 9, 33}, {9, 65}, "bicubic", true},
          {{3, 1, 5, 6}, {61, 66}, "bilinear", false},
          {{1, 2, 4, 3}, {31, 47}, "bicubic", false},
          {{2, 2, 8, 5}, {3, 5}, "bilinear", false},
          {{2, 2, 8, 19}, {3, 19}, "bicubic", false},
          {{2, 2, 5, 8}, {5, 3}, "nearest", false},
          {{1, 2, 41}, {100}, "linear", true},
          {{1, 1, 2}, {301}, "linear", false},
          {{2, 1, 301}, {2}, "linear", false},
          {{1, 1, 1}, {5}, "linear", false},
          {{1, 2, 3, 4, 5}, {5, 7, 9}, "trilinear", false},
          {{1, 2, 3, 4, 5}, {6, 4, 3}, "trilinear", true},
          {{1, 2, 3, 4, 5}, {7, 9, 2}, "nearest", false},
          {{2, 1, 3, 40}, {2, 640}, "nearest", false},
          {{0, 2, 3, 4}, {5, 6}, "bilinear", false}};
}

TEST(Interpolate, IsAMatrixPerAxis) {
  for (const Case& c : cases()) {
    const Tensor numbers = reshape(sin(arange(0, c.shape.numel(), 1, DType::f64) * 1.3 + 0.4), c.shape).eval();
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const Tensor x = cast(numbers, dtype).eval();
      const InterpolateOptions o{.size = c.size, .mode = c.mode, .align_corners = c.corners};
      const Tensor y = interpolate(x, o);
      ASSERT_EQ(y.dtype(), dtype);
      const std::vector<double> want = resized(x, c.size, c.mode, c.corners), got = cast(y, DType::f64).to_vector();
      ASSERT_EQ(got.size(), want.size());
      const double near = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], near)
            << c.mode << " of " << c.shape.str() << " " << name(dtype) << ", element " << i;
    }
  }
}

// The gradient is the transpose, y·R(x) = x·Rᵀ(y), and the second derivative of a sum of squares R·Rᵀ.
TEST(Interpolate, HasTheTransposeAsItsGradient) {
  manual_seed(3);
  for (const Case& c : cases()) {
    if (c.shape.numel() == 0) continue;
    const InterpolateOptions o{.size = c.size, .mode = c.mode, .align_corners = c.corners};
    const auto f = [&](const Tensor& x) { return interpolate(x, o); };
    const Tensor x = cast(randn(c.shape), DType::f64).eval(), v = variable(x), y = f(v);
    const Tensor g = cast(randn(y.shape()), DType::f64).eval();
    const Tensor back = backward(sum(y * g))[v];
    EXPECT_EQ(back.shape(), x.shape());
    EXPECT_NEAR(sum(f(x) * g).item(), sum(x * back).item(), 1e-10) << c.mode << " of " << c.shape.str();
    const Tensor direction = cast(randn(c.shape), DType::f64).eval();
    const Tensor second = hvp([&](const Tensor& t) { return 0.5 * sum(square(f(t))); }, x, direction);
    const Tensor u = variable(x), image = f(u);
    const Tensor want = backward(sum(image * f(direction).eval()))[u];
    EXPECT_LT(max(abs(second - want)).item(), 1e-11) << c.mode << " of " << c.shape.str();
  }
}

// Tables are kept between calls: more kinds of calls than are kept, each again in both dtypes, from several threads.
TEST(Interpolate, IsTheSameAfterManyOtherSizes) {
  const Tensor x = reshape(sin(arange(0, 60, 1, DType::f64)), {1, 1, 60}).eval(), single = cast(x, DType::f32).eval();
  const auto at = [](std::int64_t to, bool corners) {
    return InterpolateOptions{.size = {to}, .mode = "linear", .align_corners = corners};
  };
  const auto check_all = [&] {
    for (std::int64_t to = 20; to < 62; ++to) {
      for (const bool corners : {false, true}) {
        const std::vector<double> want = resized(x, {to}, "linear", corners);
        const std::vector<double> got = interpolate(x, at(to, corners)).to_vector();
        const std::vector<float> narrow = interpolate(single, at(to, corners)).to_vector<float>();
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], 1e-13) << to << " " << corners;
          ASSERT_NEAR(narrow[i], want[i], 2e-6) << to << " " << corners;
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k) threads.emplace_back(check_all);
  for (std::thread& t : threads) t.join();
  check_all();
}

// Bits and all: rows and planes between the axes, whatever they hold.
TEST(Interpolate, TheNearestElementIsCopied) {
  const float nan = std::bit_cast<float>(0x7fc12345u), inf = std::numeric_limits<float>::infinity();
  const Tensor x = reshape(tensor({-0.0f, nan, inf, 1e-40f, -inf, 3.0f}), {1, 1, 2, 3}).eval();
  const Tensor y = interpolate(x, {.size = {3, 5}, .mode = "nearest"});
  // On a GPU it is a product with one, which keeps neither the sign of zero nor the bits of a NaN.
  const auto expect_copy = [](float got, float want) {
    if (default_device() == Device{}) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want));
    } else {
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " instead of " << want;
    }
  };
  const std::vector<float> from = x.to_vector<float>(), got = y.to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      SCOPED_TRACE(5 * i + j);
      expect_copy(got[i * 5 + j], from[i * 2 / 3 * 3 + j * 3 / 5]);
    }
  }
  // The axis before the last alone: an inner part of three elements.
  expect_copy(interpolate(x, {.size = {4, 3}, .mode = "nearest"}).to_vector<float>()[3], -0.0f);
}

// Elements that are not NaN or infinite reach no others: what a row of a matrix has no numbers for counts nothing.
TEST(Interpolate, SpreadsNaNAndInfinityNoFartherThanItsTaps) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double odd : {nan, inf}) {
    for (const std::int64_t columns : {6, 40}) {
      const Tensor x =
          where(reshape(arange(12 * columns), {1, 1, 12, columns}) == 5 * columns + 2, odd, ones({1, 1, 12, columns}));
      for (const bool smooth : {false, true}) {
        for (const std::vector<std::int64_t>& size : {std::vector<std::int64_t>{18, columns * 2}, {5, columns + 5}}) {
          const Tensor v = variable(x.eval());
          const Tensor y = interpolate(v, {.size = size, .mode = "bilinear", .antialias = smooth});
          const double touched = sum(cast(logical_not(isfinite(y)), DType::f64)).item();
          EXPECT_GE(touched, 1);
          EXPECT_LE(touched, 36) << odd << " " << columns << " " << smooth << " " << size[0];
          const Tensor g = where(reshape(arange(y.numel()), y.shape()) == 0, odd, ones(y.shape()));
          const Tensor back = backward(sum(where(isfinite(y), y, y * 0 + 1) * 0 + y * g))[v];
          EXPECT_LE(sum(cast(logical_not(isfinite(back)), DType::f64)).item(), 36 + 0 * columns);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb
