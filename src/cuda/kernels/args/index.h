// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

constexpr int kTurnSlots = 2048;  // where elements of a block meet that go to one place

struct ScatterArgs {
  KernelView index, src, out;
  i64 length, inner, size, index_step, src_step, out_step;
  Complaints complaints;
};
EBB_ARGS(62, ScatterArgs);

template <class T, class P>
struct ScatterElementsArgs {
  KernelView index, src, out;  // in the shape of the index
  P* last;                     // per element of the output: 1 + the position of the last one that goes there
  i64 size, out_step;
  Complaints complaints;
};
EBB_ARGS(59, ScatterElementsArgs<u8, u8>);

struct LineRowsArgs {
  KernelView index;  // with the axis last
  i64* rows;
  i64 length, inner, size;  // inner: lines that lie behind the axis
  Complaints complaints;
};
EBB_ARGS(24, LineRowsArgs);

constexpr int kGatherPacks = 4;  // of a row's tile that a lane copies, one group of lanes apart

template <class T, class I>
struct GatherRowsArgs {
  KernelView x;  // the first elements of its slices
  const I* index;
  T* out;
  i64 index_step, x_step, size, length, inner, lane_bits, tiles;
  Complaints complaints;
};
EBB_ARGS(29, GatherRowsArgs<u8, u8>);

constexpr int kGatherEach = 4;  // elements of a thread, one block of threads apart

template <class T>
struct GatherArgs {
  KernelView index, x;
  T* out;
  i64 x_step, size, inner, length;  // inner 0: the position is the element's
  Complaints complaints;
};
EBB_ARGS(43, GatherArgs<u8>);

template <class T>
struct NarrowArgs {
  const f32* from;
  T* to;
  i64 n;
};
EBB_ARGS(3, NarrowArgs<u8>);

constexpr int kManyTokens =
    16;  // rows with more of them are added by a thread per column, with so many loads in flight

struct alignas(16) TokenRange {
  i64 begin, end;
};
template <class T, class I>
struct AddRowsArgs {
  const I* index;
  const T* g;
  T* out;
  const i64* order;    // of the tokens, sorted by their rows
  TokenRange* ranges;  // per row: its tokens in this order
  i64* many;           // rows with more than kManyTokens, and how many those are
  u32* many_rows;
  i64 tokens, index_step, outer, size, inner, lane_bits, tiles, many_blocks;
  Complaints complaints;
};
EBB_ARGS(17, AddRowsArgs<u8, u8>);

}  // namespace ebb::cuda
