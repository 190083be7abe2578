// SPDX-License-Identifier: MIT
// The gradient of a convolution's windows in exact f32, a tile of them per block, over a part of all positions:
//   dw[k, d] = Σ over positions (n, p, q) of y[n, k, p, q] · x[n, c, p·stride + r·dilation − padding, q·…],  d = (c, r,
//   s)
// Parts are added afterwards, in order. A block loads kStep positions at a time, one per lane; its
// threads make groups that multiply different ones of them, if a tile is too small for all.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kTileM = 64, kTileN = 64;
#endif

struct alignas(16) Four {
  f32 v[4];
};

// Rows and columns per thread: more of a full tile, so that multiplying takes longer than loading.
constexpr int kEachM = kTileM < 64 ? 4 : 8, kEachN = kTileN < 64 ? 4 : 8;
constexpr int kGroups = kThreads * kEachM * kEachN / (kTileM * kTileN), kOfGroup = kThreads / kGroups;
constexpr int kOfStep = kGradientStep / kGroups;
constexpr int kLoaders = kThreads / 32, kRowsM = kTileM / kLoaders, kRowsN = kTileN / kLoaders;

// Where an element of the windows looks, relative to a position.
struct Looks {
  i64 offset[kTileN];
  int down[kTileN], across[kTileN];  // `down` is far outside where there is no element
};

EBB void look(const WeightGradientArgs& a, i64 group, i64 first, Looks& looks) {
  const Windows& z = a.windows;
  const i64 taps = z.taps_h * z.taps_w;
  for (int t = threadIdx.x; t < kTileN; t += kThreads) {
    const i64 d = first + t, c = quotient(d, taps), tap = d - c * taps, r = quotient(tap, z.taps_w);
    const i64 down = r * z.dilation_h - z.padding_h, across = (tap - r * z.taps_w) * z.dilation_w - z.padding_w;
    const bool inside = c < z.channels;
    looks.offset[t] = inside ? (group * z.channels + c) * a.x_c + down * a.x_h + across * a.x_w : 0;
    looks.down[t] = inside ? (int)down : -(1 << 30);
    looks.across[t] = (int)across;
  }
}

// The numbers that a thread loads for one position: kRowsM rows of y and kRowsN elements of windows.
struct Loaded {
  f32 y[kRowsM], x[kRowsN];
};

EBB void load_position(const WeightGradientArgs& a, const Looks& looks, i64 group, i64 first_row, u32 position,
                       bool live, Loaded& to) {
  const Windows& z = a.windows;
  const int warp = threadIdx.x >> 5;
  const u32 line = position / (u32)z.columns, n = line / (u32)z.rows;
  const int q = (int)(position - line * (u32)z.columns), p = (int)(line - n * (u32)z.rows);
  const f32* const y = a.y + n * a.y_n + p * a.y_h + q * a.y_w;
#pragma unroll
  for (int i = 0; i < kRowsM; ++i) {
    const i64 row = first_row + warp + kLoaders * i;
    to.y[i] = live && row < a.outputs ? y[(group * a.outputs + row) * a.y_c] : 0.0f;
  }
  const int h = p * (int)z.stride_h, w = q * (int)z.stride_w;
  const f32* const x = a.x + n * a.x_n + h * a.x_h + w * a.x_w;
#pragma unroll
  for (int i = 0; i < kRowsN; ++i) {
    const int t = warp + kLoaders * i;
    const bool inside = live && (u32)(h + looks.down[t]) < (u32)z.height && (u32)(w + looks.across[t]) < (u32)z.width;
    to.x[i] = inside ? x[looks.offset[t]] : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) weight_gradient(const WeightGradientArgs a) {
  __shared__ Four ys[kGradientStep][kTileM / 4 + 1];  // positions begin four banks apart
  __shared__ Four xs[kGradientStep][kTileN / 4 + 1];
  __shared__ f32 sums[kTileM * kTileN];
  __shared__ Looks looks;
  const Windows& z = a.windows;
  const i64 of_n = quotient(blockIdx.x, a.tiles_n), first_column = (blockIdx.x - of_n * a.tiles_n) * kTileN;
  const i64 of_m = quotient(of_n, a.tiles_m), first_row = (of_n - of_m * a.tiles_m) * kTileM;
  const i64 part = quotient(of_m, z.groups), group = of_m - part * z.groups;
  const i64 begin = part * a.each, end = begin + a.each < a.positions ? begin + a.each : a.positions;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int own = threadIdx.x / kOfGroup, in_group = threadIdx.x % kOfGroup;
  const int row = in_group / (kTileN / kEachN) * kEachM, column = in_group % (kTileN / kEachN) * kEachN;
  look(a, group, first_column, looks);
  __syncthreads();

  f32 total[kEachM][kEachN];
#pragma unroll
  for (int i = 0; i < kEachM; ++i) {
#pragma unroll
    for (int j = 0; j < kEachN; ++j) total[i][j] = 0.0f;
  }
  Loaded next;
  load_position(a, looks, group, first_row, (u32)(begin + lane), begin + lane < end, next);
  for (i64 at = begin; at < end; at += kGradientStep) {
#pragma unroll
    for (int i = 0; i < kRowsM; ++i) ((f32*)ys[lane])[warp + kLoaders * i] = next.y[i];
#pragma unroll
    for (int i = 0; i < kRowsN; ++i) ((f32*)xs[lane])[warp + kLoaders * i] = next.x[i];
    __syncthreads();
    const i64 later = at + kGradientStep + lane;
    if (at + kGradientStep < end) load_position(a, looks, group, first_row, (u32)later, later < end, next);
#pragma unroll 4
    for (int s = own * kOfStep; s < (own + 1) * kOfStep; ++s) {
      Four u[kEachM / 4], v[kEachN / 4];
#pragma unroll
      for (int i = 0; i < kEachM / 4; ++i) u[i] = ys[s][row / 4 + i];
#pragma unroll
      for (int j = 0; j < kEachN / 4; ++j) v[j] = xs[s][column / 4 + j];
#pragma unroll
      for (int i = 0; i < kEachM; ++i) {
#pragma unroll
        for (int j = 0; j < kEachN; ++j) total[i][j] = fmaf(u[i / 4].v[i % 4], v[j / 4].v[j % 4], total[i][j]);
      }
    }
    __syncthreads();
  }

  // The groups' sums, one group after the other.
  for (int g = 0; g < kGroups; ++g) {
    if (g == own) {
#pragma unroll
      for (int i = 0; i < kEachM; ++i) {
#pragma unroll
        for (int j = 0; j < kEachN; ++j) {
          f32& sum = sums[(row + i) * kTileN + column + j];
          sum = g == 0 ? total[i][j] : sum + total[i][j];
        }
      }
    }
    __syncthreads();
  }
  const i64 depth = z.channels * z.taps_h * z.taps_w;
  f32* const to = a.parts + (part * z.groups + group) * a.outputs * depth;
  for (int e = threadIdx.x; e < kTileM * kTileN; e += kThreads) {
    const i64 k = first_row + e / kTileN, d = first_column + e % kTileN;
    if (k < a.outputs && d < depth) to[k * depth + d] = sums[e];
  }
}

// out[i] = the sum of parts[p, i] over p: a warp has 32 neighbours and an eighth of the parts, of which it loads
// several before it adds them, in order.
extern "C" __global__ void __launch_bounds__(kThreads) add_gradients(const AddGradientsArgs a) {
  constexpr int kLoads = 8;
  __shared__ f32 sums[kLoaders][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 each = quotient(a.count + kLoaders - 1, kLoaders), first = warp * each;
  const i64 last = first + each < a.count ? first + each : a.count;
  for (i64 i = (i64)blockIdx.x * 32 + lane; i - lane < a.n; i += (i64)gridDim.x * 32) {
    f32 sum = 0.0f;
    if (i < a.n) {
      for (i64 p = first; p < last; p += kLoads) {
        f32 x[kLoads];
#pragma unroll
        for (int k = 0; k < kLoads; ++k) x[k] = p + k < last ? a.parts[(p + k) * a.n + i] : 0.0f;
#pragma unroll
        for (int k = 0; k < kLoads; ++k) sum += x[k];
      }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && i < a.n) {
      for (int w = 1; w < kLoaders; ++w) sum += sums[w][lane];
      a.out[i] = sum;
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
