// SPDX-License-Identifier: MIT
// Copies of bytes from and to any address: blocks take turns among them. Whole words of 16 bytes are stored; where the
// source begins elsewhere in such a word, they are cut out of two.
#pragma once
#include "cuda/kernels/args/copy_bytes.h"
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kMost = 8;  // how many there can be
#endif

using Args = CopyBytesArgs<kMost>;

// The next word is read only where some of its bytes are wanted: elsewhere it may not be there.
EBB Words4 word_at(const Words4* from, u32 skew) {
  const Words4 first = from[0];
  if (skew == 0) return first;
  const Words4 second = from[1];
  u32 w[8] = {first.x[0], first.x[1], first.x[2], first.x[3], second.x[0], second.x[1], second.x[2], second.x[3]};
  shift_words<4, u8>(w, skew);
  return {{w[0], w[1], w[2], w[3]}};
}

extern "C" __global__ void __launch_bounds__(kThreads) copy_bytes(const Args a) {
  constexpr int kLoads = 4;  // in flight
  const i64 k = blockIdx.x % (unsigned)a.count, first = (i64)(blockIdx.x / (unsigned)a.count) * kThreads + threadIdx.x;
  const i64 step = (i64)(gridDim.x / (unsigned)a.count) * kThreads;
  char* const to = a.of[k].to;
  const char* const from = a.of[k].from;
  const i64 bytes = a.of[k].bytes, before = -(u64)to & 15, head = before < bytes ? before : bytes,
            words = (bytes - head) / 16, tail = head + 16 * words;
  const u32 skew = (u32)(u64)(from + head) & 15;
  const Words4* const read = (const Words4*)(from + head - skew);
  Words4* const written = (Words4*)(to + head);
  must_be_aligned(written, words > 0 ? 16 : 1);
  for (i64 i = first; i < words; i += kLoads * step) {
    Words4 x[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (i + j * step < words) x[j] = word_at(read + i + j * step, skew);
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (i + j * step < words) store16(written + i + j * step, x[j].x[0], x[j].x[1], x[j].x[2], x[j].x[3]);
    }
  }
  if (first < head) to[first] = from[first];
  if (tail + first < bytes) to[tail + first] = from[tail + first];
}

}  // namespace ebb::cuda
