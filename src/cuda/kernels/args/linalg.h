// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

// Rows of a triangular matrix that are solved, or columns that are factored, at a time, or fewer if shared memory does
// not hold those of all rows; rows and columns of a tile of what is left; sizes of matrices that one thread factors, or
// solves for a column.
constexpr int kPanel = 32, kFactorTile = 64, kFewRows = 8;  // chosen, not measured

template <class T, class A>
struct FactorArgs {
  KernelView a, b;
  i64 n, k, a_row, a_column, b_row, b_column;
  A *work, *upper;  // n x (n + k)
  A* packed;        // (n + 1) x n, as FactorsCall has them; null if that is not wanted
  i64 panel;        // columns of one
  T* determinant;
  i64 logarithm, needs_inverse;
  Complaints complaints;
};
EBB_ARGS(61, FactorArgs<u8, u8>);

template <class A>
struct SubstituteArgs {
  KernelView a, b;
  i64 n, k, a_row, a_column, b_row, b_column, upward, unit, tiles;
  A* x;
};
EBB_ARGS(56, SubstituteArgs<u8>);

template <class T, class A>
struct CholeskyArgs {
  KernelView a;
  i64 n, row, column;
  A* work;
  T* out;
  Complaints complaints;
};
EBB_ARGS(30, CholeskyArgs<u8, u8>);

struct PointersArgs {
  char** to;
  char* first;
  i64 bytes, count;
};
EBB_ARGS(4, PointersArgs);

constexpr int kFinishRows = 64;  // of a block of finish_cholesky (chosen, not measured)

// cuSOLVER's results: triangles by rows, or factors by columns, and a status per matrix.
template <class T, class A>
struct FinishCholeskyArgs {
  const A* work;
  T* out;
  const i32* info;
  i64 n, slabs;
  i64 count;
  Complaints complaints;
};
EBB_ARGS(8, FinishCholeskyArgs<u8, u8>);

template <class T, class A>
struct FinishFactorArgs {
  const A* factors;
  const i32* order;  // n per matrix: the row that each was exchanged with, from 1 on
  const i32* info;
  T* determinant;
  i64 n, count, logarithm, needs_inverse;
  Complaints complaints;
};
EBB_ARGS(10, FinishFactorArgs<u8, u8>);

// Factors by columns as FactorsCall has them. Slabs of kFinishRows rows.
template <class A>
struct PackFactorsArgs {
  const A* factors;
  const i32* order;
  A* packed;
  i64 n, count, slabs;
};
EBB_ARGS(6, PackFactorsArgs<u8>);

}  // namespace ebb::cuda
