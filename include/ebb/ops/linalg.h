// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// PyTorch's matmul: vectors, matrices, and batches of them that broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);    // of two vectors
Tensor outer(const Tensor& a, const Tensor& b);  // of two vectors

// Any number of operands: "bij,bjk->bik", "...ij,...j", "ii->i", "i,i", "ij,jk,kl".
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

// The functions below take batches of matrices [..., n, n], in f32 and f64 (f16 and bf16 are computed in f32).

Tensor cholesky(const Tensor& a);  // lower L with L·Lᵀ = A; A symmetric and positive definite

struct TriangularOptions {
  bool upper = false;          // which triangle of A is used
  bool transposed = false;     // solve Aᵀ·X = B
  bool unit_diagonal = false;  // the diagonal counts as ones
};
Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& options = {});  // X with A·X = B
Tensor solve(const Tensor& a, const Tensor& b);  // X with A·X = B; b is a matrix, or a vector when its rank is one less
Tensor inv(const Tensor& a);

// The determinant, and its logarithm (NaN where it is negative, −inf where it is 0).
// Gradients use the inverse; up to 3×3 det is expanded, so that its derivatives are exact for singular matrices too.
Tensor det(const Tensor& a);
Tensor logdet(const Tensor& a);

}  // namespace ebb
