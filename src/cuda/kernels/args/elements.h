// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

struct CopyArgs {
  KernelView to, from;
};
EBB_ARGS(46, CopyArgs);

struct CopyRowsArgs {
  KernelView to, from;  // the first elements of the rows
  i64 length, room;     // elements of a row, and with zeros behind them
  i64 packs;            // of a row with its zeros
};
EBB_ARGS(49, CopyRowsArgs);

// Elements of a tile, with one more per line if that is even.
constexpr int kCopyTile = 4160;

// Of a dimension that is dense in `to` and one that is dense in `from`: their sizes, sides of a tile, tiles, and the
// other view's step along them. The views have what is left.
struct CopyTilesArgs {
  KernelView to, from;
  i64 size_to, tile_to, tiles_to, from_step;
  i64 size_from, tile_from, tiles_from, to_step;
};
EBB_ARGS(54, CopyTilesArgs);

template <class T, class F>
struct ScaleArgs {
  T* data;
  const F* factor;
  i64 n;
};
EBB_ARGS(3, ScaleArgs<u8, u8>);

template <class To, class From>
struct ConvertArgs {
  To* to;
  const From* from;
  i64 n, aligned;
};
EBB_ARGS(4, ConvertArgs<u8, u8>);

}  // namespace ebb::cuda
