// SPDX-License-Identifier: MIT
#include "ebb/backward/linalg.h"

#include "expect_error.h"
#include "ops/finite_differences.h"
#include "test_device.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

// Symmetric and positive definite, even when a single element of x is varied: A = (X·Xᵀ) + 2·I.
Tensor positive(const Tensor& x) { return matmul(x, transpose(x, -2, -1)) + 2 * eye(x.size(-1), {}, x.dtype()); }

TEST(Linalg, MatmulOfEveryRank) {
  const Tensor v = tensor({1.0, 2.0}), m = tensor({{1.0, 2.0}, {3.0, 4.0}});
  expect_shape_and_values(matmul(v, v), {}, {5});
  expect_shape_and_values(matmul(m, v), {2}, {5, 11});
  expect_shape_and_values(matmul(v, m), {2}, {7, 10});
  expect_shape_and_values(matmul(m, m), {2, 2}, {7, 10, 15, 22});
  expect_shape_and_values(matmul(stack({m, v * m}), m), {2, 2, 2}, {7, 10, 15, 22, 13, 18, 27, 38});
  expect_shape_and_values(matmul(unsqueeze(stack({m, m}), 1), stack({v, v})), {2, 1, 2, 2}, {3, 6, 7, 14, 3, 6, 7, 14});
  EXPECT_EQ(matmul(ones({3, 1, 4, 5}), ones({2, 5, 6})).shape(), Shape({3, 2, 4, 6}));
  EXPECT_EQ(matmul(ones({3, 0}), ones({0, 2})).shape(), Shape({3, 2}));
  expect_shape_and_values(matmul(ones({1, 0}), ones({0, 2})), {1, 2}, {0, 0});
  EXPECT_THROW_MESSAGE(matmul(m, ones({3, 2})), "matmul: inner sizes differ, 2 and 3, for shapes [2, 2] and [3, 2]");
}

// A product without a sum, of every kind: shapes as with one, wrapping integers, halves rounded once.
TEST(Linalg, MatmulOfOneInnerElement) {
  const Tensor column = tensor({{2.0}, {3.0}}), row = tensor({{5.0, 7.0, 11.0}});
  expect_shape_and_values(matmul(column, row), {2, 3}, {10, 14, 22, 15, 21, 33});
  expect_shape_and_values(matmul(column, tensor({4.0})), {2}, {8, 12});
  EXPECT_EQ(matmul(ones({3, 1, 4, 1}), ones({2, 1, 6})).shape(), Shape({3, 2, 4, 6}));
  EXPECT_EQ(matmul(ones({2, 5, 1}), ones({1, 3})).shape(), Shape({2, 5, 3}));
  EXPECT_EQ(matmul(full({1, 1}, std::int64_t{1} << 62), full({1, 1}, std::int64_t{4})).item<std::int64_t>(), 0);
  EXPECT_EQ(matmul(cast(column, DType::bf16), cast(row, DType::bf16)).dtype(), DType::bf16);
}

TEST(Linalg, DotOfHalvesIsRoundedOnce) {
  const Tensor a = sin(arange(0, 3001, 1, DType::f32)), b = cos(arange(0, 3001, 1, DType::f32) * 0.7) + 0.1;
  for (const DType half : {DType::f16, DType::bf16}) {
    const Tensor x = cast(a, half).eval(), y = cast(b, half).eval();
    const double exact = dot(cast(x, DType::f64), cast(y, DType::f64)).item<double>();
    EXPECT_EQ(dot(x, y).dtype(), half);
    EXPECT_EQ(dot(x, y).item<double>(), cast(tensor(exact), half).item<double>());
  }
}

TEST(Linalg, DotAndOuter) {
  const Tensor v = tensor({1.0, 2.0});
  EXPECT_EQ(dot(v, v).item(), 5);
  expect_shape_and_values(outer(v, tensor({3.0, 4.0, 5.0})), {2, 3}, {3, 4, 5, 6, 8, 10});
  EXPECT_THROW_MESSAGE(dot(v, ones({3})), "dot: needs two vectors of equal length");
}

TEST(Linalg, EinsumOfEveryKind) {
  const Tensor m = tensor({{1.0, 2.0}, {3.0, 4.0}}), v = tensor({5.0, 6.0});
  expect_shape_and_values(einsum("ij,jk->ik", {m, m}), {2, 2}, {7, 10, 15, 22});
  expect_shape_and_values(einsum("ij,jk", {m, m}), {2, 2}, {7, 10, 15, 22});
  expect_shape_and_values(einsum("ij->ji", {m}), {2, 2}, {1, 3, 2, 4});
  expect_shape_and_values(einsum("ba", {m}), {2, 2}, {1, 3, 2, 4});
  expect_shape_and_values(einsum("ii", {m}), {}, {5});
  expect_shape_and_values(einsum("ii->i", {m}), {2}, {1, 4});
  expect_shape_and_values(einsum("ij->", {m}), {}, {10});
  expect_shape_and_values(einsum("i,i", {v, v}), {}, {61});
  expect_shape_and_values(einsum("i,j->ij", {v, v}), {2, 2}, {25, 30, 30, 36});
  expect_shape_and_values(einsum("ij,ij->i", {m, m}), {2}, {5, 25});
  expect_shape_and_values(einsum("...ij,...jk->...ik", {stack({m, m}), m}), {2, 2, 2}, {7, 10, 15, 22, 7, 10, 15, 22});
  expect_shape_and_values(einsum("i...,i", {m, v}), {2}, {23, 34});
  expect_shape_and_values(einsum("ij,j,jk->ik", {m, v, m}), {2, 2}, {41, 58, 87, 126});
  expect_shape_and_values(einsum("ij,k->i", {m, v}), {2}, {33, 77});
  EXPECT_THROW_MESSAGE(einsum("ij,jk", {m}), "einsum: \"ij,jk\" has 2 operands, 1 were given");
  EXPECT_THROW_MESSAGE(einsum("ij->k", {m}), "repeats an index or has one that no operand has");
  EXPECT_THROW_MESSAGE(einsum("ijk", {m}), "does not name the axes of shape [2, 2]");
  EXPECT_THROW_MESSAGE(einsum("ij,jk", {m, ones({3, 2})}), "einsum: sizes 2 and 3 of one index");
}

TEST(Linalg, FactorisationsSolveTheirEquations) {
  const Tensor a = positive(some({2, 4, 4})), b = some({2, 4, 3}, 2);
  const CloseOptions close{1e-10, 1e-10};
  const Tensor l = cholesky(a);
  EXPECT_TRUE(allclose(matmul(l, transpose(l, -2, -1)), a, close));
  EXPECT_TRUE(allclose(matmul(a, solve(a, b)), b, close));
  EXPECT_TRUE(allclose(matmul(a, inv(a)), expand(eye(4, {}, DType::f64), {2, 4, 4}), close));
  EXPECT_TRUE(allclose(matmul(l, triangular_solve(l, b)), b, close));
  EXPECT_TRUE(allclose(matmul(transpose(l, -2, -1), triangular_solve(l, b, {.transposed = true})), b, close));
  EXPECT_TRUE(allclose(logdet(a), 2 * sum(log(diagonal(l, 0, -2, -1)), -1), close));
  EXPECT_TRUE(allclose(log(det(a)), logdet(a), close));
  EXPECT_EQ(solve(a[0], ones({4}, DType::f64)).shape(), Shape({4}));
  EXPECT_EQ(solve(ones({1, 1, 1}), ones({1})).shape(),
            Shape({1, 1}));  // a vector for each matrix, of which there is one
  EXPECT_THROW_MESSAGE(solve(ones({2, 3}), ones({2})), "solve: needs square matrices");
  EXPECT_THROW_MESSAGE(cholesky(-a).eval(), "cholesky");
}

// Numbers between -1/2 and 1/2 without a pattern.
Tensor scattered(const Shape& shape) {
  const Tensor i = arange(shape.numel());
  return reshape(cast(remainder(7919 * i + remainder(31 * i * i, 997), 10007), DType::f64) / 10007 - 0.5, shape);
}

// Matrices factored here and those that LAPACK factors, many of them, with zeros in pivot positions.
TEST(Linalg, BatchesOfEverySmallSize) {
  const std::int64_t many = testing::on_emulated_gpu() ? 40 : 300;
  for (std::int64_t n = 1; n <= 10; ++n) {
    SCOPED_TRACE(n);
    const Tensor x = scattered({many, n, n}), b = scattered({many, n, 2});
    const Tensor rows = reshape(arange(n), {n, 1}), columns = arange(n);
    const Tensor a = where(rows == columns, 0.0, x) + 3 * cast(rows + columns == n - 1, DType::f64);
    const CloseOptions close{1e-9, 1e-9};
    EXPECT_TRUE(allclose(matmul(a, solve(a, b)), b, close));
    EXPECT_TRUE(allclose(matmul(a, inv(a)), expand(eye(n, {}, DType::f64), {many, n, n}), close));
    EXPECT_TRUE(allclose(det(transpose(a, -2, -1)), det(a), close));
    const Tensor l = cholesky(positive(x));
    EXPECT_TRUE(allclose(matmul(l, transpose(l, -2, -1)), positive(x), close));
    EXPECT_TRUE(allclose(matmul(l, triangular_solve(l, b)), b, close));
    EXPECT_TRUE(allclose(matmul(transpose(l, -2, -1), triangular_solve(l, b, {.transposed = true})), b, close));
    const Tensor bad = where(reshape(arange(many) == 7, {many, 1, 1}), 0.0, a);
    EXPECT_THROW_MESSAGE(solve(bad, b).eval(), "solve: matrix 7");
    EXPECT_THROW_MESSAGE(cholesky(where(reshape(arange(many) == 7, {many, 1, 1}), -1.0, positive(x))).eval(),
                         "cholesky: matrix 7");
  }
}

TEST(Linalg, SmallDeterminants) {
  EXPECT_EQ(det(tensor({{1.0, 2.0}, {3.0, 4.0}})).item(), -2);
  EXPECT_EQ(det(tensor({{2.0, 0.0, 1.0}, {1.0, 3.0, 2.0}, {1.0, 1.0, 1.0}})).item(), 0);
  EXPECT_EQ(det(zeros({0, 0})).item(), 1);
}

TEST(LinalgBackward, ProductsAgreeWithDifferences) {
  struct Case {
    Shape a, b;
  };
  for (const auto& [sa, sb] :
       {Case{{3}, {3}}, Case{{2, 3}, {3}}, Case{{3}, {3, 2}}, Case{{2, 3}, {3, 4}}, Case{{2, 2, 3}, {3, 4}},
        Case{{2, 3}, {2, 3, 4}}, Case{{2, 1, 2, 3}, {3, 3, 2}}, Case{{3}, {2, 3, 2}}, Case{{2, 2, 3}, {3}}}) {
    const Tensor a = some(sa), b = some(sb, 1);
    expect_gradient([&](auto& v) { return matmul(v, b); }, [&](auto& g) { return matmul_backward(g, a, b).first; }, a);
    expect_gradient([&](auto& v) { return matmul(a, v); }, [&](auto& g) { return matmul_backward(g, a, b).second; }, b);
  }
  const Tensor u = some({3}), v = some({4}, 1);
  expect_gradient([&](auto& x) { return outer(x, v); }, [&](auto& g) { return outer_backward(g, u, v).first; }, u);
  expect_gradient([&](auto& x) { return outer(u, x); }, [&](auto& g) { return outer_backward(g, u, v).second; }, v);
}

TEST(LinalgBackward, EinsumAgreesWithDifferences) {
  struct Case {
    std::string equation;
    std::vector<Shape> shapes;
  };
  for (const auto& [equation, shapes] :
       {Case{"ij,jk->ik", {{2, 3}, {3, 2}}}, Case{"ii->i", {{3, 3}}}, Case{"ii", {{3, 3}}},
        Case{"ij,k->i", {{2, 3}, {2}}}, Case{"...ij,...jk", {{2, 2, 3}, {1, 3, 2}}},
        Case{"ij,j,jk->ki", {{2, 3}, {3}, {3, 2}}}, Case{"iij,j->i", {{2, 2, 3}, {3}}}}) {
    std::vector<Tensor> operands;
    for (const Shape& s : shapes) operands.push_back(some(s, static_cast<double>(operands.size())));
    for (std::size_t k = 0; k < operands.size(); ++k) {
      SCOPED_TRACE(equation);
      expect_gradient(
          [&](auto& v) {
            auto moved = operands;
            moved[k] = v;
            return einsum(equation, moved);
          },
          [&](auto& g) { return einsum_backward(g, equation, operands)[k]; }, operands[k]);
    }
  }
}

TEST(LinalgBackward, FactorisationsAgreeWithDifferences) {
  const Tensor x = some({2, 4, 4}) + 2 * eye(4, {}, DType::f64), b = some({2, 4, 2}, 3), y = solve(x, b);
  // cholesky reads a symmetric matrix, so differences are taken of a symmetrised one.
  const Tensor s = positive(some({3, 3}));
  auto symmetric = [](const Tensor& v) { return 0.5 * (v + transpose(v, -2, -1)); };
  expect_gradient([&](auto& v) { return cholesky(symmetric(v)); },
                  [&](auto& g) { return cholesky_backward(g, cholesky(s)); }, s);
  expect_gradient([&](auto& v) { return solve(v, b); }, [&](auto& g) { return solve_backward(g, x, y).first; }, x);
  expect_gradient([&](auto& v) { return solve(x, v); }, [&](auto& g) { return solve_backward(g, x, y).second; }, b);
  expect_gradient([&](auto& v) { return inv(v); }, [&](auto& g) { return inv_backward(g, inv(x)); }, x);
  expect_gradient([&](auto& v) { return det(v); }, [&](auto& g) { return det_backward(g, x); }, x);
  expect_gradient([&](auto& v) { return logdet(v); }, [&](auto& g) { return logdet_backward(g, s); }, s);
  for (const TriangularOptions& o :
       {TriangularOptions{}, TriangularOptions{.upper = true}, TriangularOptions{.transposed = true},
        TriangularOptions{.upper = true, .transposed = true, .unit_diagonal = true}}) {
    const Tensor solution = triangular_solve(x, b, o);
    expect_gradient([&](auto& v) { return triangular_solve(v, b, o); },
                    [&](auto& g) { return triangular_solve_backward(g, x, solution, o).first; }, x);
    expect_gradient([&](auto& v) { return triangular_solve(x, v, o); },
                    [&](auto& g) { return triangular_solve_backward(g, x, solution, o).second; }, b);
  }
}

TEST(LinalgBackward, DeterminantsOfSmallSingularMatrices) {
  for (const Tensor& x : {tensor({{1.0, 2.0}, {2.0, 4.0}}, DType::f64), zeros({3, 3}, DType::f64),
                          tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}}, DType::f64)}) {
    expect_gradient([](auto& v) { return det(v); }, [&](auto& g) { return det_backward(g, x); }, x);
  }
}

}  // namespace
}  // namespace ebb
