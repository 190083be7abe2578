// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// A banded matrix of [rows, columns], see calls/banded.h.
template <class A>
struct BandSide {
  const i64* spans;  // [rows, 2]
  const A* weights;  // [rows, taps]
  i64 rows, columns, taps;
  u32 by_rows, of_rows;  // factor and shift: see core/divisor.h
};

// T: of elements, A: computed in. All dense: x [planes, columns..., inner], y [planes, rows..., inner].
template <class T, class A>
struct BandedArgs {
  const T* x;
  T* y;
  i64 planes, inner, from, to;  // elements of a plane before and after
  u32 by_inner, of_inner;
  i64 counts_narrow;  // all elements are fewer than 2^31
  BandSide<A> sides[3];
};
EBB_ARGS(8 + 3 * 6, BandedArgs<u8, u8>);

}  // namespace ebb::cuda
