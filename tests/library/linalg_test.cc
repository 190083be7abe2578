// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "arrays.h"
#include "calls/factors.h"
#include "calls/triangular_solve.h"
#include "ebb/memory.h"
#include "expect_error.h"

namespace ebb::cpu {
namespace {

double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 5e-3 : 4e-2;
}

Position with_last(Position p, std::int64_t i, std::int64_t j) {
  p[p.size() - 2] = i;
  p[p.size() - 1] = j;
  return p;
}

const Shape kSquares[] = {{1, 1},    {4, 4}, {3, 5, 5}, {2, 3, 2, 2}, {0, 3, 3},
                          {2, 0, 0}, {9, 9}, {17, 17},  {2, 33, 33},  {70, 70}};

// Random with a heavy diagonal: well conditioned, and symmetric if requested.
Array matrices(DType dtype, const Shape& shape, Layout layout, std::mt19937& rng, bool symmetric) {
  std::normal_distribution<double> normal;
  const std::int64_t n = shape[shape.rank() - 1];
  Array a(dtype, shape, layout);
  a.fill([&](const Position& p) {
    return normal(rng) + (p[p.size() - 1] == p[p.size() - 2] ? 3.0 * std::sqrt(static_cast<double>(n)) : 0.0);
  });
  if (symmetric) {
    for_each_position(shape, [&](const Position& p) {
      const std::int64_t i = p[p.size() - 2], j = p[p.size() - 1];
      if (i < j) a.set(p, a.get(with_last(p, j, i)));
    });
  }
  return a;
}

TEST(Cholesky, TheFactorTimesItsTransposeIsTheMatrix) {
  std::mt19937 rng(1);
  for (const DType dtype : kFloats) {
    for (const Shape& shape : kSquares) {
      for (const Layout layout : {Layout::dense, Layout::gapped, Layout::transposed, Layout::backwards}) {
        const Array a = matrices(dtype, shape, layout, rng, true);
        const Array l = run_call(Op::cholesky, {}, {&a}, dtype, shape);
        for_each_position(shape, [&](const Position& p) {
          const std::int64_t i = p[p.size() - 2], j = p[p.size() - 1];
          if (j > i) {
            ASSERT_EQ(l.get(p), 0.0);
          }
          double sum = 0;
          for (std::int64_t k = 0; k <= std::min(i, j); ++k)
            sum += l.get(with_last(p, i, k)) * l.get(with_last(p, j, k));
          ASSERT_NEAR(sum, a.get(p), tolerance_of(dtype) * 40);
        });
      }
    }
  }
}

TEST(Cholesky, NamesTheMatrixThatIsNotPositiveDefinite) {
  Array a(DType::f64, {5, 3, 3});
  a.fill([](const Position& p) { return p[1] == p[2] ? (p[0] >= 3 && p[1] == 1 ? -1.0 : 2.0) : 0.0; });
  EXPECT_THROW_MESSAGE(run_call(Op::cholesky, {}, {&a}, DType::f64, {5, 3, 3}),
                       "cholesky: matrix 3 is not positive definite (leading minor 2)");
  Array one(DType::f32, {1, 1});
  one.set({0, 0}, -1.0);
  EXPECT_THROW_MESSAGE(run_call(Op::cholesky, {}, {&one}, DType::f32, {1, 1}), "cholesky: the matrix is not positive");
}

TEST(TriangularSolve, EveryTriangleTransposedOrNot) {
  std::mt19937 rng(2);
  for (const DType dtype : kFloats) {
    for (const Shape& shape : kSquares) {
      for (const std::int64_t columns : {0, 1, 3, 300}) {
        for (int bits = 0; bits < 8; ++bits) {
          const bool upper = bits & 1, transposed = bits & 2, unit = bits & 4;
          const Layout layout = kLayouts[bits % 4];
          const std::int64_t n = shape[shape.rank() - 1];
          Array a = matrices(dtype, shape, layout, rng, false);
          if (unit) {  // a unit triangle of large numbers would be ill conditioned
            for_each_position(shape, [&](const Position& p) { a.set(p, a.get(p) / static_cast<double>(n)); });
          }
          const Array b = random_array(dtype, shape.with(shape.rank() - 1, columns), layout, rng);
          const Array x = run_call(Op::triangular_solve, with_options(TriangularSolveCall{upper, transposed, unit}),
                                   {&a, &b}, dtype, b.shape());
          for_each_position(b.shape(), [&](const Position& p) {
            const std::int64_t i = p[p.size() - 2], c = p[p.size() - 1];
            double sum = 0;
            for (std::int64_t k = 0; k < n; ++k) {
              const std::int64_t r = transposed ? k : i, s = transposed ? i : k;
              const double element = r == s                    ? (unit ? 1.0 : a.get(with_last(p, r, s)))
                                     : (upper ? s > r : s < r) ? a.get(with_last(p, r, s))
                                                               : 0.0;
              sum += element * x.get(with_last(p, k, c));
            }
            ASSERT_NEAR(sum, b.get(p), tolerance_of(dtype) * 60) << name(dtype) << shape.str() << bits;
          });
        }
      }
    }
  }
}

// Which numbers of the solution are NaN or infinite follows from the triangle alone, with every BLAS.
TEST(TriangularSolve, AnInfinityReachesTheRowsThatDependOnIt) {
  std::mt19937 rng(4);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 9, 17, 41}) {
      for (std::int64_t at = 0; at<n * n; at += n> 20 ? 37 : n > 5 ? 3 : 1) {
        for (int bits = 0; bits < 8; ++bits) {
          const bool upper = bits & 1, transposed = bits & 2, unit = bits & 4;
          Array a = matrices(dtype, {n, n}, Layout::dense, rng, false);
          a.set({at / n, at % n}, std::numeric_limits<double>::infinity());
          const Array b = random_array(dtype, {n, 3}, Layout::dense, rng);
          const Array x = run_call(Op::triangular_solve, with_options(TriangularSolveCall{upper, transposed, unit}),
                                   {&a, &b}, dtype, b.shape());
          for (std::int64_t column = 0; column < 3; ++column) {
            std::vector<double> solved(static_cast<std::size_t>(n));
            for (std::int64_t step = 0; step < n; ++step) {
              const std::int64_t r = upper != transposed ? n - 1 - step : step;
              double rest = b.get({r, column});
              for (std::int64_t c = 0; c < n; ++c)
                if (upper != transposed ? c > r : c < r)
                  rest -= (transposed ? a.get({c, r}) : a.get({r, c})) * solved[static_cast<std::size_t>(c)];
              const double expected = unit ? rest : rest / a.get({r, r}), found = x.get({r, column});
              solved[static_cast<std::size_t>(r)] = expected;
              ASSERT_EQ(std::isnan(found), std::isnan(expected)) << name(dtype) << n << ' ' << at << ' ' << bits;
              ASSERT_EQ(std::isinf(found), std::isinf(expected)) << name(dtype) << n << ' ' << at << ' ' << bits;
            }
          }
        }
      }
    }
  }
}

TEST(Solve, TheSolutionSatisfiesTheEquation) {
  std::mt19937 rng(3);
  for (const DType dtype : kFloats) {
    for (const Shape& shape : kSquares) {
      for (const std::int64_t columns : {0, 1, 3}) {
        for (const Layout layout : kLayouts) {
          const Array a = matrices(dtype, shape, layout, rng, false);
          const Array b = random_array(dtype, shape.with(shape.rank() - 1, columns), layout, rng);
          if (shape.rank() == 2 && layout == Layout::repeated && shape[0] > 1) continue;  // equal rows: singular
          const Array x = run_call(Op::solve, {}, {&a, &b}, dtype, b.shape());
          for_each_position(b.shape(), [&](const Position& p) {
            const std::int64_t i = p[p.size() - 2], c = p[p.size() - 1];
            double sum = 0;
            for (std::int64_t k = 0; k < shape[shape.rank() - 1]; ++k)
              sum += a.get(with_last(p, i, k)) * x.get(with_last(p, k, c));
            ASSERT_NEAR(sum, b.get(p), tolerance_of(dtype) * 40) << name(dtype) << shape.str();
          });
        }
      }
    }
  }
}

TEST(Solve, PivotsAndNamesTheSingularMatrix) {
  Array a(DType::f64, {2, 2}), b(DType::f64, {2, 1});
  a.fill([](const Position& p) { return p[0] == p[1] ? 0.0 : 1.0; });  // needs a row swap
  b.fill([](const Position& p) { return static_cast<double>(p[0] + 1); });
  const Array x = run_call(Op::solve, {}, {&a, &b}, DType::f64, {2, 1});
  EXPECT_EQ(x.get({0, 0}), 2.0);
  EXPECT_EQ(x.get({1, 0}), 1.0);
  Array many(DType::f32, {4, 2, 2}), right(DType::f32, {4, 2, 1});
  many.fill([](const Position& p) { return p[0] == 2 ? 1.0 : p[1] == p[2] ? 1.0 : 0.0; });
  right.fill([](const Position&) { return 1.0; });
  EXPECT_THROW_MESSAGE(run_call(Op::solve, {}, {&many, &right}, DType::f32, {4, 2, 1}),
                       "solve: matrix 2 is singular (pivot 2 is zero)");
}

// Elimination with full doubles, no pivoting needed for these matrices.
double determinant(const Array& a, const Position& p) {
  const std::int64_t n = a.shape()[a.shape().rank() - 1];
  std::vector<std::vector<double>> m(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n)));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = a.get(with_last(p, i, j));
  }
  double product = 1;
  for (std::size_t d = 0; d < m.size(); ++d) {
    product *= m[d][d];
    for (std::size_t r = d + 1; r < m.size(); ++r) {
      const double factor = m[r][d] / m[d][d];
      for (std::size_t c = d; c < m.size(); ++c) m[r][c] -= factor * m[d][c];
    }
  }
  return product;
}

// Pivots from anywhere: with its rows turned around, a matrix has the same solution and, by the sign of the turn, the
// same determinant.
TEST(Solve, FindsPivotsInLaterBlocks) {
  std::mt19937 rng(7);
  for (const std::int64_t n : {9, 16, 17, 40, 70}) {
    const Array a = matrices(DType::f64, {n, n}, Layout::dense, rng, false);
    const Array b = random_array(DType::f64, {n, 2}, Layout::dense, rng);
    Array turned(DType::f64, {n, n}), turned_b(DType::f64, {n, 2});
    turned.fill([&](const Position& p) { return a.get({n - 1 - p[0], p[1]}); });
    turned_b.fill([&](const Position& p) { return b.get({n - 1 - p[0], p[1]}); });
    const Array x = run_call(Op::solve, {}, {&a, &b}, DType::f64, {n, 2});
    const Array y = run_call(Op::solve, {}, {&turned, &turned_b}, DType::f64, {n, 2});
    for_each_position(x.shape(), [&](const Position& p) { ASSERT_NEAR(x.get(p), y.get(p), 1e-12) << n; });
    const double d = run_call(Op::det, {}, {&a}, DType::f64, {}).get({});
    const double e = run_call(Op::det, {}, {&turned}, DType::f64, {}).get({});
    ASSERT_NEAR(n / 2 % 2 == 0 ? e : -e, d, 1e-11 * std::fabs(d)) << n;
  }
}

TEST(Det, AgreesWithEliminationAndItsLogarithm) {
  std::mt19937 rng(4);
  for (const DType dtype : kFloats) {
    for (const Shape& shape : {Shape{1, 1}, Shape{4, 4}, Shape{3, 5, 5}, Shape{2, 0, 0}, Shape{0, 3, 3},
                               Shape{2, 3, 2, 2}, Shape{9, 9}, Shape{2, 17, 17}}) {
      for (const Layout layout : {Layout::dense, Layout::transposed, Layout::backwards}) {
        const Array a = matrices(dtype, shape, layout, rng, false);
        const Shape outer(shape.begin(), shape.rank() - 2);
        const Array det = run_call(Op::det, {}, {&a}, dtype, outer);
        const Array logdet = run_call(Op::logdet, {}, {&a}, dtype, outer);
        for_each_position(outer, [&](const Position& p) {
          Position q = p;
          q.push_back(0);
          q.push_back(0);
          const double expected = determinant(a, q);
          if (dtype != DType::f16) {
            ASSERT_NEAR(det.get(p), expected, tolerance_of(dtype) * std::fabs(expected));
          }
          if (expected > 0) {
            ASSERT_NEAR(logdet.get(p), std::log(expected), tolerance_of(dtype) * 10);
          }
          if (expected < 0) {
            ASSERT_TRUE(std::isnan(logdet.get(p)));
          }
        });
      }
    }
  }
}

// The factors multiplied are the rows of A in the order that the last row tells, and its sign the exchanges.
TEST(Factors, FactorsMultiplyToTheRowsOfA) {
  std::mt19937 rng(11);
  for (const std::int64_t n : {1, 2, 7, 8, 9, 40, 130}) {
    const Array a = matrices(DType::f64, {3, n, n}, Layout::transposed, rng, false);
    const Array lu = run_call(Op::det, with_options(FactorsCall{}), {&a}, DType::f64, {3, n + 1, n});
    for (std::int64_t m = 0; m < 3; ++m) {
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < n; ++i) rows.push_back(std::llabs(std::llround(lu.get({m, n, i}))) - 1);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = i <= j ? lu.get({m, i, j}) : 0;
          for (std::int64_t k = 0; k < std::min(i, j + 1); ++k) sum += lu.get({m, i, k}) * lu.get({m, k, j});
          ASSERT_NEAR(sum, a.get({m, rows[static_cast<std::size_t>(i)], j}), 1e-12 * static_cast<double>(n)) << n;
          if (i > j) ASSERT_LE(std::fabs(lu.get({m, i, j})), 1.0);
        }
      }
      bool odd = false;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) odd ^= rows[j] > rows[i];
      }
      EXPECT_EQ(lu.get({m, n, 0}) < 0, odd) << n;
    }
  }
}

TEST(Det, SignsZerosAndInfinities) {
  Array a(DType::f64, {3, 2, 2});
  a.fill([](const Position& p) {
    return p[0] == 0 ? (p[1] == p[2] ? 0.0 : 1.0) : p[0] == 1 ? 1.0 : (p[1] == p[2] ? -2.0 : 0.0);
  });
  const Array det = run_call(Op::det, {}, {&a}, DType::f64, {3}), log = run_call(Op::logdet, {}, {&a}, DType::f64, {3});
  EXPECT_EQ(det.get({0}), -1.0);
  EXPECT_EQ(det.get({1}), 0.0);
  EXPECT_EQ(det.get({2}), 4.0);
  EXPECT_TRUE(std::isnan(log.get({0})));
  EXPECT_EQ(log.get({1}), -std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(log.get({2}), std::log(4.0));
}

// A matrix has the same factors alone, by all threads, and in a batch, one per thread.
TEST(LinearAlgebra, BitsDependOnTheMatrixAlone) {
  std::mt19937 rng(6);
  constexpr std::int64_t kCount = 5, kRows = 150, kColumns = 131;
  const int threads = num_threads();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array a = matrices(dtype, {kCount, kRows, kRows}, Layout::dense, rng, true);
    const Array b = random_array(dtype, {kCount, kRows, kColumns}, Layout::dense, rng);
    Array a0(dtype, {kRows, kRows}), b0(dtype, {kRows, kColumns});
    a0.fill([&](const Position& p) { return a.get({3, p[0], p[1]}); });
    b0.fill([&](const Position& p) { return b.get({3, p[0], p[1]}); });
    const auto all = [&](const Array& matrix, const Array& right) {
      return std::vector{run_call(Op::cholesky, {}, {&matrix}, dtype, matrix.shape()),
                         run_call(Op::solve, {}, {&matrix, &right}, dtype, right.shape()),
                         run_call(Op::triangular_solve, with_options(TriangularSolveCall{true, true, false}),
                                  {&matrix, &right}, dtype, right.shape())};
    };
    set_num_threads(1);
    const std::vector<Array> alone = all(a0, b0);
    for (const int n : {1, 3, 8}) {
      set_num_threads(n);
      const std::vector<Array> again = all(a0, b0), batch = all(a, b);
      for (std::size_t k = 0; k < alone.size(); ++k) {
        for_each_position(alone[k].shape(), [&](const Position& p) {
          ASSERT_EQ(again[k].get(p), alone[k].get(p)) << k << ' ' << n;
          ASSERT_EQ(batch[k].get({3, p[0], p[1]}), alone[k].get(p)) << k << ' ' << n;
        });
      }
    }
  }
  set_num_threads(threads);
}

TEST(LinearAlgebra, IntegersAreRefused) {
  Array a(DType::i64, {1, 1});
  a.set({0, 0}, 1);
  EXPECT_THROW_KIND(run_call(Op::det, {}, {&a}, DType::i64, {}), type, "det: needs floating matrices, got i64");
}

}  // namespace
}  // namespace ebb::cpu
