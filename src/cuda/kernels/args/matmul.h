// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

template <class T, class A>
struct AddPartsArgs {
  const A* parts;
  T* out;
  i64 n, count, add;
  const T* bias;
  i64 columns, aligned;
};
EBB_ARGS(8, AddPartsArgs<u8, u8>);

template <class T, class A>
struct FinishProductArgs {
  const A* sums;
  T* out;
  i64 n, of_batch, out_batch, add;
  const T* bias;
  i64 columns;
};
EBB_ARGS(8, FinishProductArgs<u8, u8>);

template <class T>
struct IntegerMatmulArgs {
  KernelView a, b;
  T* out;
  i64 k, a_step, b_step;
};
EBB_ARGS(50, IntegerMatmulArgs<u8>);

// Terms of the elements of a product below which a thread adds them (chosen, not measured).
constexpr int kFewTerms = 8;

template <class In, class T>
struct ThinProductArgs {
  const In* a;
  const In* b;
  T* c;
  f32* sums;  // [parts][m][n], of long sums
  const T* bias;
  i64 m, n, k, batches, a_row, a_column, a_batch, b_row, b_column, b_batch, c_row, c_batch;
  i64 part, parts;  // terms that are added together
  i64 add;
};
EBB_ARGS(20, ThinProductArgs<u8, u8>);

// Chosen, not measured: for products that cuBLASLt is not used for.
constexpr int kFixedSide = 16;  // threads of a block along each side of its tile, and elements of k at a time

template <class T>
struct FixedMatmulArgs {
  const T* a;
  const T* b;
  T* c;
  i64 m, n, k, a_row, a_column, a_batch, b_row, b_column, b_batch, tiles_m, tiles_n, tiles, add;
};
EBB_ARGS(16, FixedMatmulArgs<u8>);

}  // namespace ebb::cuda
