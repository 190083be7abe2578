// SPDX-License-Identifier: MIT
// Factorisations and solves through LAPACK, one matrix per task. LAPACK is column-major: it sees a dense row-major
// matrix as its transpose, which is used where harmless (Cholesky, determinants) and undone elsewhere.
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/matrix_errors.h"
#include "calls/triangular_solve.h"
#include "core/blas.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/library/small_matrices.h"
#include "cpu/tile/elements.h"

// Fortran's symbols, exported by libopenblas; their C header is a package of its own. The trailing lengths of character
// arguments are part of gfortran's calling convention.
extern "C" {
void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info, std::size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void sgetrf_(const int* m, const int* n, float* a, const int* lda, int* pivots, int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void sgetrs_(const char* trans, const int* n, const int* nrhs, const float* a, const int* lda, const int* pivots,
             float* b, const int* ldb, int* info, std::size_t);
void dgetrs_(const char* trans, const int* n, const int* nrhs, const double* a, const int* lda, const int* pivots,
             double* b, const int* ldb, int* info, std::size_t);
}

namespace ebb::cpu {
namespace {

int potrf(int n, float* a) {
  if (n <= kSmallMatrix) return small_potrf(n, a);
  int info = 0;
  spotrf_("U", &n, a, &n, &info, 1);
  return info;
}
int potrf(int n, double* a) {
  if (n <= kSmallMatrix) return small_potrf(n, a);
  int info = 0;
  dpotrf_("U", &n, a, &n, &info, 1);
  return info;
}
int getrf(int n, float* a, int* pivots) {
  if (n <= kSmallMatrix) return small_getrf(n, a, pivots);
  int info = 0;
  sgetrf_(&n, &n, a, &n, pivots, &info);
  return info;
}
int getrf(int n, double* a, int* pivots) {
  if (n <= kSmallMatrix) return small_getrf(n, a, pivots);
  int info = 0;
  dgetrf_(&n, &n, a, &n, pivots, &info);
  return info;
}
void getrs(int n, int nrhs, const float* lu, const int* pivots, float* b) {
  if (n <= kSmallMatrix) return small_getrs(n, nrhs, lu, pivots, b);
  int info = 0;
  sgetrs_("N", &n, &nrhs, lu, &n, pivots, b, &n, &info, 1);
}
void getrs(int n, int nrhs, const double* lu, const int* pivots, double* b) {
  if (n <= kSmallMatrix) return small_getrs(n, nrhs, lu, pivots, b);
  int info = 0;
  dgetrs_("N", &n, &nrhs, lu, &n, pivots, b, &n, &info, 1);
}
void trsm(CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int n, int cols, const float* a, float* b, int ldb) {
  cblas_strsm(CblasRowMajor, CblasLeft, uplo, trans, diag, n, cols, 1.0f, a, n, b, ldb);
}
void trsm(CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int n, int cols, const double* a, double* b,
          int ldb) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, uplo, trans, diag, n, cols, 1.0, a, n, b, ldb);
}

// Sizes of the last two dimensions and the number of matrices before them.
struct Batch {
  std::int64_t count = 1, rows = 0, cols = 0;
  explicit Batch(const Shape& shape) : rows(shape[shape.rank() - 2]), cols(shape[shape.rank() - 1]) {
    for (int d = 0; d < shape.rank() - 2; ++d) count *= shape[d];
  }
  std::int64_t matrix() const { return rows * cols; }
};

// Calls body(i) for every matrix of a batch; several small ones per task.
template <class Body>
void for_each_matrix(std::int64_t count, std::int64_t n, Body&& body) {
  const std::int64_t together = n <= kSmallMatrix ? 128 : 1;
  parallel_for((count + together - 1) / together, [&](std::int64_t task) {
    if (n > kSmallMatrix) keep_blas_serial();
    for (std::int64_t i = task * together; i < std::min(count, (task + 1) * together); ++i) body(i);
  });
}

View with_last_two_swapped(View v) {
  const int rank = v.shape.rank();
  const std::int64_t rows = v.shape[rank - 2], cols = v.shape[rank - 1];
  v.shape = v.shape.with(rank - 2, cols).with(rank - 1, rows);
  std::swap(v.strides[rank - 2], v.strides[rank - 1]);
  return v;
}

// A dense copy that may be overwritten, in the compute type (halves: f32).
View own_copy(const View& x, BufferPtr& keep, const char* what) {
  if (is_half(x.dtype)) return packed_as_f32(x, keep, what);
  keep = BufferPtr::allocate(static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype), what);
  const View dst{keep.data(), x.dtype, x.shape, contiguous_strides(x.shape)};
  copy_elements(dst, x);
  return dst;
}

// Writes the computed elements (dense, f32 for halves) to the output.
void deliver(const View& out, const View& computed) {
  if (!is_half(out.dtype)) return copy_elements(out, computed);
  BufferPtr keep;
  const View values = packed(computed, keep, "linear algebra");
  float_to_halves(out.dtype, static_cast<const float*>(values.data), out.data, out.shape.numel());
}

template <class F>
void with_real_type(const LibraryCall& call, F&& f) {
  const DType dtype = call.inputs[0].dtype;
  if (dtype == DType::f64) return f(Type<double>{});
  if (!is_floating(dtype)) throw not_floating(label_of(call), dtype);
  f(Type<float>{});
}

// The first matrix of the batch that failed, so that the error does not depend on the order of threads.
std::int64_t first_failure(const std::vector<int>& info) {
  const auto bad = std::find_if(info.begin(), info.end(), [](int i) { return i != 0; });
  return bad == info.end() ? -1 : bad - info.begin();
}

// LU factors of every matrix (column-major, in place), its pivots and LAPACK's verdict.
template <class T>
struct Factors {
  std::vector<int> pivots, info;
  Factors(T* matrices, std::int64_t n, std::int64_t count)
      : pivots(static_cast<std::size_t>(n * count)), info(static_cast<std::size_t>(count)) {
    for_each_matrix(count, n, [&](std::int64_t i) {
      info[static_cast<std::size_t>(i)] = getrf(blas_size(n), matrices + i * n * n, pivots_of(i, n));
    });
  }
  int* pivots_of(std::int64_t i, std::int64_t n) { return pivots.data() + i * n; }
};

// Calls body(sign, log of the absolute value, product) for every determinant; the product is computed in f64.
template <class Body>
void for_each_determinant(const LibraryCall& call, Body&& body) {
  const View& a = call.inputs[0];
  const Batch batch(a.shape);
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep;
    const View copy = own_copy(a, keep, label_of(call));
    T* matrices = static_cast<T*>(copy.data);
    const std::int64_t n = batch.rows;
    if (n == 0) {
      for (std::int64_t i = 0; i < batch.count; ++i) body(i, 1.0, 0.0, 1.0);
      return;
    }
    Factors<T> factors(matrices, n, batch.count);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      double sign = 1, logarithm = 0, product = 1;
      const int* pivots = factors.pivots_of(i, n);
      for (std::int64_t d = 0; d < n; ++d) {
        const double u = matrices[i * n * n + d * (n + 1)];
        if (pivots[d] != d + 1) sign = -sign;
        if (u < 0) sign = -sign;
        if (u == 0) sign = 0;
        logarithm += std::log(std::fabs(u));
        product *= pivots[d] != d + 1 ? -u : u;
      }
      body(i, sign, logarithm, product);
    }
  });
}

void store_real(const View& out, std::int64_t i, double value) {
  with_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_floating_point_v<T>) {
      static_cast<T*>(out.data)[i] = static_cast<T>(value);
    } else if constexpr (is_half_type<T>) {
      const float single = static_cast<float>(value);
      float_to_halves(out.dtype, &single, static_cast<T*>(out.data) + i, 1);
    }
  });
}

}  // namespace

// A = L·Lᵀ. Row-major A is Aᵀ = A column-major, and LAPACK's upper factor U (A = Uᵀ·U) there is L here. Only the lower
// triangle of A is read.
void run_cholesky(const LibraryCall& call) {
  const View &a = call.inputs[0], &out = call.outputs[0];
  const Batch batch(a.shape);
  if (a.shape.numel() == 0) return;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep;
    const View copy = own_copy(a, keep, label_of(call));
    std::vector<int> info(static_cast<std::size_t>(batch.count));
    const std::int64_t n = batch.rows;
    for_each_matrix(batch.count, n, [&](std::int64_t i) {
      T* matrix = static_cast<T*>(copy.data) + i * n * n;
      info[static_cast<std::size_t>(i)] = potrf(blas_size(n), matrix);
      for (std::int64_t r = 0; r < n; ++r) std::fill(matrix + r * n + r + 1, matrix + (r + 1) * n, T(0));
    });
    if (const std::int64_t bad = first_failure(info); bad >= 0)
      throw not_positive_definite(label_of(call), a.shape, bad, info[static_cast<std::size_t>(bad)]);
    deliver(out, copy);
  });
}

// X = op(A)⁻¹·X row by row, reading only the triangle: trsm's definition, even with non-finite numbers among the
// elements.
template <class T>
void substitute(bool upper, bool transposed, bool unit, std::int64_t n, std::int64_t cols, const T* a, T* x,
                std::int64_t ldx) {
  const bool from_below = upper != transposed;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t r = from_below ? n - 1 - step : step;
    T* row = x + r * ldx;
    for (std::int64_t c = from_below ? r + 1 : 0; c < (from_below ? n : r); ++c) {
      const T factor = transposed ? a[c * n + r] : a[r * n + c];
      for (std::int64_t j = 0; j < cols; ++j) row[j] -= factor * x[c * ldx + j];
    }
    for (std::int64_t j = 0; j < cols && !unit; ++j) row[j] /= a[r * n + r];
  }
}

// op(A)·X = B with A triangular. Columns of B are solved separately, so wide ones are shared among threads. OpenBLAS's
// kernel for Haswell and Zen multiplies zeros outside the triangle with an infinity inside it, and rows that do not
// depend on it become NaN: where a solution is not finite, its columns are solved again by substitution.
void run_triangular_solve(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const Batch batch(b.shape);
  if (b.shape.numel() == 0) return;
  const auto& options = options_as<TriangularSolveCall>(call.attrs);
  const CBLAS_UPLO uplo = options.upper ? CblasUpper : CblasLower;
  const CBLAS_TRANSPOSE trans = options.transposed ? CblasTrans : CblasNoTrans;
  const CBLAS_DIAG diag = options.unit_diagonal ? CblasUnit : CblasNonUnit;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep_a, keep_b;
    const View matrices =
        is_half(a.dtype) ? packed_as_f32(a, keep_a, label_of(call)) : packed(a, keep_a, label_of(call));
    const View x = own_copy(b, keep_b, label_of(call));
    constexpr std::int64_t kColumns = 128;
    const std::int64_t n = batch.rows, k = batch.cols, across = (k + kColumns - 1) / kColumns;
    if (n <= kSmallMatrix) {
      for_each_matrix(batch.count, n, [&](std::int64_t i) {
        substitute(options.upper, options.transposed, options.unit_diagonal, n, k,
                   static_cast<const T*>(matrices.data) + i * n * n, static_cast<T*>(x.data) + i * n * k, k);
      });
      return deliver(out, x);
    }
    std::vector<char> finite(static_cast<std::size_t>(batch.count * across));
    const auto for_each_part = [&](auto&& solve) {
      parallel_for(batch.count * across, [&](std::int64_t task) {
        const std::int64_t i = task / across, column = task % across * kColumns;
        solve(static_cast<std::size_t>(task), static_cast<const T*>(matrices.data) + i * n * n, i * n * k + column,
              std::min(kColumns, k - column));
      });
    };
    for_each_part([&](std::size_t task, const T* matrix, std::int64_t first, std::int64_t cols) {
      keep_blas_serial();
      T* part = static_cast<T*>(x.data) + first;
      trsm(uplo, trans, diag, blas_size(n), blas_size(cols), matrix, part, blas_size(k));
      T sum = 0;  // 0, or NaN as soon as one number is not finite
      for (std::int64_t r = 0; r < n; ++r)
        for (std::int64_t j = 0; j < cols; ++j) sum += part[r * k + j] * T(0);
      finite[task] = sum == T(0);
    });
    if (std::find(finite.begin(), finite.end(), 0) != finite.end()) {
      BufferPtr keep_again;
      const View again = own_copy(b, keep_again, label_of(call));
      for_each_part([&](std::size_t task, const T* matrix, std::int64_t first, std::int64_t cols) {
        if (finite[task]) return;
        T* part = static_cast<T*>(again.data) + first;
        substitute(uplo == CblasUpper, trans == CblasTrans, diag == CblasUnit, n, cols, matrix, part, k);
        for (std::int64_t r = 0; r < n; ++r) std::copy_n(part + r * k, cols, static_cast<T*>(x.data) + first + r * k);
      });
    }
    deliver(out, x);
  });
}

// A·X = B by LU with partial pivoting, on column-major copies of both.
void run_solve(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const Batch batch(b.shape);
  if (a.shape.numel() == 0) return;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep_a, keep_b;
    const View lu = own_copy(with_last_two_swapped(a), keep_a, label_of(call));
    const View x = own_copy(with_last_two_swapped(b), keep_b, label_of(call));
    const std::int64_t n = batch.rows, k = batch.cols;
    Factors<T> factors(static_cast<T*>(lu.data), n, batch.count);
    if (const std::int64_t bad = first_failure(factors.info); bad >= 0)
      throw singular(label_of(call), a.shape, bad, factors.info[static_cast<std::size_t>(bad)]);
    if (k == 0) return;
    for_each_matrix(batch.count, n, [&](std::int64_t i) {
      getrs(blas_size(n), blas_size(k), static_cast<const T*>(lu.data) + i * n * n, factors.pivots_of(i, n),
            static_cast<T*>(x.data) + i * n * k);
    });
    deliver(out, with_last_two_swapped(x));
  });
}

void run_det(const LibraryCall& call) {
  for_each_determinant(
      call, [&](std::int64_t i, double, double, double product) { store_real(call.outputs[0], i, product); });
}

// NaN for a negative determinant, -inf for 0.
void run_logdet(const LibraryCall& call) {
  for_each_determinant(call, [&](std::int64_t i, double sign, double logarithm, double) {
    store_real(call.outputs[0], i, sign < 0 ? std::numeric_limits<double>::quiet_NaN() : logarithm);
  });
}

}  // namespace ebb::cpu
