// SPDX-License-Identifier: MIT
// Lines of a matrix as codes of eight bits with a scale each. Products of FP8 want both factors with their sum along
// memory: lines that lie side by side are turned while they are rounded.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fp8.cuh"

namespace ebb::cuda {

using Args = QuantizeArgs<T>;

EBB u32 magnitude(T x) { return __float_as_uint((f32)load(x)) & 0x7FFFFFFFu; }
EBB u32 most_of(u32 a, u32 b) { return a > b ? a : b; }

constexpr int kKept = 4;    // packs of a line that a thread keeps: lines of up to 8192 are read once
constexpr int kBeside = 4;  // loads on their way

EBB Pack<T, 8> pack_of(const Args& a, const T* line, i64 i, i64 k) {
  const i64 left = k - i;
  return load_pack<8>(line + i, a.aligned, left < 0 ? 0 : left < 8 ? (int)left : 8);
}
EBB u32 most_of(u32 most, const Pack<T, 8>& x) {
#pragma unroll
  for (int j = 0; j < 8; ++j) most = most_of(most, magnitude(x.at(j)));
  return most;
}
EBB void put_codes(u8* to, const Pack<T, 8>& x, f32 down) {
  Words2 codes;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    codes.x[h] = codes_of((f32)load(x.at(4 * h)) * down, (f32)load(x.at(4 * h + 1)) * down,
                          (f32)load(x.at(4 * h + 2)) * down, (f32)load(x.at(4 * h + 3)) * down);
  *(Words2*)to = codes;
}

// A block per line, whose elements are neighbours.
extern "C" __global__ void __launch_bounds__(kThreads) quantize_rows(const Args a) {
  __shared__ u32 parts[kThreads];
  constexpr i64 kStride = kThreads * 8;
  for (i64 line = blockIdx.x; line < a.lines_room; line += gridDim.x) {
    const T* const from = a.x + line * a.step;
    u8* const to = a.codes + line * a.room;
    const i64 k = line < a.lines ? a.k : 0, first = threadIdx.x * 8;
    Pack<T, 8> kept[kKept];
#pragma unroll
    for (int s = 0; s < kKept; ++s) kept[s] = pack_of(a, from, first + s * kStride, k);
    u32 most = 0;
#pragma unroll
    for (int s = 0; s < kKept; ++s) most = most_of(most, kept[s]);
    for (i64 i = first + kKept * kStride; i < k; i += kStride) most = most_of(most, pack_of(a, from, i, k));
    parts[threadIdx.x] = most;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) most = most_of(most, parts[warp * 32 + (threadIdx.x & 31)]);
    __syncthreads();
#pragma unroll
    for (int distance = 16; distance; distance >>= 1)
      most = most_of(most, __shfl_xor_sync(0xffffffffu, most, distance));
    if (threadIdx.x == 0) a.scales[line] = scale_of(most);
    const f32 down = inverse_scale_of(most);
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      if (first + s * kStride < a.room) put_codes(to + first + s * kStride, kept[s], down);
    }
    for (i64 i = first + kKept * kStride; i < a.room; i += kStride) put_codes(to + i, pack_of(a, from, i, k), down);
  }
}

// Lines side by side. The largest magnitudes; a.most holds zeros before.
extern "C" __global__ void __launch_bounds__(kThreads) largest_of_columns(const Args a) {
  __shared__ u32 parts[kThreads / 32][kAmaxLines];
  const i64 across = (a.lines + kAmaxLines - 1) / kAmaxLines, down = (a.k + kAmaxDepth - 1) / kAmaxDepth;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (i64 tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    const i64 first = tile % across * kAmaxLines, begin = tile / across * kAmaxDepth;
    const i64 end = begin + kAmaxDepth < a.k ? begin + kAmaxDepth : a.k;
    const i64 line = first + lane * 8, left = a.lines - line;
    const int live = left < 0 ? 0 : left < 8 ? (int)left : 8;
    u32 most[8] = {};
    for (i64 i = begin + warp; i < end; i += kBeside * (kThreads / 32)) {
      Pack<T, 8> x[kBeside];
#pragma unroll
      for (int u = 0; u < kBeside; ++u) {
        const i64 at = i + u * (kThreads / 32);
        x[u] = load_pack<8>(a.x + at * a.step + line, a.aligned, at < end ? live : 0);
      }
#pragma unroll
      for (int u = 0; u < kBeside; ++u) {
#pragma unroll
        for (int j = 0; j < 8; ++j) most[j] = most_of(most[j], magnitude(x[u].at(j)));
      }
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) parts[warp][j * 32 + lane] = most[j];
    __syncthreads();
    u32 all = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) all = most_of(all, parts[w][threadIdx.x]);
    const i64 mine = first + (threadIdx.x & 31) * 8 + (threadIdx.x >> 5);
    if (mine < a.lines) atomicMax(a.most + mine, all);
    __syncthreads();
  }
}

// And their codes, a tile turned in shared memory at a time. A thread has four neighbours of eight lines.
extern "C" __global__ void __launch_bounds__(kThreads) quantize_columns(const Args a) {
  __shared__ u32 tile[kTurnedLines][kTurnedDepth / 4 + 1];
  const i64 across = (a.lines_room + kTurnedLines - 1) / kTurnedLines,
            down = (a.room + kTurnedDepth - 1) / kTurnedDepth;
  const int beside = threadIdx.x & 7, deep = threadIdx.x >> 3;
  for (i64 t = blockIdx.x; t < across * down; t += gridDim.x) {
    const i64 first = t % across * kTurnedLines, begin = t / across * kTurnedDepth;
    const i64 line = first + beside * 8, left = a.lines - line;
    const int live = left < 0 ? 0 : left < 8 ? (int)left : 8;
    f32 scale[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const u32 most = j < live ? a.most[line + j] : 0u;
      scale[j] = inverse_scale_of(most);
      if (begin == 0 && deep == 0 && line + j < a.lines_room) a.scales[line + j] = scale_of(most);
    }
    Pack<T, 8> x[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const i64 i = begin + deep * 4 + r;
      x[r] = load_pack<8>(a.x + i * a.step + line, a.aligned, i < a.k ? live : 0);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
      tile[beside * 8 + j][deep] = codes_of((f32)load(x[0].at(j)) * scale[j], (f32)load(x[1].at(j)) * scale[j],
                                            (f32)load(x[2].at(j)) * scale[j], (f32)load(x[3].at(j)) * scale[j]);
    __syncthreads();
#pragma unroll
    for (int part = 0; part < kTurnedLines * kTurnedDepth / 16 / kThreads; ++part) {
      const int at = part * kThreads + threadIdx.x, l = at / (kTurnedDepth / 16), w = at % (kTurnedDepth / 16);
      const i64 i = begin + w * 16;
      const u32* const from = &tile[l][w * 4];
      if (first + l < a.lines_room && i < a.room)
        store16(a.codes + (first + l) * a.room + i, from[0], from[1], from[2], from[3]);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
