// SPDX-License-Identifier: MIT
#include <algorithm>

#include "autograd/rules.h"
#include "calls/fp8_product.h"
#include "calls/triangular_solve.h"
#include "core/format_error.h"
#include "ebb/backward/linalg.h"
#include "ebb/ops.h"
#include "graph/lock.h"
#include "ops/build.h"
#include "ops/einsum_terms.h"

// Gradient rules of linear algebra. In the formulas G is the cotangent of the result Y and ᵀ swaps the last two axes,
// which costs nothing.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;
using Pair = std::pair<Tensor, Tensor>;

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

// One number per matrix, ready to scale it.
Tensor per_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

// Aᵀ·G. If B is itself a transposed matrix, such as a layer's weights, it is computed as (Gᵀ·A)ᵀ: the gradient of that
// matrix then has the matrix's memory layout, and an update reads both along their rows.
Tensor right_gradient(const Tensor& a, const Tensor& g, const Tensor& b) {
  if (b.rank() == 2 && b.node()->op == Op::permute) return transposed(matmul(transposed(g), a));
  return matmul(transposed(a), g);
}

// The gradient of a single matrix b that multiplied a whole batch: the batch is just more rows of a.
Tensor folded_gradient(const Tensor& a, const Tensor& g, const Tensor& b) {
  const auto rows = [](const Tensor& x) { return reshape(x, {-1, x.shape()[x.rank() - 1]}); };
  return right_gradient(rows(a), rows(g), b);
}

// The cotangent of sums of halves in f32 (wide_matmul) is most often a widened one. The original is used: halves
// multiply faster.
Tensor before_widening(const Tensor& g, const Tensor& a, const Tensor& b) {
  if (g.node()->op != Op::cast || !is_half(a.dtype()) || a.dtype() != b.dtype()) return g;
  const Tensor narrow = input_of(g, 0);
  return narrow.defined() && narrow.dtype() == a.dtype() ? narrow : g;
}

// Y = A·B            dA = G·Bᵀ        dB = Aᵀ·G            (rank two or more)
Pair product_backward(const Tensor& grad, const Tensor& a, const Tensor& b, bool need_a, bool need_b) {
  const Tensor g = before_widening(grad, a, b);
  Pair d;
  if (need_a) d.first = cotangent(matmul(g, transposed(b)), a);
  if (need_b) {
    const bool fold = b.rank() == 2 && a.rank() > 2 && a.numel() > 0 && g.numel() > 0;
    d.second = cotangent(fold ? folded_gradient(a, g, b) : right_gradient(a, g, b), b);
  }
  return d;
}

// The matrix of cofactors for n ≤ 3. Row i of a 3×3 one is the cross product of rows i+1 and i+2:
//   (u × v)_k = u_{k+1}·v_{k+2} − u_{k+2}·v_{k+1}
Tensor small_cofactors(const Tensor& a, std::int64_t n) {
  if (n <= 1) return ones_like(a);
  if (n == 2) {
    const Tensor signs = numbers_of_formula(std::vector<double>{1, -1, -1, 1}, Shape{2, 2});
    return flip(a, {-2, -1}) * cast(signs, a.dtype());
  }
  const Tensor u = roll(a, -1, -2), v = roll(a, -2, -2);
  return roll(u, -1, -1) * roll(v, -2, -1) - roll(u, -2, -1) * roll(v, -1, -1);
}

}  // namespace

// A vector is a matrix with one row (left) or one column (right).
Pair matmul_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  require(a.rank() > 0 && b.rank() > 0, "matmul_backward: needs vectors or matrices, got shapes {} and {}", a.shape(),
          b.shape());
  const Tensor left = a.rank() == 1 ? unsqueeze(a, 0) : a, right = b.rank() == 1 ? unsqueeze(b, 1) : b;
  Tensor g = b.rank() == 1 ? unsqueeze(grad, -1) : grad;
  if (a.rank() == 1) g = unsqueeze(g, -2);
  const auto [da, db] = product_backward(g, left, right, true, true);
  return {reshape(da, a.shape()), reshape(db, b.shape())};
}

// y = Σ a_i·b_i      da = g·b         db = g·a
Pair dot_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  const auto [g, x, y] = widened(grad, a, b);
  return {cotangent(g * y, a), cotangent(g * x, b)};
}

// Y = a·bᵀ           da = G·b         db = Gᵀ·a
Pair outer_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return {cotangent(matmul(grad, b), a), cotangent(matmul(transposed(grad), a), b)};
}

// The cotangent of an operand is the einsum of G and the other operands; an index of this operand alone was summed and
// is broadcast, a repeated index of this operand is a diagonal.
std::vector<Tensor> einsum_backward(const Tensor& grad, const std::string& equation,
                                    const std::vector<Tensor>& operands) {
  const EinsumTerms terms = einsum_terms(equation, operands);
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    std::string inputs = terms.output;
    std::vector<Tensor> factors{grad};
    for (std::size_t j = 0; j < operands.size(); ++j) {
      if (j == k) continue;
      inputs += "," + terms.inputs[j];
      factors.push_back(operands[j]);
    }
    std::string once, found;  // the operand's indices, each once; those that the factors have
    for (char c : terms.inputs[k]) {
      if (once.find(c) != std::string::npos) continue;
      once += c;
      if (inputs.find(c) != std::string::npos) found += c;
    }
    Tensor d = einsum(inputs + "->" + found, factors);
    std::vector<std::int64_t> sizes, full_sizes;
    for (char c : once) {
      full_sizes.push_back(terms.size.at(c));
      sizes.push_back(found.find(c) != std::string::npos ? d.shape()[static_cast<int>(found.find(c))] : 1);
    }
    d = expand(reshape(d, sizes), full_sizes);
    for (std::size_t at = 0; at < terms.inputs[k].size(); ++at) {
      const char c = terms.inputs[k][at];
      const std::size_t first = terms.inputs[k].find(c);
      if (first == at) continue;
      Shape mask(std::vector<std::int64_t>(static_cast<std::size_t>(d.rank()) + 1, 1));
      const std::int64_t n = terms.size.at(c);
      d = unsqueeze(d, static_cast<std::int64_t>(at)) *
          reshape(eye(n, {}, d.dtype()), mask.with(static_cast<int>(first), n).with(static_cast<int>(at), n));
    }
    result.push_back(cotangent(d, operands[k]));
  }
  return result;
}

// A = L·Lᵀ           S = L⁻ᵀ·Φ(Lᵀ·G)·L⁻¹        dA = (S + Sᵀ)/2
// where Φ takes the lower triangle and halves the diagonal (Murray, arXiv:1602.07527).
Tensor cholesky_backward(const Tensor& grad, const Tensor& l) {
  const auto [g, wide] = widened(grad, l);
  const Tensor halved = 1 - 0.5 * eye(l.shape()[l.rank() - 1], {}, wide.dtype());
  const Tensor phi = tril(matmul(transposed(wide), tril(g))) * halved;
  const TriangularOptions upper{.transposed = true};  // solves Lᵀ·X = B
  const Tensor s = transposed(triangular_solve(wide, transposed(triangular_solve(wide, phi, upper)), upper));
  return cotangent(0.5 * (s + transposed(s)), l);
}

// op(A)·X = B        dB = op(A)⁻ᵀ·G       d op(A) = −dB·Xᵀ, of which only the triangle is used
Pair triangular_solve_backward(const Tensor& grad, const Tensor& a, const Tensor& x, const TriangularOptions& options) {
  const auto [g, matrix, solution] = widened(grad, a, x);
  TriangularOptions other = options;
  other.transposed = !options.transposed;
  const Tensor db = triangular_solve(matrix, g, other);
  const Tensor full = options.transposed ? -matmul(solution, transposed(db)) : -matmul(db, transposed(solution));
  const std::int64_t skip = options.unit_diagonal ? 1 : 0;
  return {cotangent(options.upper ? triu(full, skip) : tril(full, -skip), a), cotangent(db, x)};
}

// A·X = B            dB = A⁻ᵀ·G           dA = −dB·Xᵀ
Pair solve_backward(const Tensor& grad, const Tensor& a, const Tensor& x) {
  if (x.rank() == a.rank() - 1) {
    const auto [da, db] = solve_backward(unsqueeze(grad, -1), a, unsqueeze(x, -1));
    return {da, reshape(db, x.shape())};
  }
  const auto [g, matrix, solution] = widened(grad, a, x);
  const Tensor db = solve(transposed(matrix), g);
  return {cotangent(-matmul(db, transposed(solution)), a), cotangent(db, x)};
}

// Y = A⁻¹            dA = −Yᵀ·G·Yᵀ
Tensor inv_backward(const Tensor& grad, const Tensor& y) {
  const auto [g, inverse] = widened(grad, y);
  return cotangent(-matmul(matmul(transposed(inverse), g), transposed(inverse)), y);
}

// y = det A          dA = g·(cofactors of A) = g·y·A⁻ᵀ
Tensor det_backward(const Tensor& grad, const Tensor& a) {
  const auto [g, matrix] = widened(grad, a);
  const std::int64_t n = a.shape()[a.rank() - 1];
  if (n <= 3) return cotangent(per_matrix(g) * small_cofactors(matrix, n), a);
  return cotangent(per_matrix(g * det(matrix)) * transposed(inv(matrix)), a);
}

// y = log det A      dA = g·A⁻ᵀ
Tensor logdet_backward(const Tensor& grad, const Tensor& a) {
  const auto [g, matrix] = widened(grad, a);
  return cotangent(per_matrix(g) * transposed(inv(matrix)), a);
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

Cotangents cotangents_of(Pair d) { return {std::move(d.first), std::move(d.second)}; }

// As for any product, with cotangents in e5m2. The right one has the layout that product_backward gives it.
Cotangents fp8_rule(const RuleContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const Tensor g = cast(before_widening(c.grad, a, b), a.dtype());
  Cotangents d(2);
  if (c.needs[0]) d[0] = fp8_product(g, transposed(b), true, false);
  if (c.needs[1]) d[1] = transposed(fp8_product(transposed(g), a, true, false));
  return d;
}

Cotangents matmul_rule(const RuleContext& c) {
  if (is_fp8(c.attrs)) return fp8_rule(c);
  return cotangents_of(product_backward(c.grad, c.inputs[0], c.inputs[1], c.needs[0], c.needs[1]));
}
Cotangents cholesky_rule(const RuleContext& c) { return {cholesky_backward(c.grad, c.output)}; }
Cotangents triangular_solve_rule(const RuleContext& c) {
  const auto& call = options_as<TriangularSolveCall>(c.attrs);
  const TriangularOptions options{call.upper, call.transposed, call.unit_diagonal};
  return cotangents_of(triangular_solve_backward(c.grad, c.inputs[0], c.output, options));
}
Cotangents solve_rule(const RuleContext& c) { return cotangents_of(solve_backward(c.grad, c.inputs[0], c.output)); }
Cotangents det_rule(const RuleContext& c) { return {det_backward(c.grad, c.inputs[0])}; }
Cotangents logdet_rule(const RuleContext& c) { return {logdet_backward(c.grad, c.inputs[0])}; }

constexpr RuleRow kLinalgRules[] = {
    {Op::matmul, matmul_rule}, {Op::cholesky, cholesky_rule}, {Op::triangular_solve, triangular_solve_rule},
    {Op::solve, solve_rule},   {Op::det, det_rule},           {Op::logdet, logdet_rule},
};

}  // namespace

std::span<const RuleRow> linalg_rules() { return kLinalgRules; }

}  // namespace ebb
