#include "cpu/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/buffer.h"
#include "core/format_error.h"
#include "core/parallel.h"

namespace ebb::cpu {
namespace {

std::int64_t pieces_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

// Blocks of nearly equal size, multiples of 16 (the register tiles of the BLAS kernels divide it).
std::int64_t even_block(std::int64_t size, std::int64_t block) {
  const std::int64_t pieces = std::max<std::int64_t>(1, pieces_of(size, block));
  return std::max<std::int64_t>(16, pieces_of(pieces_of(size, pieces), 16) * 16);
}

void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
               const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void blas_gemv(CBLAS_TRANSPOSE t, int rows, int cols, float alpha, const float* a, int lda, const float* x, int incx,
               float* y, int incy) {
  cblas_sgemv(CblasRowMajor, t, rows, cols, alpha, a, lda, x, incx, 1.0f, y, incy);
}
void blas_gemv(CBLAS_TRANSPOSE t, int rows, int cols, double alpha, const double* a, int lda, const double* x, int incx,
               double* y, int incy) {
  cblas_dgemv(CblasRowMajor, t, rows, cols, alpha, a, lda, x, incx, 1.0, y, incy);
}

// Rows one after the other, elements of a row adjacent. Sizes of 1 leave their stride without meaning.
template <class T>
bool readable_by_rows(const Matrix<T>& x, std::int64_t rows, std::int64_t cols) {
  return (cols <= 1 || x.col_stride == 1) && (rows <= 1 || x.row_stride >= std::max<std::int64_t>(1, cols));
}
template <class T>
Matrix<T> transposed(const Matrix<T>& x) {
  return {x.data, x.col_stride, x.row_stride};
}

// A matrix as BLAS names it: rows `ld` apart, read as it stands or transposed.
template <class T>
struct BlasMatrix {
  CBLAS_TRANSPOSE trans;
  int ld;
  BlasMatrix(const Matrix<T>& x, std::int64_t rows, std::int64_t cols) {
    const bool by_rows = readable_by_rows(x, rows, cols);
    trans = by_rows ? CblasNoTrans : CblasTrans;
    ld = by_rows ? blas_size(rows <= 1 ? cols : x.row_stride) : blas_size(cols <= 1 ? rows : x.col_stride);
  }
};

template <class T>
void scale(std::int64_t m, std::int64_t n, T beta, T* c, std::int64_t c_stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * c_stride;
    if (beta == T(0)) {
      std::memset(row, 0, static_cast<std::size_t>(n) * sizeof(T));
    } else if (beta != T(1)) {
      for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  }
}

// y = alpha·M·x + beta·y, M [rows, cols]. gemm would copy M into its panels first; gemv reads it once.
template <class T>
void gemv_serial(std::int64_t rows, std::int64_t cols, T alpha, const Matrix<T>& matrix, const T* x,
                 std::int64_t x_step, T beta, T* y, std::int64_t y_step) {
  scale(rows, 1, beta, y, y_step);
  const BlasMatrix<T> bm(matrix, rows, cols);
  const bool flipped = bm.trans == CblasTrans;
  blas_gemv(bm.trans, blas_size(flipped ? cols : rows), blas_size(flipped ? rows : cols), alpha, matrix.data, bm.ld, x,
            cols <= 1 ? 1 : blas_size(x_step), y, rows <= 1 ? 1 : blas_size(y_step));
}

// A product that is over before BLAS has looked at its arguments.
template <class T>
void gemm_tiny(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta,
               T* c, std::int64_t c_stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a.data[i * a.row_stride + p * a.col_stride] * b.data[p * b.row_stride + j * b.col_stride];
      T& out = c[i * c_stride + j];
      out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
    }
  }
}

// The k dimension in pieces: each makes its own [m, n], and they are added in order.
template <class T>
void gemm_split_depth(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t depth, T alpha, const Matrix<T>& a,
                      const Matrix<T>& b, T beta, T* c, std::int64_t c_stride) {
  const std::int64_t pieces = pieces_of(k, depth);
  const BufferPtr parts = BufferPtr::allocate(static_cast<std::size_t>(pieces * m * n) * sizeof(T), "matmul");
  T* part = reinterpret_cast<T*>(parts.data());
  parallel_for(pieces, [&](std::int64_t p) {
    const std::int64_t k0 = p * depth;
    gemm_serial<T>(m, n, std::min(depth, k - k0), alpha, {a.data + k0 * a.col_stride, a.row_stride, a.col_stride},
                   {b.data + k0 * b.row_stride, b.row_stride, b.col_stride}, T(0), part + p * m * n, n);
  });
  scale(m, n, beta, c, c_stride);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < pieces; ++p) {
      const T* from = part + (p * m + i) * n;
      for (std::int64_t j = 0; j < n; ++j) c[i * c_stride + j] += from[j];
    }
  }
}

}  // namespace

void keep_blas_serial() {
  thread_local const bool done = (openblas_set_num_threads(1), true);
  (void)done;
}

int blas_size(std::int64_t n) {
  require(n >= 0 && n <= std::numeric_limits<int>::max(),
          "matmul: a size or stride of {} elements is more than BLAS can take; cut the matrix into smaller ones", n);
  return static_cast<int>(n);
}

template <class T>
bool readable_in_place(const Matrix<T>& x, std::int64_t rows, std::int64_t cols) {
  return readable_by_rows(x, rows, cols) || readable_by_rows(transposed(x), cols, rows);
}

// Measured with OpenBLAS on Neoverse V1, relative to its own threads at 1024³, over the four ways to transpose: blocks
// of 512×1024 lose nothing, 256×512 1 to 3 %, 256×256 4 to 5 %, 128×256 6 to 9 %, 64×64 19 %: every piece packs its
// rows of A and columns of B again. So the largest block that leaves sixteen pieces, and below 256×256 what a few
// threads need.
GemmCut gemm_cut(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batches) {
  struct Block {
    std::int64_t rows, cols, wanted;
  };
  static constexpr Block kLadder[] = {{512, 1024, 16}, {256, 1024, 16}, {256, 512, 16}, {128, 512, 16},
                                      {128, 256, 4},   {64, 256, 4},    {64, 128, 4},   {64, 64, 4}};
  constexpr double kLeastFlops = 1.5e6;  // some 25 µs: what a thread is worth waking for
  // Narrow results are padded to the kernels' register tiles, and cost as much.
  const double flops = 2.0 * static_cast<double>(std::max<std::int64_t>(m, 16)) *
                       static_cast<double>(std::max<std::int64_t>(n, 16)) * static_cast<double>(k);
  GemmCut cut{m, n, k};
  if (m == 1 || n == 1) return cut;
  if (flops < 2 * kLeastFlops) return cut;
  std::int64_t pieces = 1;
  for (const Block& block : kLadder) {
    const GemmCut next{even_block(m, block.rows), even_block(n, block.cols), k};
    const std::int64_t count = pieces_of(m, next.rows) * pieces_of(n, next.cols);
    if (flops / static_cast<double>(count) < kLeastFlops) break;
    cut = next;
    pieces = count;
    if (pieces * batches >= block.wanted) break;
  }
  // Few outputs, long sums (a weight gradient over a whole data set): k is what there is to share.
  constexpr std::int64_t kLeastDepth = 2048, kMostOutputs = 65536;
  if (pieces * batches < 16 && k >= 2 * kLeastDepth && m * n <= kMostOutputs)
    cut = {m, n, std::max(kLeastDepth, pieces_of(pieces_of(k, 16), 64) * 64)};
  return cut;
}

template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b,
                 T beta, T* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(m, n, beta, c, c_stride);
  if (m * n * k <= 128) return gemm_tiny(m, n, k, alpha, a, b, beta, c, c_stride);
  keep_blas_serial();
  // C row = Bᵀ·(A row), C column = A·(B column).
  if (m == 1 && n > 1 && (a.col_stride > 0 || k == 1))
    return gemv_serial<T>(n, k, alpha, transposed(b), a.data, a.col_stride, beta, c, 1);
  if (n == 1 && (b.row_stride > 0 || k == 1))
    return gemv_serial<T>(m, k, alpha, a, b.data, b.row_stride, beta, c, c_stride);
  const BlasMatrix<T> ba(a, m, k), bb(b, k, n);
  blas_gemm(ba.trans, bb.trans, blas_size(m), blas_size(n), blas_size(k), alpha, a.data, ba.ld, b.data, bb.ld, beta, c,
            blas_size(m == 1 ? n : c_stride));
}

// A vector form is bound by reading its matrix (outputs × k), some 50 µs of it a piece, in long runs: cut across the
// outputs where the runs go along k, and along k where they go across the outputs.
template <class T>
static GemmCut vector_cut(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b) {
  constexpr std::int64_t kLeastElements = 1 << 18;
  const std::int64_t outputs = std::max(m, n);
  const std::int64_t pieces = std::clamp<std::int64_t>(outputs * k / kLeastElements, 1, 16);
  GemmCut cut{m, n, k};
  if (pieces == 1) return cut;
  const bool runs_along_k = m == 1 ? readable_by_rows(transposed(b), n, k) : readable_by_rows(a, m, k);
  if (runs_along_k ? outputs < 16 * pieces : k >= 64 * pieces) {
    cut.depth = even_block(k, pieces_of(k, pieces));
  } else {
    (m == 1 ? cut.cols : cut.rows) = even_block(outputs, pieces_of(outputs, pieces));
  }
  return cut;
}

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta, T* c,
          std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  const GemmCut cut = m == 1 || n == 1 ? vector_cut(m, n, k, a, b) : gemm_cut(m, n, k);
  if (cut.depth < k) return gemm_split_depth(m, n, k, cut.depth, alpha, a, b, beta, c, c_stride);
  const std::int64_t across = pieces_of(n, cut.cols);
  parallel_for(pieces_of(m, cut.rows) * across, [&](std::int64_t piece) {
    const std::int64_t i = piece / across * cut.rows, j = piece % across * cut.cols;
    gemm_serial<T>(std::min(cut.rows, m - i), std::min(cut.cols, n - j), k, alpha,
                   {a.data + i * a.row_stride, a.row_stride, a.col_stride},
                   {b.data + j * b.col_stride, b.row_stride, b.col_stride}, beta, c + i * c_stride + j, c_stride);
  });
}

#define EBB_GEMM(T)                                                                                                    \
  template bool readable_in_place<T>(const Matrix<T>&, std::int64_t, std::int64_t);                                    \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*,        \
                        std::int64_t);                                                                                 \
  template void gemm_serial<T>(std::int64_t, std::int64_t, std::int64_t, T, const Matrix<T>&, const Matrix<T>&, T, T*, \
                               std::int64_t);
EBB_GEMM(float)
EBB_GEMM(double)
#undef EBB_GEMM

}  // namespace ebb::cpu
