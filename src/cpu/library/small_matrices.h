// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

// Factorisations of small matrices, whose loops the compiler unrolls (blocked.h has larger ones): as LAPACK's functions
// of the same names, column-major and in place. Rows and columns are processed in a fixed order, so that bits depend on
// the matrix alone.
namespace ebb::cpu {

inline constexpr std::int64_t kSmallMatrix = 8;  // rows at most (chosen, not measured)

// Calls run(size) with the number of rows as a constant, so that the loops over a matrix are unrolled.
template <class Run>
auto with_small_size(int n, Run&& run) {
  static_assert(kSmallMatrix == 8);
  switch (n) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 2:
      return run(std::integral_constant<int, 2>());
    case 3:
      return run(std::integral_constant<int, 3>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 5:
      return run(std::integral_constant<int, 5>());
    case 6:
      return run(std::integral_constant<int, 6>());
    case 7:
      return run(std::integral_constant<int, 7>());
    default:
      return run(std::integral_constant<int, 8>());
  }
}

// P·A = L·U, pivoting on a column's largest element; returns the first column without a nonzero one, from 1, or 0.
template <int n, class T>
int getrf_of(T* a, int* pivots) {
  int info = 0;
#pragma GCC unroll 8
  for (int k = 0; k < n; ++k) {
    T* const column = a + k * n;
    int at = k;
    for (int i = k + 1; i < n; ++i) {
      if (std::fabs(column[i]) > std::fabs(column[at])) at = i;
    }
    pivots[k] = at + 1;
    if (column[at] == T(0)) {
      if (info == 0) info = k + 1;
      continue;
    }
    if (at != k) {
      for (int j = 0; j < n; ++j) std::swap(a[j * n + k], a[j * n + at]);
    }
    for (int i = k + 1; i < n; ++i) column[i] /= column[k];
    for (int j = k + 1; j < n; ++j) {
      T* const other = a + j * n;
      for (int i = k + 1; i < n; ++i) other[i] -= column[i] * other[k];
    }
  }
  return info;
}
template <class T>
int small_getrf(int n, T* a, int* pivots) {
  return with_small_size(n, [&](auto size) { return getrf_of<size()>(a, pivots); });
}

template <int n, class T>
void getrs_of(int nrhs, const T* lu, const int* pivots, T* b) {
  for (int j = 0; j < nrhs; ++j, b += n) {
#pragma GCC unroll 8
    for (int k = 0; k < n; ++k) std::swap(b[k], b[pivots[k] - 1]);
#pragma GCC unroll 8
    for (int k = 0; k < n; ++k) {
      for (int i = k + 1; i < n; ++i) b[i] -= lu[k * n + i] * b[k];
    }
#pragma GCC unroll 8
    for (int k = n - 1; k >= 0; --k) {
      b[k] /= lu[k * n + k];
      for (int i = 0; i < k; ++i) b[i] -= lu[k * n + i] * b[k];
    }
  }
}
template <class T>
void small_getrs(int n, int nrhs, const T* lu, const int* pivots, T* b) {
  with_small_size(n, [&](auto size) { getrs_of<size()>(nrhs, lu, pivots, b); });
}

// A = Uᵀ·U of the upper triangle; returns the first minor that is not positive, from 1, or 0.
template <class T>
int small_potrf(int n, T* a) {
  for (int k = 0; k < n; ++k) {
    T* const column = a + k * n;
    for (int i = 0; i <= k; ++i) {
      const T* const other = a + i * n;
      T rest = column[i];
      for (int j = 0; j < i; ++j) rest -= other[j] * column[j];
      if (i < k) {
        column[i] = rest / other[i];
      } else {
        if (!(rest > T(0))) return k + 1;
        column[i] = std::sqrt(rest);
      }
    }
  }
  return 0;
}

}  // namespace ebb::cpu
