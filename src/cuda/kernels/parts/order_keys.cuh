// SPDX-License-Identifier: MIT
// Elements as unsigned integers in their order: -0 and 0 are equal, every NaN is the same and above all numbers.
#pragma once
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 T;  // the bits of an element
constexpr bool kDescending = false, kFloating = true, kSigned = true;
constexpr T kInfinity = 0x7F80;  // its bits, of floats
#endif

constexpr int kKeyBits = 8 * sizeof(T), kWarps = kThreads / 32;

EBB T key_of(T bits) {
  constexpr T kSign = (T)((T)1 << (kKeyBits - 1));
  T key = bits;
  if constexpr (kFloating) {
    const T size = (T)(bits & (T)~kSign);
    key = size == bits ? (T)(bits | kSign) : size ? (T)~bits : kSign;
    if (size > kInfinity) key = (T) ~(T)0;
  } else if constexpr (kSigned) {
    key = (T)(bits ^ kSign);
  }
  return kDescending ? (T)~key : key;
}
EBB u32 digit_of(T key, int shift) { return (u32)(key >> shift) & 255u; }

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
