// SPDX-License-Identifier: MIT
#include "engine/oracle.h"

#include <cstring>

#include "ebb/autograd.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "engine/evaluate_anew.h"

// The tile interpreter against the scalar oracle, program by program.
namespace ebb {
namespace {

using testing::OracleTolerance;
using testing::SweepOracle;

Tensor some(const Shape& shape, DType dtype = DType::f64) { return (2 * randn(shape, dtype)).eval(); }

struct OracleSpace {
  std::int64_t rows, columns;
};
// Nothing, one element, tails, several rows per tile, rows of a block and more, rows that are split, many rows.
const OracleSpace kOracleSpaces[] = {{0, 5},     {5, 0},     {1, 1},      {1, 7},    {3, 1},    {7, 3},    {33, 31},
                                     {257, 2},   {1025, 2},  {300, 17},   {9, 1023}, {5, 1024}, {3, 1025}, {2, 2049},
                                     {2, 65536}, {2, 70001}, {1, 140001}, {5000, 3}, {70000, 1}};

class OracleSpaces : public ::testing::TestWithParam<OracleSpace> {
 protected:
  Shape shape() const { return {GetParam().rows, GetParam().columns}; }
  Shape row() const { return {1, GetParam().columns}; }
  Shape column() const { return {GetParam().rows, 1}; }
  bool has_columns() const { return GetParam().columns > 0; }
};

TEST_P(OracleSpaces, Elementwise) {
  const Tensor x = some(shape()), r = some(row()), c = some(column());
  SweepOracle::expect_same({tanh(x) * r + where(x > c, exp(-abs(x)), sigmoid(c)), x - r});
}

TEST_P(OracleSpaces, RowReductions) {
  const Tensor x = some(shape());
  SweepOracle::expect_same({sum(x, 1)});
  SweepOracle::expect_same({sum(square(x), 1), prod(1 + 0.001 * x, 1)});
  if (!has_columns()) return;
  SweepOracle::expect_same({max(x, 1), min(x, 1)});
  SweepOracle::expect_same({log_softmax(x), softmax(x), logsumexp(x, 1)});
  SweepOracle::expect_same({layer_norm(x, {GetParam().columns}, squeeze(some(row()), 0), squeeze(some(row()), 0))});
}

TEST_P(OracleSpaces, ColumnReductions) {
  const Tensor x = some(shape());
  SweepOracle::expect_same({sum(x, 0)});
  SweepOracle::expect_same({sum(x, 0), sum(x * some(row()), 0), exp(-sum(square(x), 0))});
  if (GetParam().rows == 0) return;
  SweepOracle::expect_same({max(x, 0), min(x, 0)});
  SweepOracle::expect_same({softmax(x, 0)});
}

TEST_P(OracleSpaces, ColumnReductionBesideTheValueItReduces) {
  const Tensor x = some(shape()), m = some(row()), g = some(shape());
  const Tensor e = x / (1 + square(m));
  SweepOracle::expect_same({e, sum(e * g, 0)});
}

TEST_P(OracleSpaces, Totals) {
  const Tensor x = some(shape()), y = some(shape());
  SweepOracle::expect_same({sum(x)});
  SweepOracle::expect_same({mean(square(x - y)), x - y});
  SweepOracle::expect_same({sum(x), sum(x, 0), sum(x, 1), x * y});
  if (x.numel() > 0) SweepOracle::expect_same({max(x), min(x)});
}

TEST_P(OracleSpaces, Picks) {
  if (GetParam().columns < 2 || GetParam().rows == 0) return;  // there a pick is a gather: a library call
  const Tensor x = some(shape()), index = randint(0, GetParam().columns, column()).eval();
  SweepOracle::expect_same({gather(log_softmax(x), 1, index)});
  const Tensor v = variable(x);
  const Tensor loss = -mean(gather(log_softmax(v), 1, index));
  SweepOracle::expect_same({loss, backward(loss)[v]});
}

TEST_P(OracleSpaces, StridedOperands) {
  const Tensor x = some({GetParam().columns, GetParam().rows}), y = some({GetParam().rows, 2 * GetParam().columns});
  const Tensor turned = t(x), stepped = slice(y, 1, 0, kEnd, 2), back = slice(some(shape()), 1, -1, kEnd, -1);
  SweepOracle::expect_same({turned + stepped * back, sum(turned * back, 1), sum(stepped + back, 0)});
}

TEST_P(OracleSpaces, RepeatedOperands) {
  const Tensor wide = expand(some(row()), shape()), tall = expand(some(column()), shape());
  eval({wide, tall});  // memory with strides 0
  SweepOracle::expect_same({sum(wide, 0)});
  SweepOracle::expect_same({sum(tall, 1)});
  SweepOracle::expect_same({sum(wide), sum(tall), wide * tall});
  const Tensor numbers = expand(cast(some(row()), DType::i32).eval(), shape()).eval();
  SweepOracle::expect_same({sum(numbers, 0), sum(numbers, 1), sum(numbers)});
}

TEST_P(OracleSpaces, EveryDtype) {
  for (DType d : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = some(shape(), d), y = some(shape(), d);
    SweepOracle::expect_same({tanh(x) + y * sigmoid(x)});
    OracleTolerance wide;
    wide.f32 = 1e-4;  // sums of many terms of both signs
    SweepOracle::expect_same({sum(x, 1), sum(y * y, 0), sum(x), maximum(x, y)}, wide);
  }
  for (DType d : {DType::i64, DType::i32, DType::u8}) {
    const Tensor x = cast(randint(0, 9, shape()), d).eval(), y = cast(randint(1, 9, shape()), d).eval();
    SweepOracle::expect_same({x * y + x, floor_divide(x, y), remainder(x, y), x < y, sum(x, 1), sum(y, 0), sum(x * y)});
    SweepOracle::expect_same({where(x < y, x, y), any(x == y, 1), all(x == y, 0), cast(x, DType::f32) / 2});
  }
}

TEST_P(OracleSpaces, Random) {
  const Tensor x = some(shape(), DType::f32);
  SweepOracle::expect_same({dropout(x, 0.3), rand(shape(), DType::f64)});
}

// Over the middle of three axes: neighbours in memory belong to different rows.
TEST(OracleOfRowsSideBySide, IsTheSweep) {
  struct Sizes {
    std::int64_t before, columns, after;
  };
  for (const Sizes& s :
       {Sizes{3, 5, 37}, Sizes{1, 2, 16}, Sizes{2, 17, 33}, Sizes{4, 64, 130}, Sizes{1, 1000, 19}, Sizes{2, 1024, 16},
        Sizes{5, 21, 641}, Sizes{2, 1025, 17}, Sizes{1, 2100, 66}, Sizes{1, 40, 3000}, Sizes{2, 3001, 70},
        Sizes{60, 3, 5}, Sizes{1, 2, 9001}, Sizes{2, 130, 64}, Sizes{1, 5000, 4}}) {
    const Shape shape{s.before, s.columns, s.after};
    OracleTolerance wide;
    wide.f32 = 1e-4;  // sums of many terms of both signs
    for (const DType d : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor x = cast(randn(shape), d).eval(), y = cast(randn(shape), d).eval();
      const Tensor bias = cast(randn({s.columns, 1}), d).eval(), row = cast(randn({s.before, 1, s.after}), d).eval();
      SweepOracle::expect_same({sum(x, 1), max(x, 1), min(x * y, 1)}, wide);
      SweepOracle::expect_same({sum(square(x), 1, true), sum(x * y, 1)}, wide);
      SweepOracle::expect_same({softmax(x + bias, 1), log_softmax(x * row, 1)}, wide);
      const Tensor centred = x - mean(x, 1, true);
      SweepOracle::expect_same({centred * y, sum(square(centred)), sum(centred, 1)}, wide);
      const Tensor index = randint(0, s.columns, {s.before, 1, s.after}).eval();
      SweepOracle::expect_same({gather(exp(x), 1, index) + sum(x, 1, true)}, wide);
      SweepOracle::expect_same({x - max(x, 1, true) + arange(s.after) + dropout(y, 0.4)}, wide);
    }
    const Tensor n = randint(-9, 9, shape).eval();
    SweepOracle::expect_same({sum(n, 1), max(n, 1), prod(n, 1), n - min(n, 1, true)});
  }
}

// Every set of axes of shapes with tiny ones inside: rows and columns are interleaved, in pieces of a few elements.
TEST(OracleOfAnyAxes, IsTheSweep) {
  for (const Shape& shape : {Shape{41, 3, 211, 2}, Shape{7, 2, 19, 3, 5}, Shape{130, 3, 4, 2}, Shape{5, 67, 16, 3}}) {
    const int rank = static_cast<int>(shape.rank());
    OracleTolerance wide;
    wide.f32 = 1e-4;  // sums of many terms of both signs
    for (const DType d : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
      const Tensor x = is_integer(d) ? cast(randint(-9, 9, shape), d).eval() : cast(randn(shape), d).eval();
      for (unsigned set = 1; set + 1 < 1u << rank; ++set) {
        std::vector<std::int64_t> axes;
        for (int a = 0; a < rank; ++a) {
          if (set >> a & 1) axes.push_back(a);
        }
        SCOPED_TRACE(std::to_string(shape.numel()) + " " + std::string(name(d)) + " " + std::to_string(set));
        SweepOracle::expect_same({sum(x, axes)}, wide);
        SweepOracle::expect_same({max(x, axes)}, wide);
        SweepOracle::expect_same({x - max(x, axes, true), sum(x, axes)}, wide);
      }
      std::vector<std::int64_t> turned(static_cast<std::size_t>(rank));
      for (int a = 0; a < rank; ++a) turned[static_cast<std::size_t>(a)] = (a + 2) % rank;
      const Tensor y = x.permute(turned);
      SweepOracle::expect_same({y + y * 2, slice(y, rank - 1, 0, kEnd, 2) * 3}, wide);
    }
  }
}

// Numbers of channels, which are values of rows where rows are long enough, and in a row of several channels one per
// piece: beside values of columns, in slices, under masks, stored themselves, with random numbers, of every dtype.
TEST(OracleOfChannels, IsTheSweep) {
  manual_seed(5);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    const auto of = [&](const Shape& shape) { return cast(3 * randn(shape), dtype).eval(); };
    for (const std::int64_t n : {1, 31, 191, 192, 193, 784, 2048, 8192, 8193}) {
      const Tensor x = of({5, 6, n}), y = of({5, 6, n + 3}).slice(2, 1, n + 1), w = of({6, 1}), b = of({5, 1, 1}),
                   row = of({n}), mask = (randn({6, 1}) > 0).eval();
      SweepOracle::expect_same({x * w + b});
      SweepOracle::expect_same({where(mask, y, w) - row, x * (w + b) * 2});
      SweepOracle::expect_same({x + broadcast_to(w * w, x.shape()), broadcast_to(w, x.shape()), w + b});
      SweepOracle::expect_same({cast(x, DType::f32) + cast(w, DType::f32) * rand(x.shape()), x > w});
      SweepOracle::expect_same({transpose(x, 0, 1) * reshape(w, {6, 1, 1})});
      if (!is_floating(dtype)) continue;
      SweepOracle::expect_same({group_norm(x, 3, reshape(w, {6}), reshape(w, {6})), group_norm(x, 6, reshape(w, {6}))});
      const Tensor v = variable(y), u = variable(reshape(w, {6}).eval());
      const Gradients g = backward(sum(cast(group_norm(v, 2, u), DType::f64) * cast(x, DType::f64)));
      SweepOracle::expect_same({g[v], g[u]});
    }
  }
}

// The same of rows that are longer than a tile, up to where they would be too few tasks, and numbers of rows and
// columns that are ramps.
TEST(OracleOfChannels, IsTheSweepForLongRowsAndRamps) {
  manual_seed(6);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64}) {
    const auto of = [&](const Shape& shape) { return cast(3 * randn(shape), dtype).eval(); };
    for (const std::int64_t n : {8200, 20011, 65536, 65537}) {
      const Tensor x = of({3, n}), w = of({3, 1}), y = of({3, n + 3}).slice(1, 1, n + 1), row = of({n});
      SweepOracle::expect_same({x * w + w, where(y > w, y, row), w * 2});
    }
    for (const Shape& shape : {Shape{5, 191}, Shape{300, 200}, Shape{7, 9001}, Shape{2, 3, 40, 250}}) {
      const Tensor x = of(shape), line = of({shape[shape.rank() - 1]});
      for (const std::int64_t diagonal : {-3, 0, 7}) {
        SweepOracle::expect_same({tril(x, diagonal)});
        SweepOracle::expect_same({triu(x, diagonal) * line, tril(transpose(x, -1, -2), diagonal)});
      }
    }
  }
}

// Short rows that all rows share, and slices, whose rows are dense.
TEST(OracleOfSharedRows, IsTheSweepForBiasesAndSlices) {
  manual_seed(8);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    const auto of = [&](const Shape& shape) { return cast(3 * randn(shape), dtype).eval(); };
    for (const std::int64_t n : {2, 3, 5, 17, 100, 191, 192}) {
      const Tensor x = of({1031, n}), row = of({n}), column = of({1031, 1}), z = of({70, 3, n}), plane = of({3, n});
      SweepOracle::expect_same({x + row});
      SweepOracle::expect_same({x * row + row, where(x > row, x, column)});
      SweepOracle::expect_same({z * plane + row, broadcast_to(plane, z.shape())});
      SweepOracle::expect_same({cast(x, DType::f32) * cast(row, DType::f32), x < row});
      SweepOracle::expect_same({transpose(x, 0, 1) + reshape(row, {n, 1})});
      SweepOracle::expect_same({x + flip(row, {0})});
      if (!is_floating(dtype)) SweepOracle::expect_same({bitwise_and(x, row)});
    }
    for (const std::int64_t n : {511, 512, 513, 2049, 8193}) {
      const Tensor x = of({5, n}), z = of({3, 4, n}), w = of({5, 1});
      const auto part = [](const Tensor& t, int axis, std::int64_t first, std::int64_t count) {
        return narrow(t, axis, first, count);
      };
      SweepOracle::expect_same({part(x, 1, 1, n - 1) - part(x, 1, 0, n - 1)});
      SweepOracle::expect_same({part(z, 1, 1, 3) - part(z, 1, 0, 3), part(z, 2, 0, n - 1) * 2});
      SweepOracle::expect_same({part(x, 1, 0, n / 2) * part(x, 1, n - n / 2, n / 2) + w});
      if (is_floating(dtype)) SweepOracle::expect_same({exp(part(x, 1, 2, n - 2))});
    }
  }
}

TEST(RowsSideBySide, HaveTheSameBitsForAnyNumberOfThreads) {
  struct Threads {
    int before = num_threads();
    ~Threads() { set_num_threads(before); }
  } restore;
  for (const Shape& shape :
       {Shape{5, 21, 641}, Shape{1, 65, 9001}, Shape{601, 3, 17}, Shape{2, 3001, 70}, Shape{4001, 1, 3}}) {
    for (const DType d : {DType::f32, DType::bf16, DType::f64}) {
      const Tensor x = cast(randn(shape), d).eval();
      const auto results = [&] {
        std::vector<Tensor> all;
        for (const int axis : {0, 1}) {
          const Tensor soft = softmax(x, axis);
          for (const Tensor& y :
               {sum(x, axis), soft, var(x, axis), sum(square(soft) * x), max(x, axis), logsumexp(x, axis)})
            all.push_back(cast(y, DType::f64));
        }
        evaluate_anew(all);
        std::vector<std::vector<double>> numbers;
        for (const Tensor& y : all) numbers.push_back(y.to_vector());
        return numbers;
      };
      set_num_threads(1);
      const auto one = results();
      set_num_threads(3);
      const auto three = results();
      for (std::size_t k = 0; k < one.size(); ++k)
        ASSERT_TRUE(std::memcmp(one[k].data(), three[k].data(), one[k].size() * sizeof(double)) == 0)
            << shape.numel() << ' ' << name(d) << ' ' << k;
    }
  }
}

std::string space_name(const ::testing::TestParamInfo<OracleSpace>& i) {
  return std::to_string(i.param.rows) + "x" + std::to_string(i.param.columns);
}
INSTANTIATE_TEST_SUITE_P(Of, OracleSpaces, ::testing::ValuesIn(kOracleSpaces), space_name);

}  // namespace
}  // namespace ebb
