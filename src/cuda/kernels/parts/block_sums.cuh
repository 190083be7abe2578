// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

constexpr int kWarps = kThreads / 32;

// Σ x of the threads before this one; `all`: of all. `warps`: read until the next barrier.
template <class N>
EBB N sum_before(N x, N* warps, N& all) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  N sum = x;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const N left = __shfl_sync(0xffffffffu, sum, (lane - distance) & 31);
    if (lane >= distance) sum += left;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  N before = sum - x;
  all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += warps[w];
    all += warps[w];
  }
  return before;
}

}  // namespace ebb::cuda
