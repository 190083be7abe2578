// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/index.h"

namespace ebb::cuda {

// Rows that a thread looks at the index for: their loads are in flight at the same time. Elements that more entries go
// to have a warp each, which then reads two per lane or more (both chosen, not measured).
constexpr int kWeightedRows = 8;
constexpr i64 kManyEntries = 64;

// T: of x and y, A: of weights, K: of keys. All dense.
template <class T, class A, class K>
struct WeightedArgs {
  T* x;              // [images, rows, size]
  T* y;              // [images, rows, points]
  const i64* index;  // [images, points, taps]
  A* weight;
  i64 images, rows, size, points, taps;
  // weighted_scatter: entries of the index sorted by the element they go to
  K* keys;             // [images, points*taps]: the element, or `size` for none
  const i64* order;    // of the keys, per image
  TokenRange* ranges;  // [images, size]: an element's entries in this order
  i64* many;           // elements with more than kManyEntries, and how many those are
  u32* many_count;
  Complaints complaints;
};
EBB_ARGS(16, WeightedArgs<u8, u8, u8>);

}  // namespace ebb::cuda
