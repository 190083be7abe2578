// SPDX-License-Identifier: MIT
// One place of the sorted order of short lines: a warp has a line in registers and finds the key at that place bit by bit
// from the highest on, by counting the elements that agree with it so far and have a zero next.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/order_keys.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kEach = 8;  // elements of a lane
#endif

extern "C" __global__ void __launch_bounds__(kThreads) select_one(const SortArgs a) {
  const int lane = (int)threadIdx.x % 32;
  for (i64 line = (i64)blockIdx.x * kWarps + threadIdx.x / 32; line < a.x.n; line += (i64)gridDim.x * kWarps) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    T key[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = k * 32 + lane;  // beyond the line: the last keys, after equal ones of the line
      key[k] = i < a.length ? key_of(x[i * a.x_step]) : (T) ~(T)0;
    }
    T found = 0;
    int rank = (int)a.first;
    for (int bit = kKeyBits - 1; bit >= 0; --bit) {
      int zeros = 0;
#pragma unroll
      for (int k = 0; k < kEach; ++k) zeros += (T)(key[k] ^ found) >> bit == 0;
      zeros = (int)__reduce_add_sync(0xffffffffu, (u32)zeros);
      if (rank < zeros) continue;
      rank -= zeros;
      found = (T)(found | (T)((T)1 << bit));
    }
    // Of equal keys, the one at that place in the order of the line.
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const u32 equal = __ballot_sync(0xffffffffu, key[k] == found);
      if (key[k] == found && __popc(equal & ((1u << lane) - 1)) == rank) {
        const int place = k * 32 + lane;
        const i64 to = at(a.out, line);
        ((i64*)a.out.data)[to] = place;
        if (a.values) ((T*)a.values)[to] = x[place * a.x_step];
      }
      rank -= __popc(equal);
    }
  }
}

}  // namespace ebb::cuda
