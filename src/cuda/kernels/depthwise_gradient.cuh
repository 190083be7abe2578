// SPDX-License-Identifier: MIT
// The gradient of windows that have one channel each, some of their taps per block over a part of all positions:
//   dw[k, r, s] = Σ over positions (n, p, q) of y[n, k, p, q] · x[n, c, p·stride + r·dilation − padding, q·…]
// Parts are added afterwards, in order (weight_gradient.cuh).
#pragma once
#include "cuda/kernels/args/direct.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kTaps = 9;  // of a block
#endif

using Args = DepthwiseArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) depthwise_gradient(const Args a) {
  __shared__ f32 of_warps[kThreads / 32][kTaps];
  const i64 unit = quotient(blockIdx.x, a.chunks), part = quotient(unit, a.outputs), output = unit - part * a.outputs;
  const int first_tap = (int)(blockIdx.x - unit * a.chunks) * kTaps, taps = (int)(a.taps_h * a.taps_w);
  const i64 begin = part * a.each, end = begin + a.each < a.positions ? begin + a.each : a.positions;
  const T* const x = a.x + quotient(output, a.per_channel) * a.x_c;
  const T* const y = a.y + output * a.y_c;
  int down[kTaps], across[kTaps];
  i64 offset[kTaps];
  f32 sum[kTaps];
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    const int tap = first_tap + t, r = tap / (int)a.taps_w;
    sum[t] = 0.0f;
    down[t] = tap < taps ? r * (int)a.dilation_h - (int)a.padding_h : -(1 << 30);  // far outside
    across[t] = (tap - r * (int)a.taps_w) * (int)a.dilation_w - (int)a.padding_w;
    offset[t] = tap < taps ? down[t] * a.x_h + across[t] * a.x_w : 0;
  }
  for (i64 position = begin + threadIdx.x; position < end; position += kThreads) {
    const u32 line = (u32)position / (u32)a.columns, n = line / (u32)a.rows;
    const int q = (int)((u32)position - line * (u32)a.columns), p = (int)(line - n * (u32)a.rows);
    const f32 g = load(y[n * a.y_n + p * a.y_h + q * a.y_w]);
    const int h = p * (int)a.stride_h, w = q * (int)a.stride_w;
    const T* const at = x + n * a.x_n + h * a.x_h + w * a.x_w;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if ((u32)(h + down[t]) < (u32)a.height && (u32)(w + across[t]) < (u32)a.width)
        sum[t] = fmaf(g, load(at[offset[t]]), sum[t]);
    }
  }
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) sum[t] += __shfl_xor_sync(0xffffffffu, sum[t], d);
    if (lane == 0) of_warps[warp][t] = sum[t];
  }
  __syncthreads();
  const int t = threadIdx.x;
  if (t >= kTaps || first_tap + t >= taps) return;
  f32 total = 0.0f;
#pragma unroll
  for (int k = 0; k < kThreads / 32; ++k) total += of_warps[k][t];
  a.parts[(part * a.outputs + output) * taps + first_tap + t] = total;
}

}  // namespace ebb::cuda
