// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/kernels.h"
#include "ebb/memory.h"

// A product as the parts of gemm.cc see it.
namespace ebb::cpu {

template <class T>
struct Call {
  std::int64_t m, n, k;
  T alpha;
  Matrix<T> a, b;
  bool add;  // to C
  T* c;
  std::int64_t c_stride;
  bool shared;                 // among threads
  BFloat16* halves = nullptr;  // the result is rounded to these, and C only holds the sums: see GemmResult
  std::int64_t halves_stride = 0;

  template <class P>
  GemmRequest request() const {
    const GemmSource x = a_source(0, 0), y = b_source(0, 0);
    constexpr DType kOwn = dtype_of_type<P>::value;
    return {.m = m,
            .n = n,
            .k = k,
            .a = {x.dtype == kOwn, x.wide_stride, x.depth_stride},
            .b = {y.dtype == kOwn, y.wide_stride, y.depth_stride},
            .shared = shared,
            .threads = num_threads(),
            .rounded = halves != nullptr};
  }
  GemmSource a_source(std::int64_t i, std::int64_t p) const {
    const Matrix<T> x = a.from(i, p);
    return {x.data, x.dtype, x.row_stride, x.col_stride};
  }
  GemmSource b_source(std::int64_t p, std::int64_t j) const {
    const Matrix<T> x = b.from(p, j);
    return {x.data, x.dtype, x.col_stride, x.row_stride};
  }
};

template <class Body>
void for_each(bool shared, std::int64_t tasks, Body&& body) {
  if (shared) return parallel_for(tasks, body);
  for (std::int64_t i = 0; i < tasks; ++i) body(i);
}

}  // namespace ebb::cpu
