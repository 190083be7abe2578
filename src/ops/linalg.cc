// SPDX-License-Identifier: MIT
#include "ebb/ops/linalg.h"

#include "calls/triangular_solve.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"
#include "ops/determinants.h"
#include "ops/product.h"

namespace ebb {
namespace {

// The sizes before the last two.
Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.rank() - 2); }

Shape matrices(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  return batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
}

// Two batches of matrices with equal batch shapes, multiplied.
Tensor matmul_node(const Tensor& a, const Tensor& b, DType dtype) {
  const Shape& left = a.shape();
  return make_node(Op::matmul, dtype, left.with(left.rank() - 1, b.shape()[b.rank() - 1]), {a, b});
}

void require_square(const char* op, const Tensor& a) {
  require(is_floating(a.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(a.dtype()));
  require(a.rank() >= 2 && a.shape()[a.rank() - 1] == a.shape()[a.rank() - 2],
          "{}: needs square matrices, got shape {}", op, a.shape());
}

// Brings both to the same batch sizes and dtype, f32 or f64. The result of f on them is rounded back.
template <class F>
Tensor solve_with(const char* op, const Tensor& a, const Tensor& b, F&& f) {
  require_square(op, a);
  require(is_floating(b.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, name(b.dtype()));
  const std::int64_t n = a.shape()[a.rank() - 1];
  require(b.rank() >= 2 && b.shape()[b.rank() - 2] == n,
          "{}: a matrix of shape {} and a right-hand side of shape {} do not fit", op, a.shape(), b.shape());
  const DType dtype = promote(a.dtype(), b.dtype());
  const Shape batch = broadcast_shapes(op, batch_of(a.shape()), batch_of(b.shape()));
  const Tensor left = expand(widen(cast(a, dtype)), matrices(batch, n, n));
  const Tensor right = expand(widen(cast(b, dtype)), matrices(batch, n, b.shape()[b.rank() - 1]));
  return cast(f(left, right), dtype);
}

}  // namespace

// ---- products -------------------------------------------------------------------------------------------------------

namespace {

// The factors have one dtype, from which the result's may differ: sums of halves are f32 until they are rounded.
Tensor product(const Tensor& a, const Tensor& b, DType factors, DType result) {
  require(a.rank() > 0 && b.rank() > 0, "matmul: needs vectors or matrices, got shapes {} and {}", a.shape(),
          b.shape());
  const std::int64_t inner_a = a.shape()[a.rank() - 1], inner_b = b.shape()[b.rank() == 1 ? 0 : b.rank() - 2];
  require(inner_a == inner_b, "matmul: inner sizes differ, {} and {}, for shapes {} and {}", inner_a, inner_b,
          a.shape(), b.shape());
  // A vector is a matrix with one row (left) or one column (right) that disappears from the result.
  if (a.rank() == 1) {
    const Tensor y = product(reshape(a, {1, inner_a}), b.rank() == 1 ? reshape(b, {inner_b, 1}) : b, factors, result);
    return b.rank() == 1 ? reshape(y, {}) : reshape(y, y.shape().without(y.rank() - 2));
  }
  if (b.rank() == 1) {
    const Tensor y = product(a, reshape(b, {inner_b, 1}), factors, result);
    return reshape(y, y.shape().without(y.rank() - 1));
  }
  require(factors != DType::bool_, Error::Kind::type,
          "matmul: bool tensors have no product; cast them to a number first");
  Tensor left = cast(a, factors), right = cast(b, factors);
  const std::int64_t rows = a.shape()[a.rank() - 2], columns = b.shape()[b.rank() - 1];
  if (b.rank() == 2 && a.rank() > 2) {
    // One matrix for the whole batch: the batch is more rows, and its gradient one product instead of a sum of many.
    const Tensor y = matmul_node(reshape(left, {batch_of(a.shape()).numel() * rows, inner_a}), right, result);
    return reshape(y, matrices(batch_of(a.shape()), rows, columns));
  }
  const Shape batch = broadcast_shapes("matmul", batch_of(a.shape()), batch_of(b.shape()));
  return matmul_node(expand(left, matrices(batch, rows, inner_a)), expand(right, matrices(batch, inner_b, columns)),
                     result);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  return product(a, b, dtype, dtype);
}

Tensor wide_matmul(const Tensor& a, const Tensor& b, DType dtype) {
  return product(a, b, dtype, is_half(dtype) ? DType::f32 : dtype);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  require(a.rank() == 1 && a.shape() == b.shape(),
          "dot: needs two vectors of equal length, got shapes {} and {}; matmul multiplies matrices", a.shape(),
          b.shape());
  // A single number is an ordinary sum, with gradients that fuse; panels, made for many outputs, take longer.
  const DType dtype = promote(a.dtype(), b.dtype());
  if (is_floating(dtype)) return cast(sum(widen(cast(a, dtype)) * widen(cast(b, dtype))), dtype);
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  require(a.rank() == 1 && b.rank() == 1, "outer: needs two vectors, got shapes {} and {}", a.shape(), b.shape());
  return unsqueeze(a, 1) * b;
}

// ---- factorisations and equations -----------------------------------------------------------------------------------

Tensor cholesky(const Tensor& a) {
  require_square("cholesky", a);
  const Tensor wide = widen(a);
  return cast(make_node(Op::cholesky, wide.dtype(), a.shape(), {wide}), a.dtype());
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& options) {
  const Attrs attrs = with_options(TriangularSolveCall{options.upper, options.transposed, options.unit_diagonal});
  return solve_with("triangular_solve", a, b, [&](const Tensor& left, const Tensor& right) {
    return make_node(Op::triangular_solve, right.dtype(), right.shape(), {left, right}, attrs);
  });
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const bool vectors =
      b.rank() == 1 || (b.rank() > 0 && b.rank() == a.rank() - 1 && b.shape() == a.shape().without(a.rank() - 1));
  const Tensor x = solve_with("solve", a, vectors ? unsqueeze(b, -1) : b, [](const Tensor& left, const Tensor& right) {
    return make_node(Op::solve, right.dtype(), right.shape(), {left, right});
  });
  return vectors ? reshape(x, x.shape().without(x.rank() - 1)) : x;
}

Tensor inv_alone(const Tensor& a) {
  require_square("inv", a);
  // In a's own shape: a single matrix with a batch of as many matrices would be interpreted as a batch of vectors.
  return solve(a, expand(eye(a.shape()[a.rank() - 1], {}, a.dtype()), a.shape()));
}

namespace {

// Element (i, j) of every matrix.
Tensor entry(const Tensor& a, std::int64_t i, std::int64_t j) { return select(select(a, -2, i), -1, j); }

// a₀₀(a₁₁a₂₂ − a₁₂a₂₁) − a₀₁(a₁₀a₂₂ − a₁₂a₂₀) + a₀₂(a₁₀a₂₁ − a₁₁a₂₀), and the smaller cases
Tensor small_det(const Tensor& a, std::int64_t n) {
  if (n == 0) return ones(batch_of(a.shape()), a.dtype());
  if (n == 1) return entry(a, 0, 0);
  auto minor = [&](std::int64_t row, std::int64_t left, std::int64_t right) {
    return entry(a, row, left) * entry(a, row + 1, right) - entry(a, row, right) * entry(a, row + 1, left);
  };
  if (n == 2) return minor(0, 0, 1);
  return entry(a, 0, 0) * minor(1, 1, 2) - entry(a, 0, 1) * minor(1, 0, 2) + entry(a, 0, 2) * minor(1, 0, 1);
}

}  // namespace

Tensor det_alone(const Tensor& a) {
  require_square("det", a);
  const std::int64_t n = a.shape()[a.rank() - 1];
  const Tensor wide = widen(a);
  const Tensor y = n <= 3 ? small_det(wide, n) : make_node(Op::det, wide.dtype(), batch_of(a.shape()), {wide});
  return cast(y, a.dtype());
}

Tensor logdet_alone(const Tensor& a) {
  require_square("logdet", a);
  const Tensor wide = widen(a);
  return cast(make_node(Op::logdet, wide.dtype(), batch_of(a.shape()), {wide}), a.dtype());
}

}  // namespace ebb
