// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

// Where elements of a block meet that go to one place: eight per thread, so that two that only share a slot seldom
// wait for each other (chosen, not measured).
constexpr int kTurnSlots = 2048;

struct ScatterArgs {
  KernelView index, src, out;
  i64 length, inner, size, index_step, src_step, out_step;
  i64 piece, pieces;  // of a line that a block takes
  void* parts;        // [outer][pieces][size][inner]: their sums; null where a line is one
  Complaints complaints;
};
EBB_ARGS(80, ScatterArgs);

// Lines of [outer, length, inner]: all that lie behind the axis are neighbours, some of which a block takes.
struct PlaceSumsArgs {
  KernelView index, src;  // the first elements of `outer`
  void* out;              // [outer][size][inner]
  void* parts;            // [outer][pieces][size][inner]: sums of pieces; null where a line is one
  i64 length, inner, size, index_step, src_step, index_column, src_column;
  i64 columns, tiles;  // neighbours that a block takes, and how many times
  i64 piece, pieces;
  i64 slices;  // the index is one for whole slices
  Complaints complaints;
};
EBB_ARGS(62, PlaceSumsArgs);

// The same lines, whose elements a thread looks through.
struct SoughtSumsArgs {
  KernelView index, src;  // the first elements of `outer`
  void* out;              // [outer][size][inner]
  i64 length, inner, size, index_step, src_step, index_column, src_column;
  i64 slices;  // the index is one for whole slices
  Complaints complaints;
};
EBB_ARGS(57, SoughtSumsArgs);

// The same lines, of a length that is the kernel's.
struct FillPlacesArgs {
  KernelView index, src;
  void* out;         // [outer][size][inner]
  const void* base;  // the same before; null: zeros
  i64 inner, size, index_step, src_step, index_column, src_column, slices;
  i64 aligned;  // out and base, to 16 bytes
  Complaints complaints;
};
EBB_ARGS(58, FillPlacesArgs);

template <class T, class S>
struct AddPiecesArgs {
  const S* parts;  // [outer][pieces][row]
  T* out;          // [outer][row]
  i64 outer, row, pieces;
};
EBB_ARGS(5, AddPiecesArgs<u8, u8>);

template <class T, class P>
struct ScatterElementsArgs {
  KernelView index, src, out;  // in the shape of the index
  P* last;                     // per element of the output: 1 + the position of the last one that goes there
  i64 size, out_step;
  i64 inner, length;  // of an index for whole slices: elements behind its axis, and its own; inner 0: of elements
  i64 sums, copies;   // of a table in shared memory: elements of the output, and copies that lanes choose among
  Complaints complaints;
};
EBB_ARGS(78, ScatterElementsArgs<u8, u8>);

// Sums in fixed point, of digits of `digit_bits` each: what is added is exact, and so has no order.
constexpr int kMostDigits = 8;  // of 35 bits or more: an f32 has 277 in all
template <class T>
struct ExactSumsArgs {
  KernelView index, src, out;  // in the shape of the index
  i64 size, out_step, inner, length;
  i64 first, count;         // elements of the index whose places are these:
  i64 first_place, places;  // of the output
  i64 digit_bits;
  u32* range;     // [2]: the highest exponent, and 256 less the lowest
  u64* digits;    // [as many as the range needs, from the lowest on][places]: most elements add to the highest alone
  u32* specials;  // per place: 1 infinity, 2 -infinity, 4 NaN
  T* sums;
  Complaints complaints;
};
EBB_ARGS(84, ExactSumsArgs<u8>);

template <class T>
struct PutValuesArgs {
  KernelView base;
  const u64* last;  // per element of the output; 0: base's
  T* out;
};
EBB_ARGS(25, PutValuesArgs<u8>);

template <class T>
struct PutLastArgs {
  KernelView index, src, base;  // the first elements of lines
  T* out;                       // lines one behind the other
  i64 length, size, index_step, src_step, base_step;
  i64 lines;  // of a block
  Complaints complaints;
};
EBB_ARGS(78, PutLastArgs<u8>);

template <class R>
struct LineRowsArgs {
  KernelView index;  // with the axis last
  R* rows;
  i64 length, inner, size;  // inner: lines that lie behind the axis
  Complaints complaints;
};
EBB_ARGS(29, LineRowsArgs<u8>);

// Loads of a thread in flight: 64 bytes of a row; an element and its index (chosen, not measured).
constexpr int kGatherPacks = 4;  // of a row's tile that a lane copies, one group of lanes apart

template <class T, class I>
struct GatherRowsArgs {
  KernelView x;  // the first elements of its slices
  const I* index;
  T* out;
  i64 index_step, x_step, size, length, inner, lane_bits, tiles;
  Complaints complaints;
};
EBB_ARGS(34, GatherRowsArgs<u8, u8>);

constexpr int kGatherEach = 4;  // elements of a thread, one block of threads apart

template <class T>
struct GatherArgs {
  KernelView index, x;
  T* out;
  i64 x_step, size, inner, length;  // inner 0: the position is the element's
  Complaints complaints;
};
EBB_ARGS(53, GatherArgs<u8>);

template <class T>
struct NarrowArgs {
  const f32* from;
  T* to;
  i64 n;
};
EBB_ARGS(3, NarrowArgs<u8>);

// Both decide the order of sums. Rows with more than so many tokens are added by a thread per column, with so many
// loads in flight. Of a row one thread adds so many, 32 such rounds; a row of more has several sums, so that one token
// that is half of all does not take as long as the rest (424,008 rows of 70, half of them to one: 0.294 ms,
// PyTorch 1.15).
constexpr int kManyTokens = 16, kSegmentTokens = 512;

struct alignas(16) TokenRange {
  i64 begin, end;
};
// Tokens of a row with more than kManyTokens, in the sorted order. `part`: where their sums go; below 0: to the output.
struct alignas(16) RowSegment {
  i64 row, begin, end, part;
};
// A row of several segments.
struct alignas(16) DividedRow {
  i64 row, part, parts, unused;
};
struct RowCounters {
  u32 segments, parts, divided, unused;
};
template <class T, class R, class S>
struct AddRowsArgs {
  const R* rows;  // of the tokens in sorted order
  const T* g;
  T* out;
  const i64* order;    // of the tokens, sorted by their rows; null: they are in this order
  TokenRange* ranges;  // per row: its tokens in this order; null: rows without tokens are zeros already
  RowSegment* segments;
  DividedRow* divided;
  RowCounters* counters;
  S* parts;  // [outer][inner] each
  i64 tokens, outer, size, inner, lane_bits, tiles, many_blocks;
};
EBB_ARGS(16, AddRowsArgs<u8, u8, u8>);

}  // namespace ebb::cuda
