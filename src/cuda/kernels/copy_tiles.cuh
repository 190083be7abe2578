// SPDX-License-Identifier: MIT
// Copies between two orders of memory by way of tiles in shared memory: read along the dimension that is dense in
// `from`, written along the one that is dense in `to`.
#pragma once
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 T;
#endif

extern "C" __global__ void __launch_bounds__(kThreads) copy_tiles(const CopyTilesArgs a) {
  __shared__ T tile[kCopyTile];
  const int full_to = (int)a.tile_to, full_from = (int)a.tile_from, pitch = full_from | 1;
  for (i64 t = blockIdx.x; t < a.to.n * a.tiles_to * a.tiles_from; t += gridDim.x) {
    const i64 of_to = quotient(t, a.tiles_from), outer = quotient(of_to, a.tiles_to);
    const i64 first_from = (t - of_to * a.tiles_from) * full_from, first_to = (of_to - outer * a.tiles_to) * full_to;
    const int along_from = a.size_from - first_from < full_from ? (int)(a.size_from - first_from) : full_from;
    const int along_to = a.size_to - first_to < full_to ? (int)(a.size_to - first_to) : full_to;
    const T* const from = (const T*)a.from.data + at(a.from, outer) + first_from + first_to * a.from_step;
    T* const to = (T*)a.to.data + at(a.to, outer) + first_to + first_from * a.to_step;
    for (u32 e = threadIdx.x; e < (u32)(along_to * along_from); e += kThreads) {
      const u32 i = e / (u32)along_from, j = e - i * (u32)along_from;
      tile[i * pitch + j] = from[i * a.from_step + j];
    }
    __syncthreads();
    for (u32 e = threadIdx.x; e < (u32)(along_to * along_from); e += kThreads) {
      const u32 j = e / (u32)along_to, i = e - j * (u32)along_to;
      to[j * a.to_step + i] = tile[i * pitch + j];
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
