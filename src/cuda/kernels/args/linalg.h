// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

template <class T, class A>
struct FactorArgs {
  KernelView a, b;
  i64 n, k, a_row, a_column, b_row, b_column;
  A* lower;  // n x n
  A* upper;  // n x (n + k)
  i64* order;
  T* determinant;
  i64 logarithm, needs_inverse;
  Complaints complaints;
};
EBB_ARGS(50, FactorArgs<u8, u8>);

constexpr int kSubstituteColumns = 32;  // of a block

template <class A>
struct SubstituteArgs {
  KernelView a, b;
  i64 n, k, a_row, a_column, b_row, b_column, upward, unit, tiles;
  A* x;
};
EBB_ARGS(46, SubstituteArgs<u8>);

template <class T, class A>
struct CholeskyArgs {
  KernelView a;
  i64 n, row, column;
  A* work;
  T* out;
  Complaints complaints;
};
EBB_ARGS(25, CholeskyArgs<u8, u8>);

}  // namespace ebb::cuda
