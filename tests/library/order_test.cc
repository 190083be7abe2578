// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "arrays.h"
#include "calls/order.h"
#include "expect_error.h"

namespace ebb::cpu {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

// Numbers with many ties, and for floats now and then a NaN, an infinity or a zero of either sign.
Array tied_array(DType dtype, const Shape& shape, Layout layout, std::mt19937& rng) {
  Array a = random_array(dtype, shape, layout, rng);
  if (!is_floating(dtype)) return a;
  std::uniform_int_distribution<int> pick(0, 30);
  for_each_position(shape, [&](const Position& p) {
    const int k = pick(rng);
    if (k == 0) a.set(p, kNaN);
    if (k == 1) a.set(p, -0.0);
    if (k == 2) a.set(p, 0.0);
    if (k == 3) a.set(p, kInf);
    if (k == 4) a.set(p, -kInf);
  });
  return a;
}

// PyTorch's order: NaN above everything.
bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

// fn(line as doubles, position of its first element) for every line along the axis.
template <class F>
void for_each_line(const Array& x, int axis, F&& fn) {
  for_each_position(x.shape().with(axis, 1), [&](const Position& p) {
    std::vector<double> line;
    Position q = p;
    for (std::int64_t i = 0; i < x.shape()[axis]; ++i) {
      q[static_cast<std::size_t>(axis)] = i;
      line.push_back(x.get(q));
    }
    fn(line, p);
  });
}

const Shape kShapes[] = {{1}, {17}, {6, 9}, {3, 8, 5}, {2, 0, 3}, {1, 5000}, {300, 70}, {70, 300}};

TEST(ArgMax, FirstOfEqualsAndNaNWins) {
  std::mt19937 rng(1);
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : kShapes) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape[axis] == 0) continue;
        for (const Layout layout : kLayouts) {
          const Array x = tied_array(dtype, shape, layout, rng);
          const Array most = run_call(Op::argmax, along(axis), {&x}, DType::i64, shape.with(axis, 1));
          const Array least = run_call(Op::argmin, along(axis), {&x}, DType::i64, shape.with(axis, 1));
          for_each_line(x, axis, [&](const std::vector<double>& line, const Position& p) {
            std::size_t hi = 0, lo = 0;
            for (std::size_t i = 1; i < line.size(); ++i) {
              if (less(line[hi], line[i])) hi = i;
              if (std::isnan(line[lo])) continue;
              if (std::isnan(line[i]) || line[i] < line[lo]) lo = i;
            }
            ASSERT_EQ(most.get(p), static_cast<double>(hi)) << name(dtype) << shape.str() << axis;
            ASSERT_EQ(least.get(p), static_cast<double>(lo)) << name(dtype) << shape.str() << axis;
          });
        }
      }
    }
  }
}

// Blocks of 4,096 elements, compared 64 at a time.
TEST(ArgMax, FindsTheFirstWinnerOfLongLines) {
  for (const DType dtype : kAllDTypes) {
    const double low = is_floating(dtype) ? -kInf : dtype == DType::u8 || dtype == DType::bool_ ? 0 : -5;
    for (const std::int64_t n : {16, 17, 63, 65, 128, 4095, 4096, 4097, 8200, 12289}) {
      for (const double winner : {low, 1.0, kInf, kNaN}) {
        if (!is_floating(dtype) && !std::isfinite(winner)) continue;
        for (std::int64_t at : {std::int64_t{0}, n / 2, n - 2, n - 1}) {
          Array x(dtype, {n}), mirrored(dtype, {n});
          // A second one behind it, and zeros of both signs, which are equal.
          const auto number = [&](const Position& p) {
            return p[0] == at || p[0] == n - 1                       ? winner
                   : p[0] < at && is_floating(dtype) && low < winner ? (p[0] % 2 ? 0.0 : -0.0)
                                                                     : low;
          };
          x.fill(number);
          mirrored.fill([&](const Position& p) { return is_floating(dtype) ? -number(p) : 1 - number(p); });
          const double first = winner == low || (is_floating(dtype) && winner == 0) ? 0 : static_cast<double>(at);
          EXPECT_EQ(run_call(Op::argmax, along(0), {&x}, DType::i64, {1}).get({0}), first)
              << name(dtype) << n << winner;
          if (dtype == DType::u8 || dtype == DType::bool_) continue;
          EXPECT_EQ(run_call(Op::argmin, along(0), {&mirrored}, DType::i64, {1}).get({0}), first)
              << name(dtype) << n << winner;
        }
      }
    }
  }
  // Zeros of either sign are equal, and the ends of integers are numbers.
  Array zeros(DType::f32, {200});
  zeros.fill([](const Position& p) { return p[0] % 3 == 1 ? 0.0 : -0.0; });
  EXPECT_EQ(run_call(Op::argmax, along(0), {&zeros}, DType::i64, {1}).get({0}), 0);
  EXPECT_EQ(run_call(Op::argmin, along(0), {&zeros}, DType::i64, {1}).get({0}), 0);
}

TEST(ArgMin, TheLargestIntegerIsNotMistakenForNaN) {
  Array x(DType::u8, {3});
  x.fill([](const Position& p) { return p[0] == 0 ? 255.0 : p[0] == 1 ? 3.0 : 4.0; });
  EXPECT_EQ(run_call(Op::argmin, along(0), {&x}, DType::i64, {1}).get({0}), 1.0);
}

TEST(ArgMax, AnEmptyAxisIsAnError) {
  Array x(DType::f32, {2, 0});
  EXPECT_THROW_MESSAGE(run_call(Op::argmax, along(1), {&x}, DType::i64, {2, 1}), "argmax: axis 1 of [2, 0] is empty");
}

void expect_sorted(const Array& x, int axis) {
  for (const bool descending : {false, true}) {
    const Array out = run_call(Op::argsort, along_axis(axis, ArgsortCall{descending}), {&x}, DType::i64, x.shape());
    for_each_line(x, axis, [&](const std::vector<double>& line, Position p) {
      std::vector<std::size_t> order(line.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return descending ? less(line[b], line[a]) : less(line[a], line[b]);
      });
      for (std::size_t i = 0; i < order.size(); ++i) {
        p[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
        ASSERT_EQ(out.get(p), static_cast<double>(order[i])) << name(x.dtype()) << x.shape().str() << axis;
      }
    });
  }
}

TEST(ArgSort, IsStableBothWaysWithNaNAboveAll) {
  std::mt19937 rng(2);
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : kShapes) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        for (const Layout layout : kLayouts) expect_sorted(tied_array(dtype, shape, layout, rng), axis);
      }
    }
  }
}

// Numbers that differ in every byte, few and many per line, and so many lines that none is divided.
TEST(ArgSort, EveryByteOfTheNumberCounts) {
  std::mt19937 rng(7);
  std::normal_distribution<double> normal(0, 1000);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    for (const Shape& shape : {Shape{3, 159}, Shape{3, 160}, Shape{2, 1000}, Shape{17, 65537}}) {
      if (shape[0] == 17 && dtype != DType::f32) continue;
      Array x(dtype, shape);
      for_each_position(shape, [&](const Position& p) {
        const double v = normal(rng);
        x.set(p, dtype == DType::u8 ? std::fmod(std::fabs(v), 256) : is_floating(dtype) ? v : std::round(v * 1e5));
      });
      expect_sorted(x, 1);
    }
  }
}

// Keys of 64 bits, treated as 32-bit ones if their range is 32 bits or less, and not otherwise.
TEST(ArgSort, IntegersOfEveryRange) {
  std::mt19937_64 rng(10);
  for (const int bits : {1, 8, 9, 31, 32, 33, 52}) {
    for (const std::int64_t n : {17, 1000, 1025, 9000}) {
      Array x(DType::i64, {2, n});
      x.fill([&](const Position&) {
        return static_cast<double>(static_cast<std::int64_t>(rng() >> (64 - bits))) - std::floor(std::ldexp(0.3, bits));
      });
      expect_sorted(x, 1);
    }
  }
}

TEST(ArgSort, LongLinesAreMergedFromRuns) {
  std::mt19937 rng(3);
  for (const DType dtype : {DType::f32, DType::f64, DType::i64})
    expect_sorted(tied_array(dtype, {150001}, Layout::dense, rng), 0);
}

// Ranges of the order, which expect_sorted checks by definition: the first few, one, two in the middle, the last, all.
void expect_ranges(const Array& x, int axis) {
  const std::int64_t n = x.shape()[axis];
  for (const bool descending : {false, true}) {
    const Array whole = run_call(Op::argsort, along_axis(axis, ArgsortCall{descending}), {&x}, DType::i64, x.shape());
    for (const auto& [first, count] :
         std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{0, 1},
                                                                      {0, std::min<std::int64_t>(n, 5)},
                                                                      {0, n / 9},
                                                                      {(n - 1) / 2, 1},
                                                                      {n / 3, n - n / 3},
                                                                      {n - 1, 1},
                                                                      {0, n}}) {
      if (count == 0) continue;
      const Attrs attrs = along_axis(axis, ArgsortCall{descending, first, count});
      const Array part = run_call(Op::argsort, attrs, {&x}, DType::i64, x.shape().with(axis, count));
      for_each_position(part.shape(), [&](const Position& p) {
        Position q = p;
        q[static_cast<std::size_t>(axis)] += first;
        ASSERT_EQ(part.get(p), whole.get(q))
            << name(x.dtype()) << x.shape().str() << " along " << axis << " from " << first << ", " << count;
      });
    }
  }
}

TEST(ArgSortRange, IsTheRangeOfTheWholeOrder) {
  std::mt19937 rng(8);
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : kShapes) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape.numel() == 0) continue;
        for (const Layout layout : kLayouts) expect_ranges(tied_array(dtype, shape, layout, rng), axis);
      }
    }
  }
}

// Lines divided among threads; rising and falling ones, of which everything or nothing is kept, and equal
// ones.
TEST(ArgSortRange, LongLines) {
  std::mt19937 rng(9);
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64})
    expect_ranges(tied_array(dtype, {150001}, Layout::dense, rng), 0);
  for (const double step : {1.0, -1.0, 0.0}) {
    Array x(DType::f32, {2, 70000});
    x.fill([&](const Position& p) { return step * static_cast<double>(p[1]); });
    expect_ranges(x, 1);
  }
}

// Keys of 64 bits whose range needs all of them: many, few and no elements agree in the upper half.
TEST(ArgSort, NumbersThatAgreeInTheirUpperBits) {
  std::mt19937_64 rng(11);
  for (const std::int64_t n : {159, 160, 161, 3000, 70001}) {
    for (const int runs : {1, 3, 1000}) {
      Array floats(DType::f64, {n}), integers(DType::i64, {n});
      floats.fill([&](const Position& p) {
        if (p[0] == n / 2) return -1e300;
        return 1.0 + static_cast<double>(rng() % static_cast<unsigned>(runs)) +
               static_cast<double>(rng() % 500) * 0x1p-50;
      });
      integers.fill([&](const Position& p) {
        if (p[0] == n / 3) return -9e15;
        return 1e12 * static_cast<double>(rng() % static_cast<unsigned>(runs)) + static_cast<double>(rng() % 500);
      });
      expect_sorted(floats, 0);
      expect_sorted(integers, 0);
    }
  }
}

// cummax and cummin: the last of equal elements, and NaN from the first one on.
void expect_places(const Array& x, int axis) {
  for (const Op op : {Op::cummax_place, Op::cummin_place}) {
    const Array out = run_call(op, along(axis), {&x}, DType::i64, x.shape());
    for_each_line(x, axis, [&](const std::vector<double>& line, Position p) {
      std::size_t best = 0;
      for (std::size_t i = 0; i < line.size(); ++i) {
        const double a = line[i], b = line[best];
        if (std::isnan(a) || (op == Op::cummax_place ? a >= b : a <= b)) best = i;
        p[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
        ASSERT_EQ(out.get(p), static_cast<double>(best)) << name(x.dtype()) << x.shape().str() << " along " << axis;
      }
    });
  }
}

TEST(PlacesSoFar, LastOfEqualsAndNaNStays) {
  std::mt19937 rng(12);
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::bool_) continue;  // cummax casts them
    for (const Shape& shape : {Shape{1}, Shape{15}, Shape{16}, Shape{17}, Shape{6, 9}, Shape{3, 8, 5}, Shape{2, 0, 3},
                               Shape{3, 1000}, Shape{300, 70}, Shape{70, 300}, Shape{33, 2, 17}}) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        for (const Layout layout : kLayouts) {
          expect_places(random_array(dtype, shape, layout, rng), axis);
          expect_places(tied_array(dtype, shape, layout, rng), axis);
        }
      }
    }
    for (const double step : {1.0, -1.0, 0.0}) {
      Array x(dtype, {2, 100});
      x.fill([&](const Position& p) { return 100 + step * static_cast<double>(p[1]); });
      expect_places(x, 1);
    }
  }
}

// The scan in long double, rounded to the dtype.
void expect_scans(const Array& x, int axis, double tolerance) {
  for (const Op op : {Op::cumsum, Op::cumprod}) {
    const Array out = run_call(op, along(axis), {&x}, x.dtype(), x.shape());
    for_each_line(x, axis, [&](const std::vector<double>& line, Position p) {
      long double value = op == Op::cumsum ? 0 : 1;
      for (std::size_t i = 0; i < line.size(); ++i) {
        value = op == Op::cumsum ? value + line[i] : value * line[i];
        p[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
        const double expected = static_cast<double>(value);
        ASSERT_NEAR(out.get(p), expected, tolerance * std::fabs(expected)) << name(x.dtype()) << x.shape().str();
      }
    });
  }
}

TEST(Scan, SumsAndProductsOfEveryFloat) {
  std::mt19937 rng(4);
  for (const DType dtype : kFloats) {
    const double tolerance = dtype == DType::f64   ? 1e-13
                             : dtype == DType::f32 ? 6e-8
                             : dtype == DType::f16 ? 4.9e-4
                                                   : 4e-3;
    for (const Shape& shape : {Shape{1}, Shape{17}, Shape{6, 9}, Shape{3, 8, 5}, Shape{2, 0, 3}, Shape{300, 70}}) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        for (const Layout layout : kLayouts) {
          Array x(dtype, shape, layout);
          std::uniform_real_distribution<double> numbers(0.98, 1.02);
          x.fill([&](const Position&) { return numbers(rng); });
          expect_scans(x, axis, tolerance);
        }
      }
    }
  }
}

TEST(Scan, LongLinesInPiecesLoseNothing) {
  std::mt19937 rng(5);
  std::uniform_real_distribution<double> numbers(0.0, 1.0);
  Array x(DType::f32, {400000});
  x.fill([&](const Position&) { return numbers(rng); });
  const Array out = run_call(Op::cumsum, along(0), {&x}, DType::f32, {400000});
  long double sum = 0;
  for (std::int64_t i = 0; i < 400000; ++i) {
    sum += x.get({i});
    ASSERT_NEAR(out.get({i}), static_cast<double>(sum), 6.1e-8 * static_cast<double>(sum)) << i;
  }
}

// Sums of four are made beside each other: of every number of lines and elements around that, and infinities stay what
// they are in order.
TEST(Scan, OfAnyFewElements) {
  std::mt19937 rng(6);
  for (const DType dtype : kFloats) {
    for (std::int64_t n = 1; n <= 13; ++n) {
      for (const std::int64_t lines : {1, 3, 4, 9}) {
        for (const Layout layout : kLayouts) expect_scans(random_array(dtype, {lines, n}, layout, rng, 1, 2), 1, 0);
      }
    }
    Array x(dtype, {9});
    x.fill([](const Position& p) { return p[0] == 2 ? INFINITY : p[0] == 7 ? -INFINITY : 1.0; });
    const Array out = run_call(Op::cumsum, along(0), {&x}, dtype, {9});
    for (std::int64_t i = 0; i < 9; ++i) {
      if (i < 2) EXPECT_EQ(out.get({i}), static_cast<double>(i + 1));
      if (i >= 2 && i < 7) EXPECT_EQ(out.get({i}), INFINITY);
      if (i >= 7) EXPECT_TRUE(std::isnan(out.get({i})));
    }
  }
}

TEST(Scan, IntegersWrap) {
  Array x(DType::u8, {5}), y(DType::i64, {3});
  x.fill([](const Position&) { return 100.0; });
  y.fill([](const Position&) { return 4611686018427387904.0; });
  const Array sum = run_call(Op::cumsum, along(0), {&x}, DType::u8, {5});
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(sum.get({i}), static_cast<double>((i + 1) * 100 % 256));
  EXPECT_EQ(run_call(Op::cumsum, along(0), {&y}, DType::i64, {3}).get({1}), -9223372036854775808.0);
  EXPECT_EQ(run_call(Op::cumprod, along(0), {&y}, DType::i64, {3}).get({1}), 0.0);
}

}  // namespace
}  // namespace ebb::cpu
