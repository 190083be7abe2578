// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

template <class T>
struct SparsemaxArgs {
  KernelView x;
  T* out;
  i64 length, step;
};
EBB_ARGS(26, SparsemaxArgs<u8>);

// Rows in pieces. Sums and counts of pieces, and the counts before, twice: a step reads those of the step before it.
template <class T>
struct LongSparsemaxArgs {
  KernelView x;
  T* out;
  i64 length, column, piece, pieces, step;
  f64 *tops, *sums;
  i64 *counts, *before;
};
EBB_ARGS(33, LongSparsemaxArgs<u8>);

template <class T, class A, class I>
struct HingesArgs {
  const T* x;
  const I* target;
  const A* scale;
  A* sums;
  T* gradient;
  u8* listed;
  i64 rows, classes, x_row, x_step, target_row, target_step, scale_step;
  Complaints complaints;
};
EBB_ARGS(15, HingesArgs<u8, u8, u8>);

}  // namespace ebb::cuda
