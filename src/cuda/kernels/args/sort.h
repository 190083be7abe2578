#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

constexpr int kSortPiece = 1024;  // elements that a block sorts in shared memory
constexpr int kSortWays = 16;     // runs merged at a time, at most

template <class T, class P>
struct SortArgs {
  KernelView x, out;  // lines
  i64 length, x_step, out_step;
  i64 piece, pieces;  // elements of a piece, a power of two up to kSortPiece, and how many pieces a line has
  i64 run_bits;       // runs to be merged have 2^run_bits elements
  const T* keys;      // of the lines, dense, in sorted runs, and where in its line each of them was
  const P* places;
  T* keys_to;  // null: there is only the result
  P* places_to;
};
EBB_ARGS(46, SortArgs<u8, u8>);

}  // namespace ebb::cuda
