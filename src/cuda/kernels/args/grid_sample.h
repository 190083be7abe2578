// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

constexpr int kGridChannels = 8;     // that a thread finds taps for, at most
constexpr i64 kManyGridPoints = 64;  // elements that more points go to have a warp each
constexpr f64 kGridReach = 4;        // places farther outside are brought there

// A number in both types that may be computed in: a conversion of f64 per thread took as long as a tap.
struct GridNumber {
  f64 wide;
  f32 narrow, unused;
};
// An axis, the last one of the image first: see GridAxis in calls/grid_sample.h.
struct GridSide {
  GridNumber scale, shift, span, last;  // the last place, in the numbers computed in
  i64 size;
};

// T: of elements, A: computed in, K: of keys and places in a plane. All dense.
template <class T, class A, class K>
struct GridArgs {
  T* x;           // [images, channels, elements]
  T* y;           // [images, channels, points]
  const T* grid;  // [images, points, axes]
  T* gradient;    // of the grid
  i64 images, channels, elements, points;
  GridSide sides[3];
  // The gradient of the image. Points are sorted by the cell that they lie in:
  K* keys;           // [images, points]: the cell, or `cells` for none
  const K* sorted;   // the keys in their order, per image
  const i64* order;  // of the keys, per image
  i64* starts;       // [images, cells + 1]: how many points of this order come before a cell
  i64 cells;
  i64* many;  // elements with more than kManyGridPoints, and how many those are
  u32* many_count;
};
EBB_ARGS(42, GridArgs<u8, u8, u8>);

}  // namespace ebb::cuda
