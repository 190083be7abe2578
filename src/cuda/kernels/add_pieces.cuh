// SPDX-License-Identifier: MIT
// Adds the sums of a line's pieces: each of eight warps takes every eighth of them, for 32 neighbouring elements, and
// their sums are added in order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f32 S;  // of sums
#endif

using Args = AddPiecesArgs<T, S>;

extern "C" __global__ void __launch_bounds__(kThreads) add_pieces(const Args a) {
  constexpr int kWarps = kThreads / 32;
  __shared__ S sums[kWarps][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 n = a.outer * a.row;
  for (i64 first = (i64)blockIdx.x * 32; first < n; first += (i64)gridDim.x * 32) {
    const i64 e = first + lane, outer = e < n ? quotient(e, a.row) : 0;
    S total = 0;
    if (e < n) {
      const S* const parts = a.parts + outer * a.pieces * a.row + (e - outer * a.row);
#pragma unroll 8
      for (i64 p = warp; p < a.pieces; p += kWarps) total += parts[p * a.row];
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && e < n) {
#pragma unroll
      for (int w = 1; w < kWarps; ++w) total += sums[w][lane];
      a.out[e] = store((A)total);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
