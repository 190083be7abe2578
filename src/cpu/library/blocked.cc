// SPDX-License-Identifier: MIT
#include "cpu/library/blocked.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/gemm/gemm.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kFewRows = 16;     // by plain loops: a product of so few takes longer to begin (chosen)
constexpr std::int64_t kWholeGram = 64;  // rows of AᵀA of which both triangles are computed (chosen)

// About half of n, in whole blocks of few rows.
std::int64_t half_of(std::int64_t n) { return (n / 2 + kFewRows - 1) / kFewRows * kFewRows; }

// C -= A·B
template <class T>
void subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
                      std::int64_t ldc, Work work) {
  if (m == 0 || n == 0) return;
  if (work == Work::shared)
    gemm(m, n, k, T(-1), a, b, T(1), c, ldc);
  else
    gemm_serial(m, n, k, T(-1), a, b, T(1), c, ldc);
}

template <class T>
Matrix<T> rows_of(const T* data, std::int64_t step) {
  return {data, step, 1};
}
// op(A) of a triangle, or of a block beside it.
template <class T>
Matrix<T> operand(const Triangle& t, const T* a, std::int64_t lda) {
  return t.transposed ? Matrix<T>{a, 1, lda} : Matrix<T>{a, lda, 1};
}

// Row by row, by definition.
template <class T>
void substitute(const Triangle& t, std::int64_t n, std::int64_t columns, const T* a, std::int64_t lda, T* x,
                std::int64_t ldx) {
  const bool from_below = t.upper != t.transposed;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t r = from_below ? n - 1 - step : step;
    T* const row = x + r * ldx;
    for (std::int64_t c = from_below ? r + 1 : 0; c < (from_below ? n : r); ++c) {
      const T factor = t.transposed ? a[c * lda + r] : a[r * lda + c];
      const T* const other = x + c * ldx;
      for (std::int64_t j = 0; j < columns; ++j) row[j] -= factor * other[j];
    }
    for (std::int64_t j = 0; j < columns && !t.unit; ++j) row[j] /= a[r * lda + r];
  }
}

template <class T>
void swap_rows(const int* pivots, std::int64_t count, T* a, std::int64_t lda, std::int64_t columns) {
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t other = pivots[k] - 1;
    if (other != k) std::swap_ranges(a + k * lda, a + k * lda + columns, a + other * lda);
  }
}

// Few columns n of m rows, one after the other. The largest element of a column is looked for while it is updated.
template <class T>
int factor_columns(std::int64_t m, std::int64_t n, T* a, std::int64_t lda, int* pivots) {
  int info = 0;
  const auto larger = [&](std::int64_t i, std::int64_t at, std::int64_t k) {
    return std::fabs(a[i * lda + k]) > std::fabs(a[at * lda + k]);
  };
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < m; ++i) at = larger(i, at, 0) ? i : at;
  for (std::int64_t k = 0; k < n; ++k) {
    T* const row = a + k * lda;
    pivots[k] = static_cast<int>(at) + 1;
    const T pivot = a[at * lda + k];
    if (at != k) std::swap_ranges(row, row + n, a + at * lda);
    const bool zero = pivot == T(0);
    if (zero && info == 0) info = static_cast<int>(k) + 1;
    const bool invertible = std::fabs(pivot) >= std::numeric_limits<T>::min();
    const T inverse = T(1) / pivot;
    at = k + 1;
    for (std::int64_t i = k + 1; i < m; ++i) {
      T* const other = a + i * lda;
      if (!zero) {
        const T factor = other[k] = invertible ? other[k] * inverse : other[k] / pivot;
        for (std::int64_t j = k + 1; j < n; ++j) other[j] -= factor * row[j];
      }
      if (k + 1 < n && larger(i, at, k + 1)) at = i;
    }
  }
  return info;
}

// The first n columns of m rows, m >= n.
template <class T>
int factor_panel(std::int64_t m, std::int64_t n, T* a, std::int64_t lda, int* pivots, Work work) {
  if (n <= kFewRows) return factor_columns(m, n, a, lda, pivots);
  const std::int64_t left = half_of(n), right = n - left;
  const int info = factor_panel(m, left, a, lda, pivots, work);
  swap_rows(pivots, left, a + left, lda, right);
  solve_triangle({.upper = false, .transposed = false, .unit = true}, left, right, a, lda, a + left, lda, work);
  T* const below = a + left * lda;
  subtract_product(m - left, right, left, rows_of<T>(below, lda), rows_of<T>(a + left, lda), below + left, lda, work);
  const int later = factor_panel(m - left, right, below + left, lda, pivots + left, work);
  swap_rows(pivots + left, right, below, lda, left);
  for (std::int64_t k = left; k < n; ++k) pivots[k] += static_cast<int>(left);
  return info != 0 || later == 0 ? info : later + static_cast<int>(left);
}

// The upper triangle of C [n, n] -= Rᵀ·R of R [k, n].
template <class T>
void subtract_gram(std::int64_t n, std::int64_t k, const T* r, T* c, std::int64_t ld, Work work) {
  const Matrix<T> rows = rows_of<T>(r, ld);
  if (n <= kWholeGram) return subtract_product(n, n, k, rows.transposed(), rows, c, ld, work);
  const std::int64_t h = half_of(n);
  subtract_gram(h, k, r, c, ld, work);
  subtract_product(h, n - h, k, rows.transposed(), rows.from(0, h), c + h, ld, work);
  subtract_gram(n - h, k, r + h, c + h * ld + h, ld, work);
}

template <class T>
int factor_few(std::int64_t n, T* a, std::int64_t lda) {
  for (std::int64_t k = 0; k < n; ++k) {
    T* const row = a + k * lda;
    if (!(row[k] > T(0))) return static_cast<int>(k) + 1;
    row[k] = std::sqrt(row[k]);
    for (std::int64_t j = k + 1; j < n; ++j) row[j] /= row[k];
    for (std::int64_t i = k + 1; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j) a[i * lda + j] -= row[i] * row[j];
    }
  }
  return 0;
}

template <class T>
int factor_cholesky_part(std::int64_t n, T* a, std::int64_t lda, Work work) {
  if (n <= kFewRows) return factor_few(n, a, lda);
  const std::int64_t h = half_of(n);
  if (const int info = factor_cholesky_part(h, a, lda, work)) return info;
  T *const right = a + h, *const rest = a + h * lda + h;
  solve_triangle({.upper = true, .transposed = true, .unit = false}, h, n - h, a, lda, right, lda, work);
  subtract_gram(n - h, h, right, rest, lda, work);
  const int info = factor_cholesky_part(n - h, rest, lda, work);
  return info == 0 ? 0 : info + static_cast<int>(h);
}

}  // namespace

template <class T>
void solve_triangle(const Triangle& t, std::int64_t n, std::int64_t columns, const T* a, std::int64_t lda, T* x,
                    std::int64_t ldx, Work work) {
  if (n <= kFewRows) return substitute(t, n, columns, a, lda, x, ldx);
  const std::int64_t h = half_of(n), rest = n - h;
  const T* const second = a + h * lda + h;
  T* const below = x + h * ldx;
  const Matrix<T> op = operand(t, a, lda);
  if (t.upper != t.transposed) {  // the last rows first
    solve_triangle(t, rest, columns, second, lda, below, ldx, work);
    subtract_product(h, columns, rest, op.from(0, h), rows_of<T>(below, ldx), x, ldx, work);
    solve_triangle(t, h, columns, a, lda, x, ldx, work);
  } else {
    solve_triangle(t, h, columns, a, lda, x, ldx, work);
    subtract_product(rest, columns, h, op.from(h, 0), rows_of<T>(x, ldx), below, ldx, work);
    solve_triangle(t, rest, columns, second, lda, below, ldx, work);
  }
}

template <class T>
int factor_lu(std::int64_t n, T* a, int* pivots, Work work) {
  return factor_panel(n, n, a, n, pivots, work);
}
template <class T>
int factor_cholesky(std::int64_t n, T* a, Work work) {
  return factor_cholesky_part(n, a, n, work);
}

#define EBB_BLOCKED(T)                                                                                     \
  template void solve_triangle<T>(const Triangle&, std::int64_t, std::int64_t, const T*, std::int64_t, T*, \
                                  std::int64_t, Work);                                                     \
  template int factor_lu<T>(std::int64_t, T*, int*, Work);                                                 \
  template int factor_cholesky<T>(std::int64_t, T*, Work);
EBB_BLOCKED(float)
EBB_BLOCKED(double)
#undef EBB_BLOCKED

}  // namespace ebb::cpu
