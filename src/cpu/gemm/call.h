// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/kernels.h"

// What the parts of gemm.cc know of a product.
namespace ebb::cpu {

inline std::int64_t pieces_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

template <class T>
struct Call {
  std::int64_t m, n, k;
  T alpha;
  Matrix<T> a, b;
  bool add;  // to C
  T* c;
  std::int64_t c_stride;
  bool shared;                 // among threads
  BFloat16* halves = nullptr;  // the result is rounded to these, and C is only a place for sums: see GemmResult
  std::int64_t halves_stride = 0;

  // What `rows` rows and `cols` columns of it take, in operations: tiles multiply whole vectors of columns, and where
  // an element of C goes takes as long as some steps of k.
  template <class P>
  double work(const GemmTiles<T, P>& tiles, std::int64_t rows, std::int64_t cols, std::int64_t depth) const {
    rows = std::min(rows, m);
    cols = std::min(cols, n);
    if (tiles.rows_stay && tiles.group == 1) {
      cols = tiles.packed_cols(cols);
      depth += 16;
    }
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  }
  GemmSource a_source(std::int64_t i, std::int64_t p) const {
    const Matrix<T> x = a.from(i, p);
    return {x.data, x.dtype, x.row_stride, x.col_stride};
  }
  GemmSource b_source(std::int64_t p, std::int64_t j) const {
    const Matrix<T> x = b.from(p, j);
    return {x.data, x.dtype, x.col_stride, x.row_stride};
  }
  template <class Body>
  void for_each(std::int64_t tasks, Body&& body) const {
    if (shared) return parallel_for(tasks, body);
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
  }
};

}  // namespace ebb::cpu
