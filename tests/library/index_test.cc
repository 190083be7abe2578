// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "arrays.h"
#include "expect_error.h"

namespace ebb::cpu {
namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

struct Case {
  Shape x, index;
  int axis;
};
const Case kCases[] = {
    {{5}, {7}, 0},
    {{4, 6}, {4, 3}, 1},
    {{4, 6}, {9, 6}, 0},
    {{4, 6}, {2, 5}, 0},
    {{3, 4, 5}, {3, 6, 5}, 1},
    {{3, 4, 5}, {2, 4, 9}, 2},
    {{3, 4, 5}, {8, 2, 3}, 0},
    {{3, 4}, {0, 4}, 0},
    {{3, 0}, {3, 0}, 1},
    {{2, 1, 3}, {2, 1, 3}, 1},
    // Lines of a few elements: of every length with a loop of its own and around, of more than a block, of parts of x.
    {{40, 2}, {40, 2}, 1},
    {{7, 30, 3}, {7, 30, 3}, 2},
    {{3, 50, 4}, {3, 50, 4}, 2},
    {{50, 5}, {50, 5}, 1},
    {{33, 6}, {33, 6}, 1},
    {{11, 9}, {11, 8}, 1},
    {{11, 9}, {11, 9}, 1},
    {{40, 5}, {31, 2}, 1},
    {{4, 9, 3}, {3, 7, 5}, 2},
    {{1200, 3}, {1200, 3}, 1},
    {{1200, 2}, {700, 4}, 1},
    {{700, 300}, {500, 300}, 0},
    {{300, 700}, {300, 500}, 1},
};

TEST(Gather, EveryDtypeShapeAndLayout) {
  std::mt19937 rng(1);
  for (const Case& c : kCases) {
    for (const DType dtype : kAllDTypes) {
      if (c.x.numel() > 1000 && dtype != DType::f32) continue;
      for (const Layout layout : kLayouts) {
        for (const DType index_dtype : {DType::i64, DType::i32}) {
          const Array x = random_array(dtype, c.x, layout, rng);
          const Array index = random_index(index_dtype, c.index, layout, c.x[c.axis], rng);
          const Array out = run_call(Op::gather, along(c.axis), {&x, &index}, dtype, c.index);
          for_each_position(c.index, [&](const Position& p) {
            Position q = p;
            q[at(c.axis)] = static_cast<std::int64_t>(index.get(p));
            ASSERT_EQ(out.get(p), x.get(q));
          });
        }
      }
    }
  }
}

double as_stored(DType dtype, double value) {
  Array one(dtype, {1});
  if (dtype == DType::u8) value = static_cast<double>(static_cast<std::int64_t>(value) & 255);
  one.set({0}, value);
  return one.get({0});
}

TEST(ScatterZeroAdd, AddsEveryDuplicate) {
  std::mt19937 rng(2);
  for (const Case& c : kCases) {
    for (const DType dtype : kAllDTypes) {
      if (c.x.numel() > 1000 && dtype != DType::bf16) continue;
      for (const Layout layout : kLayouts) {
        const Array src = random_array(dtype, c.index, layout, rng);
        const Array index = random_index(DType::i64, c.index, layout, c.x[c.axis], rng);
        const Array out = run_call(Op::scatter_zero_add, along(c.axis), {&src, &index}, dtype, c.x);
        Array sums(DType::f64, c.x);
        sums.fill([](const Position&) { return 0.0; });
        for_each_position(c.index, [&](const Position& p) {
          Position q = p;
          q[at(c.axis)] = static_cast<std::int64_t>(index.get(p));
          sums.set(q, sums.get(q) + src.get(p));
        });
        for_each_position(c.x, [&](const Position& p) { ASSERT_EQ(out.get(p), as_stored(dtype, sums.get(p))); });
      }
    }
  }
}

// 4096 + 1 is 4096 in bf16: only a wider sum sees the ones.
TEST(ScatterZeroAdd, HalvesAreSummedInF32) {
  Array src(DType::bf16, {65}), index(DType::i32, {65});
  src.fill([](const Position& p) { return p[0] == 0 ? 4096.0 : 1.0; });
  index.fill([](const Position&) { return 1.0; });
  EXPECT_EQ(run_call(Op::scatter_zero_add, along(0), {&src, &index}, DType::bf16, {3}).get({1}), 4160.0);
  Array rows(DType::bf16, {65, 1}), row_index(DType::i32, {65});
  rows.fill([](const Position& p) { return p[0] == 0 ? 4096.0 : 1.0; });
  row_index.fill([](const Position&) { return 1.0; });
  EXPECT_EQ(run_call(Op::index_zero_add, along(0), {&rows, &row_index}, DType::bf16, {3, 1}).get({1, 0}), 4160.0);
}

TEST(Scatter, LastWriterWins) {
  std::mt19937 rng(3);
  for (const Case& c : kCases) {
    for (const DType dtype : kAllDTypes) {
      if (c.x.numel() > 1000 && dtype != DType::f32) continue;
      for (const Layout layout : kLayouts) {
        const Array base = random_array(dtype, c.x, layout, rng), src = random_array(dtype, c.index, layout, rng);
        const Array index = random_index(DType::i32, c.index, layout, c.x[c.axis], rng);
        const Array out = run_call(Op::scatter, along(c.axis), {&base, &index, &src}, dtype, c.x);
        Array expected(dtype, c.x);
        expected.fill([&](const Position& p) { return base.get(p); });
        for_each_position(c.index, [&](const Position& p) {
          Position q = p;
          q[at(c.axis)] = static_cast<std::int64_t>(index.get(p));
          expected.set(q, src.get(p));
        });
        for_each_position(c.x, [&](const Position& p) { ASSERT_EQ(out.get(p), expected.get(p)); });
      }
    }
  }
}

struct RowCase {
  Shape x;
  std::int64_t indices;
  int axis;
};
const RowCase kRowCases[] = {{{5}, 8, 0},          {{6, 4}, 9, 0},       {{6, 4}, 3, 1},       {{2, 5, 3}, 7, 1},
                             {{2, 3, 4, 2}, 5, 1}, {{3, 4, 5}, 0, 1},    {{0, 4}, 3, 1},       {{4, 0}, 3, 0},
                             {{2, 3, 4}, 6, 2},    {{400, 300}, 900, 0}, {{3, 50, 700}, 40, 1}};

TEST(IndexSelect, TakesSlicesAndItsGradientAddsThem) {
  std::mt19937 rng(4);
  for (const RowCase& c : kRowCases) {
    for (const DType dtype : kAllDTypes) {
      if (c.x.numel() > 1000 && dtype != DType::f32 && dtype != DType::f16) continue;
      for (const Layout layout : kLayouts) {
        const Shape selected = c.x.with(c.axis, c.indices);
        const Array x = random_array(dtype, c.x, layout, rng), g = random_array(dtype, selected, layout, rng);
        const Array index = random_index(DType::i64, {c.indices}, layout, c.x[c.axis], rng);
        const Array out = run_call(Op::index_select, along(c.axis), {&x, &index}, dtype, selected);
        const Array back = run_call(Op::index_zero_add, along(c.axis), {&g, &index}, dtype, c.x);
        Array sums(DType::f64, c.x);
        sums.fill([](const Position&) { return 0.0; });
        for_each_position(selected, [&](const Position& p) {
          Position q = p;
          q[at(c.axis)] = static_cast<std::int64_t>(index.get({p[at(c.axis)]}));
          ASSERT_EQ(out.get(p), x.get(q));
          sums.set(q, sums.get(q) + g.get(p));
        });
        for_each_position(c.x, [&](const Position& p) { ASSERT_EQ(back.get(p), as_stored(dtype, sums.get(p))); });
      }
    }
  }
}

// Histograms: so many tokens that they are shared among threads, on rows of one element. Sums of eighths are exact.
TEST(IndexZeroAdd, ManyTokensOnRowsOfOneElement) {
  constexpr std::int64_t kTokens = 300001;
  std::mt19937 rng(6);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64}) {
    for (const std::int64_t rows : {1, 3, 1000, 60000}) {
      const Array index = random_index(DType::i64, {kTokens}, Layout::dense, rows, rng);
      Array g(dtype, {kTokens});
      g.fill([&](const Position&) { return static_cast<double>(rng() % 16) * (is_floating(dtype) ? 0.125 : 1); });
      std::vector<double> sums(static_cast<std::size_t>(rows));
      for (std::int64_t i = 0; i < kTokens; ++i) sums[static_cast<std::size_t>(index.get({i}))] += g.get({i});
      for (const int threads : {1, 3}) {
        set_num_threads(threads);
        const Array out = run_call(Op::index_zero_add, along(0), {&g, &index}, dtype, {rows});
        for (std::int64_t r = 0; r < rows; ++r)
          ASSERT_EQ(out.get({r}), as_stored(dtype, sums[static_cast<std::size_t>(r)])) << name(dtype) << " " << rows;
      }
    }
  }
}

// The rows that no token names are only cleared.
TEST(IndexZeroAdd, FewTokensOnManyRowsOfOneElement) {
  std::mt19937 rng(7);
  for (const DType dtype : kAllDTypes) {
    for (const std::int64_t rows : {15, 16, 17, 100, 5000}) {
      for (const std::int64_t tokens : {0, 1, 2, 6, 300}) {
        for (const Layout layout : kLayouts) {
          const Array index = random_index(DType::i32, {tokens}, layout, std::min<std::int64_t>(rows, 9), rng);
          const Array g = random_array(dtype, {tokens}, layout, rng);
          std::vector<double> sums(static_cast<std::size_t>(rows));
          for (std::int64_t i = 0; i < tokens; ++i) {
            double& sum = sums[static_cast<std::size_t>(index.get({i}))];
            sum = dtype == DType::bool_ ? static_cast<double>(sum != 0 || g.get({i}) != 0) : sum + g.get({i});
            if (is_half(dtype)) sum = static_cast<float>(sum);
          }
          const Array out = run_call(Op::index_zero_add, along(0), {&g, &index}, dtype, {rows});
          for (std::int64_t r = 0; r < rows; ++r)
            ASSERT_EQ(out.get({r}), as_stored(dtype, sums[static_cast<std::size_t>(r)]))
                << name(dtype) << rows << " " << tokens;
        }
      }
    }
  }
}

TEST(Index, NamesTheFirstIndexThatIsOutside) {
  Array x(DType::f32, {10, 3}), index(DType::i64, {4, 3}), src(DType::f32, {4, 3});
  x.fill([](const Position&) { return 0.0; });
  src.fill([](const Position&) { return 0.0; });
  index.fill([](const Position& p) { return p[0] == 3 ? -1.0 : p[0] == 2 && p[1] == 1 ? 17.0 : 0.0; });
  EXPECT_THROW_KIND(run_call(Op::gather, along(0), {&x, &index}, DType::f32, {4, 3}), index,
                    "gather: index[2, 1] = 17 is outside [0, 10)");
  EXPECT_THROW_KIND(run_call(Op::scatter, along(0), {&x, &index, &src}, DType::f32, {10, 3}), index,
                    "scatter: index[2, 1] = 17 is outside [0, 10)");
  EXPECT_THROW_KIND(run_call(Op::scatter_zero_add, along(0), {&src, &index}, DType::f32, {10, 3}, "scatter_add"), index,
                    "scatter_add: index[2, 1] = 17 is outside [0, 10)");
  Array rows(DType::i32, {5});
  rows.fill([](const Position& p) { return p[0] == 3 ? -2.0 : 9.0; });
  EXPECT_THROW_KIND(run_call(Op::index_select, along(0), {&x, &rows}, DType::f32, {5, 3}, "embedding"), index,
                    "embedding: index[3] = -2 is outside [0, 10)");
  Array g(DType::f32, {5, 3});
  EXPECT_THROW_KIND(run_call(Op::index_zero_add, along(0), {&g, &rows}, DType::f32, {10, 3}), index,
                    "index_zero_add: index[3] = -2 is outside [0, 10)");
  Array nothing(DType::f32, {0, 3});
  EXPECT_THROW_KIND(run_call(Op::index_select, along(0), {&nothing, &rows}, DType::f32, {5, 3}), index,
                    "index_select: index[0] = 9 is outside [0, 0)");
}

// Many bad indices in many blocks: whichever thread finds one first, the lowest position is named.
TEST(Index, TheNamedIndexDoesNotDependOnThreads) {
  Array x(DType::f32, {10}), index(DType::i64, {300000});
  x.fill([](const Position&) { return 0.0; });
  index.fill([](const Position& p) { return p[0] >= 123456 ? 10.0 + static_cast<double>(p[0]) : 3.0; });
  Array wide(DType::i64, {1000, 300});
  wide.fill([](const Position& p) { return p[0] >= 411 && p[1] > 7 ? 99.0 : 3.0; });
  Array table(DType::f32, {10, 300});
  table.fill([](const Position&) { return 0.0; });
  Array lines(DType::i64, {3000, 3}), few(DType::f32, {3000, 3});
  lines.fill([](const Position& p) { return p[0] > 1311 || (p[0] == 1311 && p[1] == 2) ? -4.0 : 2.0; });
  few.fill([](const Position&) { return 0.0; });
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const View in[] = {x.view(), index.view()};
    Array out(DType::f32, {300000});
    const View target = out.view();
    EXPECT_THROW_MESSAGE(run_library({Op::gather, along(0), nullptr, in, {&target, 1}}), "index[123456] = 123466 is");
    const View wide_in[] = {table.view(), wide.view()};
    Array wide_out(DType::f32, {1000, 300});
    const View wide_target = wide_out.view();
    EXPECT_THROW_MESSAGE(run_library({Op::gather, along(0), nullptr, wide_in, {&wide_target, 1}}),
                         "index[411, 8] = 99 is");
    const View few_in[] = {few.view(), lines.view()};
    Array few_out(DType::f32, {3000, 3});
    const View few_target = few_out.view();
    EXPECT_THROW_MESSAGE(run_library({Op::gather, along(1), nullptr, few_in, {&few_target, 1}}),
                         "index[1311, 2] = -4 is");
    EXPECT_THROW_MESSAGE(run_library({Op::scatter_zero_add, along(1), nullptr, few_in, {&few_target, 1}}),
                         "index[1311, 2] = -4 is");
  }
}

TEST(Cat, JoinsAlongEveryAxis) {
  std::mt19937 rng(5);
  for (const DType dtype : kAllDTypes) {
    for (int axis = 0; axis < 3; ++axis) {
      for (const Layout layout : kLayouts) {
        const Shape base{3, 4, 5};
        const Array a = random_array(dtype, base, layout, rng),
                    none = random_array(dtype, base.with(axis, 0), layout, rng),
                    b = random_array(dtype, base.with(axis, 7), layout, rng);
        const Array out = run_call(Op::cat, along(axis), {&a, &none, &b}, dtype, base.with(axis, base[axis] + 7));
        for_each_position(out.shape(), [&](const Position& p) {
          Position q = p;
          const bool second = p[at(axis)] >= base[axis];
          if (second) q[at(axis)] -= base[axis];
          ASSERT_EQ(out.get(p), (second ? b : a).get(q));
        });
      }
    }
  }
}

TEST(PadZero, SurroundsWithZeros) {
  std::mt19937 rng(6);
  for (const DType dtype : kAllDTypes) {
    for (int axis = 0; axis < 2; ++axis) {
      for (const Layout layout : kLayouts) {
        for (const Shape& shape : {Shape{3, 4}, Shape{0, 2}, Shape{300, 500}}) {
          if (shape.numel() > 1000 && dtype != DType::f32) continue;
          const Array x = random_array(dtype, shape, layout, rng);
          const Array out = run_call(Op::pad_zero, along(axis, 2, 3), {&x}, dtype, shape.with(axis, shape[axis] + 5));
          for_each_position(out.shape(), [&](const Position& p) {
            Position q = p;
            q[at(axis)] -= 2;
            const bool inside = q[at(axis)] >= 0 && q[at(axis)] < shape[axis];
            ASSERT_EQ(out.get(p), inside ? x.get(q) : 0.0);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::cpu
