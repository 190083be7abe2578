// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

// Lines of k elements become codes of eight bits, `room` of them a line with zeros behind the last; so do the lines
// behind the last, up to lines_room. scales[line] is the power of two they have been divided by.
template <class T>
struct QuantizeArgs {
  const T* x;
  u8* codes;
  f32* scales;
  u32* most;           // per line, where lines lie side by side: the bits of its largest magnitude
  i64 lines, k, step;  // from line to line, or where they lie side by side from element to element
  i64 lines_room, room, aligned;
};
EBB_ARGS(10, QuantizeArgs<u8>);

// Chosen, not measured: a line per thread, and enough of its elements that one atomic per line and block is rare.
// Turned tiles fit static shared memory.
constexpr int kAmaxLines = 256, kAmaxDepth = 128;     // a block's share of the maxima
constexpr int kTurnedLines = 64, kTurnedDepth = 128;  // and of lines that are turned

struct DequantizeArgs {
  const u8* codes;
  const f32* scales;
  u16* out;
  i64 n, room;
};
EBB_ARGS(5, DequantizeArgs);

}  // namespace ebb::cuda
