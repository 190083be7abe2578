// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "ebb/dtype.h"

namespace ebb::cpu {

// A matrix to read: element (i, j) is data[i·row_stride + j·col_stride], of T, or of a half where T is float (halves
// become float while they are packed). Any strides work, including 0; it is fast where one of them is 1.
template <class T>
struct Matrix {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  DType dtype = dtype_of_type<T>::value;
  bool may_round = false;  // f32 that may be rounded to bf16 for a product with bf16: see gemm

  Matrix from(std::int64_t i, std::int64_t j) const {
    const std::int64_t bytes = (i * row_stride + j * col_stride) * static_cast<std::int64_t>(size_of(dtype));
    return {static_cast<const std::byte*>(data) + bytes, row_stride, col_stride, dtype, may_round};
  }
  Matrix transposed() const { return {data, col_stride, row_stride, dtype, may_round}; }
  bool as_bf16() const { return dtype == DType::bf16 || (may_round && dtype == DType::f32); }
};

// C = alpha·A·B + beta·C with A [m, k], B [k, n] and C [m, n], rows of C c_stride apart; beta = 0 does not read C.
// T is float or double.
//
// The bits of an element of C depend only on its row of A, its column of B, their dtypes, alpha and beta: not on m and
// n, not on its place, not on strides, not on the number of threads (kernels.h gives the order of additions). A row has
// the same product alone and in a batch. Converting halves before the product changes nothing, with one exception:
// where the processor has instructions for products of bf16, two bf16 factors are multiplied by them (bf16.h), and then
// an f32 factor with `may_round` counts as bf16 too, and is rounded while it is packed.
//
// gemm shares the work with parallel_for; gemm_serial keeps to the calling thread.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta, T* c,
          std::int64_t c_stride);
template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const Matrix<T>& a, const Matrix<T>& b,
                 T beta, T* c, std::int64_t c_stride);

// How gemm (shared) or gemm_serial computes such a product: only strides and dtypes of a and b matter.
struct GemmPlan;
template <class T>
GemmPlan plan_of(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b, bool shared);

// C = A·B in f16 or bf16, each element rounded once from gemm's result.
void gemm_to_halves(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a, const Matrix<float>& b,
                    DType dtype, void* c, std::int64_t c_stride);
void gemm_to_halves_serial(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
                           const Matrix<float>& b, DType dtype, void* c, std::int64_t c_stride);

}  // namespace ebb::cpu
