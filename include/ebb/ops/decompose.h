// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <tuple>
#include <utility>

#include "ebb/tensor.h"

// Factorisations of batches of matrices [..., m, n], by LAPACK in f64 (f32 and halves: in f32), evaluated immediately.
// Gradients assume distinct eigenvalues and singular values; where two are equal, the gradients of the vectors do not
// exist.
namespace ebb {

// The sign of the determinant and the logarithm of its absolute value: 0 and −inf for a singular matrix.
std::pair<Tensor, Tensor> slogdet(const Tensor& a);

// Eigenvalues in ascending order and eigenvectors in the columns, A = V·diag(w)·Vᵀ. Of a symmetric matrix only the
// lower triangle is read.
std::pair<Tensor, Tensor> eigh(const Tensor& a);

// Its eigenvalues alone, whose gradient exists where some are equal, too.
Tensor eigvalsh(const Tensor& a);

// A = Q·R with orthonormal columns Q [..., m, k] and upper triangular R [..., k, n], k = min(m, n).
std::pair<Tensor, Tensor> qr(const Tensor& a);

// A = U·diag(S)·Vᵀ with U [..., m, k], S [..., k] in descending order and Vᵀ [..., k, n], k = min(m, n).
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a);

// S alone, whose gradient exists where some singular values are equal, too.
Tensor svdvals(const Tensor& a);

// The pseudo-inverse [..., n, m]: singular values up to rtol times the largest count as 0 (default: max(m, n) times the
// machine epsilon of the dtype).
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});

// The X of least norm that minimizes ‖A·X − B‖, for B [..., m, k] or a vector [m].
Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rtol = {});

// The same, and what its factorisation tells besides.
struct LeastSquares {
  Tensor solution;
  Tensor residuals;        // ‖A·X − B‖² per column of B
  Tensor rank;             // singular values above rtol times the largest
  Tensor singular_values;  // in descending order
};
LeastSquares least_squares(const Tensor& a, const Tensor& b, std::optional<double> rtol = {});

}  // namespace ebb
