// SPDX-License-Identifier: MIT
// One step of cumsum or cumprod. Floats are accumulated in f64 and each result is rounded once; integers wrap.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f64 S;  // of sums
constexpr bool kAdds = true, kFloating = true, kHalf = true;
#endif

template <class X>
EBB X next(X a, X b) {
  if constexpr (kFloating) {
    return kAdds ? a + b : a * b;
  } else {
    return kAdds ? sum(a, b) : product(a, b);
  }
}
EBB T narrow(S x) { return store(kHalf ? (A)to_odd((f64)x) : (A)x); }

EBB S from_lane(S x, int lane) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane & 31);
  const u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane & 31);
  return from_bits(x, (u64)high << 32 | low);
}

// From each thread's total: that of the lanes before it, and the warps' in `totals`, which are read until the next
// barrier.
EBB S scan_lanes(S all, u64* totals) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const S left = from_lane(all, lane - distance);
    if (lane >= distance) all = next(left, all);
  }
  if (lane == 31) totals[threadIdx.x >> 5] = bits_of(all);
  const S left = from_lane(all, lane - 1);
  __syncthreads();
  return left;
}
// The total before this thread's elements, from the total before the block.
EBB S before_thread(S before, S left, const u64* totals) {
  for (int w = 0; w < (int)(threadIdx.x >> 5); ++w) before = next(before, from_bits(before, totals[w]));
  return threadIdx.x & 31 ? next(before, left) : before;
}

}  // namespace ebb::cuda
