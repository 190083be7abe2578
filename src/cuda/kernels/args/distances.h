// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// See calls/distances.h. Pairs have one matrix: a = b and m = n.
template <class T>
struct DistanceArgs {
  const T *a, *b;  // [batches, m, depth], [batches, n, depth], dense
  T* out;          // distances, or the gradient to a; dense
  i64 batches, m, n, depth;
  const T *grad, *distances;  // of the gradient: [batches, m, n], or dense pairs
  i64 grad_batch, grad_row, grad_column, distance_batch, distance_row, distance_column;
};
EBB_ARGS(15, DistanceArgs<void>);

}  // namespace ebb::cuda
