// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

// A block merges four elements per thread, whose two copies take 20 KiB of shared memory for 8 bytes each (chosen). By
// digits 16 per thread: more lines end in one launch, and keys, places and ranks still fit 64 registers, by NVRTC's
// count.
constexpr int kSortPiece = 1024;                   // elements that a block sorts by merges
constexpr int kRadixEach = 16;                     // elements of a thread, of those that a block sorts, at most
constexpr int kRadixTile = kRadixEach * kThreads;  // of the block
// Elements of a thread that moves those of longer lines, of up to four bytes and of eight: with more of them three or
// four blocks per multiprocessor leave too few registers, by NVRTC's count.
constexpr int kMovedEach = 12, kMovedEachOfWide = 8;
// A selection keeps what its first digits leave, 2,048 numbers of up to 8 bytes with their places: 24 KiB, four blocks
// per multiprocessor and more (all chosen; topk 64 of 512 rows of 32,000 takes 0.121 ms, PyTorch 0.285).
constexpr int kSelectEach = 8;                        // elements that a thread reads at a time
constexpr int kSelectBatch = kSelectEach * kThreads;  // that its block reads
constexpr int kSelectKept = 2048;                     // elements of a line that a block keeps in shared memory

// One place of a line is found by a warp, up to so many elements per lane: 64 registers for those of 8 bytes (chosen).
// Merges took 1.4 ms for the median of 49,761 lines of 383 bf16, PyTorch 0.75.
constexpr int kMostOfLane = 32;

struct SortArgs {
  KernelView x, out;             // lines
  i64 length, x_step, out_step;  // of a line
  i64 first, count;              // places of the sorted order that are wanted
  i64 piece;                     // the power of two from the length on, up to kSortPiece
  void* values;                  // the elements themselves, at the same offsets as `out`; null: not wanted
};
EBB_ARGS(53, SortArgs);

constexpr int kSearchEach = 4;  // values of a thread (chosen, not measured)

struct SearchArgs {
  KernelView sorted, values;  // lines; values
  i64* out;
  i64 length, step, count;  // of a sorted line; values per line
};
EBB_ARGS(50, SearchArgs);

// T: bits of an element, or its key. P: a place in a line.
template <class T, class P>
struct RadixArgs {
  KernelView x, out;
  i64 length, x_step, out_step, first, count;
  i64 tiles, shift;     // of a line; of the pass's digit
  i64 group, groups;    // tiles whose counts one block sums; how many groups a line has
  i64 key_bits;         // bits above these are the same in all keys
  const T* given_keys;  // dense lines of keys instead of x, and the place of each; null: x's own
  const P* given_places;
  T* keys[2];  // what passes leave for the next, in turns
  P* places[2];
  P* counts;     // [lines][tiles][256]: of elements with the digit, then of those in tiles of its group before
  P* sums;       // [lines][groups][256]: of a group's elements, then of those in groups before
  P* totals;     // [lines][256]
  u32* varying;  // [2]: bits that are not the same in all keys of a line; null: all below key_bits
  T* values;     // the elements of x themselves, at the same offsets as `out`; null: not wanted
};
EBB_ARGS(67, RadixArgs<u8, u8>);

template <class T>
struct SelectArgs {
  KernelView x;
  i64 length, x_step, first, count;
  i64 piece, pieces;  // that a line is divided into
  i64 shift;          // of the pass's digit
  u32* histograms;    // [lines][bytes of T][2][256]: digits of elements that agree with the first and last key so far
  u32* chosen;        // [lines][pieces][3]: how many are like the first key, like the last, between them
  T* keys_to;         // [lines][count]
  u32* places_to;
};
EBB_ARGS(34, SelectArgs<u8>);

}  // namespace ebb::cuda
