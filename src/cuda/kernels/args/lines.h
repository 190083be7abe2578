// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

// A line is divided into pieces, so that a long one has as many threads as many short ones. The pieces of a scan depend
// on the line's length alone, since its sums are made of them: changing a size changes bits. Eight elements with
// their places are 32 registers of a thread; a strip is long enough that what it leaves, 8 bytes, is little
// beside what it reads; a line of 32 elements is no more than a warp would have lanes for (all chosen, not measured).
// Sums of 16 elements per thread, in blocks of four per multiprocessor, take 64 registers: with 150 one block fitted,
// and cumsum of 5.8 million took 0.090 ms instead of 0.039 (docs/notebook/2026-11.md). A block waits for one total per
// thread.
constexpr int kScanEach = 8;                      // elements of a thread
constexpr int kScanPiece = kScanEach * kThreads;  // of a block: elements side by side
constexpr int kScanStrip = 256;                   // of a thread: elements that are neighbours of other lines'
// What comes before each strip of a line is found by one thread up to so many strips (chosen), else by a block, which
// took 406 of 1,098 us for cummax of 65,537 lines of 257, two strips each.
constexpr int kFewStrips = 64;
constexpr int kSumEach = 16;  // of a thread, where one pass makes sums or products
constexpr int kSumPiece = kSumEach * kThreads;
constexpr int kSumGroup = kThreads;  // pieces of a line up to which one pass makes them
constexpr int kSumChunks = 396;      // of a longer line: three blocks on each of an H200's multiprocessors
constexpr int kSumAlone = 32;        // a line of up to so many is a thread's
constexpr int kCarryEach = 8;        // of a thread, in a recurrence
// Threads of the largest block that has a line of a recurrence alone, and bytes of one in shared memory, apart from 1
// of 8 that keep banks apart (decides bits; chosen: with pieces of 2,048, lines of 8,192 were read twice, 249 of 1,273
// us for cummax with its gradient).
constexpr int kLongLineThreads = 1024, kHeldLineBytes = 40 << 10;

struct BestArgs {
  KernelView x;  // the first elements of the lines
  i64* out;
  i64 length, step;
  i64 piece, pieces;  // elements of a piece, and how many pieces a line has
  i64* places;        // of the best of each piece; null where a line is one
  i64 lane_bits;      // of a group that has a line
};
EBB_ARGS(30, BestArgs);

struct ScannedLines {
  KernelView x, out;  // the first elements of the lines
  i64 length, x_step, out_step, start;
  i64 pieces;  // of a line
};
struct ScanArgs : ScannedLines {
  u64* sums;  // pieces + 1 of each line: what comes before each piece, or its place; null where a line is one
};
EBB_ARGS(52, ScanArgs);

// Recurrences, and sums of runs.
struct RecurrenceArgs {
  KernelView factors, g, out;  // the first elements of the lines; instead of factors the index of runs
  i64 length, factor_step, g_step, out_step;
  i64 pieces;     // of a line, or strips
  f64* carries;   // of pieces: what they carry on, and then what comes to them; null where a line is one
  f64* products;  // of their factors
};
EBB_ARGS(76, RecurrenceArgs);

// Sums or products of lines, by blocks.
struct ScanOnceArgs : ScannedLines {
  i64 chunk, chunks;  // elements of a chunk, and how many a line has
  u64* totals;        // of pieces, two words each, or of chunks; null where a line is one piece
  u32* next;          // the next piece that a block takes
};
EBB_ARGS(55, ScanOnceArgs);

}  // namespace ebb::cuda
