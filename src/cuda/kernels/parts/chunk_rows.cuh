// SPDX-License-Identifier: MIT
// Rows of a chunk of linear_cross_entropy.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

EBB i64 row_of(const ChunkRows& rows, i64 r) {
  const i64 at = rows.begin + r, s = quotient(at, rows.per_side);
  return rows.first + s * rows.side + (at - s * rows.per_side);
}

// A row's target, and what its loss is multiplied with.
struct Target {
  i64 row, y;
  bool inside, counts;
  template <class Args>
  __device__ __forceinline__ Target(const Args& a, i64 r) : row(row_of(a.rows, r)), y(a.target[row * a.target_step]) {
    inside = (u64)y < (u64)a.classes;
    counts = inside && y != a.ignore;
  }
  template <class Args>
  __device__ __forceinline__ void check(const Args& a) const {
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.complaints, row, 0, bits_of(y));
  }
  template <class Args>
  __device__ __forceinline__ f64 weight(const Args& a) const {
    return a.weight && counts ? (f64)a.weight[y * a.weight_step] : 1.0;
  }
};

}  // namespace ebb::cuda
