// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

// Factorisations and triangular solutions of row-major matrices, in place. Halves are split off until few rows are
// left; everything else is products (cpu/gemm), so that bits depend on the matrix alone, one large matrix keeps all
// threads busy, and what a triangle does not hold is never multiplied.
namespace ebb::cpu {

// Whether products share their work with other threads: the bits are the same.
enum class Work : std::uint8_t { serial, shared };

struct Triangle {
  bool upper, transposed, unit;
};

// X = op(A)⁻¹·X of the triangle A [n, n], rows lda apart, and X [n, columns], rows ldx apart.
template <class T>
void solve_triangle(const Triangle& triangle, std::int64_t n, std::int64_t columns, const T* a, std::int64_t lda, T* x,
                    std::int64_t ldx, Work work);

// P·A = L·U with the largest element of a column as its pivot. Row k was swapped with row pivots[k], counted from 1.
// Returns the first column without a nonzero element, from 1, or 0.
template <class T>
int factor_lu(std::int64_t n, T* a, int* pivots, Work work);

// A = Uᵀ·U of the upper triangle; what the lower one holds afterwards means nothing. Returns the first leading minor
// that is not positive, from 1, or 0.
template <class T>
int factor_cholesky(std::int64_t n, T* a, Work work);

}  // namespace ebb::cpu
