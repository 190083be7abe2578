// SPDX-License-Identifier: MIT
// Convolutions, and gradients of their images, without columns in memory: a thread has kChannels channels of kPositions
// positions of the result and walks over the taps and channels they read. Lanes are neighbours along a row, so that
// loads of a tap are those of the last one, moved by an element, and come from the level-1 cache. With strides,
// positions of a gradient have different taps: a block has positions of one class, which have the same.
#pragma once
#include "cuda/kernels/args/direct.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kChannels = 8, kPositions = 4, kDeep = 8;  // kDeep: channels of the source at a time
#endif

using Args = DirectArgs<T>;

constexpr int kStaged = 4096 / (kChannels * kDeep);  // taps at a time
constexpr int kAhead = kDeep < 4 ? kDeep : 4;        // channels whose loads are in flight

// The taps of a class along an axis: the first, how many, where it looks and by how much the next one looks further.
struct ClassTaps {
  int first, count, offset, step, positions;
};
EBB ClassTaps taps_of_class(const DirectAxis& s, int i) {
  const int up = (int)s.up;
  int first = 0;
  while (first < s.period && (i + s.padding - first * s.dilation) % up != 0) ++first;
  if (first == s.period) first = (int)s.taps;
  const int left = (int)s.taps - first, period = (int)s.period;
  const int looks = (int)(i + s.padding - first * s.dilation) / up;
  return {first, left > 0 ? (left + period - 1) / period : 0, (int)s.sign * looks,
          -(int)s.sign * (int)(s.dilation * s.period / up), ((int)s.result - i + up - 1) / up};
}

struct alignas(16) Four {
  f32 v[4];
};
EBB void read_weights(const f32* from, f32 (&w)[kChannels]) {
  if constexpr (kChannels % 4 == 0) {
#pragma unroll
    for (int c = 0; c < kChannels; c += 4) {
      const Four four = *(const Four*)(from + c);
#pragma unroll
      for (int k = 0; k < 4; ++k) w[c + k] = four.v[k];
    }
  } else {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) w[c] = from[c];
  }
}

// Blocks that read the same elements are neighbours: tiles of channels, then classes.
EBB void compute_block(const Args& a, i64 block, f32* ws) {
  i64 rest = block;
  const auto next = [&](i64 count) {
    const i64 whole = quotient(rest, count), own = rest - whole * count;
    rest = whole;
    return own;
  };
  const i64 first_to = next(a.tiles) * kChannels;
  const int column_class = (int)next(a.columns.up), row_class = (int)next(a.rows.up);
  const u32 first_position = (u32)next(a.blocks_of_positions) * (kThreads * kPositions) + threadIdx.x;
  const i64 group = rest;
  const ClassTaps down = taps_of_class(a.rows, row_class), across = taps_of_class(a.columns, column_class);
  const u32 positions = (u32)a.images * (u32)down.positions * (u32)across.positions;
  if (first_position - threadIdx.x >= positions) return;

  const T* const source = a.source + group * a.source_channels * a.source_c;
  const T* const weights = a.weights + group * a.weight_g + first_to * a.weight_to;
  u32 origin[kPositions];  // offsets into a channel of all images fit 32 bits
  int row[kPositions], column[kPositions];
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    const u32 position = first_position + i * kThreads, live = position < positions;
    const u32 line = (live ? position : 0) / (u32)across.positions, image = line / (u32)down.positions;
    row[i] = (int)(line - image * (u32)down.positions) * (int)a.rows.down;
    column[i] = (int)((live ? position : 0) - line * (u32)across.positions) * (int)a.columns.down;
    origin[i] = image * (u32)a.source_n + (u32)row[i] * (u32)a.source_h + (u32)column[i] * (u32)a.source_w;
    if (!live) row[i] = -(1 << 30);  // far outside
  }

  f32 sum[kChannels][kPositions];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) sum[c][i] = 0.0f;
  }
  const int taps = down.count * across.count;
  for (i64 first_from = 0; first_from < a.source_channels; first_from += kDeep) {
    const int left = a.source_channels - first_from < kDeep ? (int)(a.source_channels - first_from) : kDeep;
    for (int first_tap = 0; first_tap < taps; first_tap += kStaged) {
      const int count = taps - first_tap < kStaged ? taps - first_tap : kStaged;
      int r = first_tap / across.count, s = first_tap - r * across.count;
      for (int e = threadIdx.x; e < count * kDeep * kChannels; e += kThreads) {
        const int c = e % kChannels, k = e / kChannels % kDeep, tap = first_tap + e / (kChannels * kDeep);
        const int tap_r = tap / across.count, tap_s = tap - tap_r * across.count;
        const T* const w = weights + c * a.weight_to + (first_from + k) * a.weight_from +
                           (down.first + tap_r * a.rows.period) * a.weight_h +
                           (across.first + tap_s * a.columns.period) * a.weight_w;
        ws[e] = k < left && first_to + c < a.result_channels ? load(*w) : 0.0f;
      }
      __syncthreads();
#pragma unroll 1
      for (int t = 0; t < count; ++t) {
        const int h = down.offset + r * down.step, w = across.offset + s * across.step;
        const u32 moved = (u32)h * (u32)a.source_h + (u32)w * (u32)a.source_w;
        u32 offset[kPositions];
        bool inside[kPositions];
#pragma unroll
        for (int i = 0; i < kPositions; ++i) {
          offset[i] = origin[i] + moved;
          inside[i] = (u32)(row[i] + h) < (u32)a.rows.source && (u32)(column[i] + w) < (u32)a.columns.source;
        }
#pragma unroll
        for (int first = 0; first < kDeep; first += kAhead) {
          f32 x[kAhead][kPositions];
#pragma unroll
          for (int k = 0; k < kAhead; ++k) {
            const T* const channel = source + (first_from + first + k) * a.source_c;
#pragma unroll
            for (int i = 0; i < kPositions; ++i)
              x[k][i] = inside[i] && first + k < left ? load(channel[offset[i]]) : 0.0f;
          }
#pragma unroll
          for (int k = 0; k < kAhead; ++k) {
            f32 weight[kChannels];
            read_weights(ws + (t * kDeep + first + k) * kChannels, weight);
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
#pragma unroll
              for (int i = 0; i < kPositions; ++i) sum[c][i] = fmaf(x[k][i], weight[c], sum[c][i]);
            }
          }
        }
        if (++s == across.count) s = 0, ++r;
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    const u32 position = first_position + i * kThreads;
    if (position >= positions) break;
    const u32 line = position / (u32)across.positions, image = line / (u32)down.positions;
    const i64 h = (i64)(line - image * (u32)down.positions) * a.rows.up + row_class;
    const i64 w = (i64)(position - line * (u32)across.positions) * a.columns.up + column_class;
    const i64 channel = group * a.result_channels + first_to;
    T* const to = a.result + image * a.result_n + channel * a.result_c + h * a.result_h + w * a.result_w;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (first_to + c >= a.result_channels) break;
      to[c * a.result_c] = store(a.bias ? sum[c][i] + load(a.bias[(channel + c) * a.bias_step]) : sum[c][i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kChannels > 4 ? 2 : 3) direct_convolution(const Args a) {
  __shared__ Four staged[kStaged * kDeep * kChannels / 4];
  for (i64 block = blockIdx.x; block < a.blocks; block += gridDim.x) compute_block(a, block, (f32*)staged);
}

}  // namespace ebb::cuda
