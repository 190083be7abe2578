#pragma once
#include <cstdint>

#include "ebb/dtype.h"

namespace ebb::cpu {

// A matrix to read: element (i, j) is data[i·row_stride + j·col_stride]. One of the strides must be 1 (a size of 1
// makes its stride irrelevant) and the other at least the length of a run: OpenBLAS reads it in place, transposed or
// not.
template <class T>
struct Matrix {
  const T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
};
template <class T>
bool readable_in_place(const Matrix<T>& x, std::int64_t rows, std::int64_t cols);

// C = alpha·A·B + beta·C with A [m, k], B [k, n] and C [m, n], rows of C c_stride apart; beta = 0 does not read C.
// T is float or double. The work is cut by m, n and k alone, so the bits are the same for every number of threads;
// the pieces are shared with parallel_for. From inside a parallel_for call gemm_serial: one piece, the calling thread
// (its bits may differ from gemm's, never from its own).
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta, T* c,
          std::int64_t c_stride);
template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b,
                 T beta, T* c, std::int64_t c_stride);

// The pieces of a product: blocks of `rows` × `cols` of the result, and `depth` of k at a time.
struct GemmCut {
  std::int64_t rows, cols, depth;
};
// `batches` equal products are made side by side and count as pieces. Products with a vector stay whole here: how those
// are cut depends on which way the matrix lies, and gemm sees to it.
GemmCut gemm_cut(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batches = 1);

// Every thread that calls OpenBLAS or LAPACK calls this first: it keeps OpenBLAS on the calling thread, where the order
// of its sums is a function of the sizes. (A call a thread, because OpenMP builds of OpenBLAS ask the calling thread.)
void keep_blas_serial();

// A size as BLAS takes it; an Error when it does not fit in 32 bits.
int blas_size(std::int64_t n);

}  // namespace ebb::cpu
