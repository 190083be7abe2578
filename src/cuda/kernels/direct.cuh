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

constexpr int kPitch = kChannels == 1 ? 1 : (kChannels + 3) / 4 * 4;  // of weights in shared memory
constexpr int kStaged = 4096 / (kPitch * kDeep);                      // taps at a time
// Loads in flight: of channels, or of taps where there is one channel.
constexpr int kAhead = kDeep < 4 ? kDeep : 4, kTapsAhead = kDeep == 1 ? 3 : 1;

// The taps of a class along an axis: the first, how many, where it looks and by how much the next one looks further.
struct ClassTaps {
  int first, count, offset, step, positions;
};
EBB ClassTaps taps_of_class(const DirectAxis& s, int i) {
  const int up = (int)s.up, taps = (int)s.taps, period = (int)s.period, dilation = (int)s.dilation;
  const int begin = i + (int)s.padding, sign = (int)s.sign;
  int first = 0;
  while (first < period && up > 1 && (begin - first * dilation) % up != 0) ++first;
  if (first == period) first = taps;
  const int left = taps - first;
  return {first, left > 0 ? (left + period - 1) / period : 0, sign * ((begin - first * dilation) / up),
          -sign * (dilation * period / up), ((int)s.result - i + up - 1) / up};
}

struct alignas(16) Four {
  f32 v[4];
};
EBB void read_weights(const f32* from, f32 (&w)[kPitch]) {
  if constexpr (kChannels == 1) {
    w[0] = *from;
  } else {
#pragma unroll
    for (int c = 0; c < kPitch; c += 4) {
      const Four four = *(const Four*)(from + c);
#pragma unroll
      for (int k = 0; k < 4; ++k) w[c + k] = four.v[k];
    }
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
  // Positions beyond the last one are computed like it, and not stored.
  u32 origin[kPositions], image[kPositions];  // offsets into a channel of all images fit 32 bits
  int row[kPositions], column[kPositions];
  const int down_step = (int)a.rows.down, across_step = (int)a.columns.down;
#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    const u32 wanted = first_position + i * kThreads, position = wanted < positions ? wanted : positions - 1;
    const u32 line = position / (u32)across.positions;
    image[i] = line / (u32)down.positions;
    row[i] = (int)(line - image[i] * (u32)down.positions);
    column[i] = (int)(position - line * (u32)across.positions);
    origin[i] = image[i] * (u32)a.source_n + (u32)(row[i] * down_step) * (u32)a.source_h +
                (u32)(column[i] * across_step) * (u32)a.source_w;
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
      for (int e = threadIdx.x; e < count * kDeep * kPitch; e += kThreads) {
        const int c = e % kPitch, k = e / kPitch % kDeep, tap = first_tap + e / (kPitch * kDeep);
        const int tap_r = tap / across.count, tap_s = tap - tap_r * across.count;
        const T* const w = weights + c * a.weight_to + (first_from + k) * a.weight_from +
                           (down.first + tap_r * a.rows.period) * a.weight_h +
                           (across.first + tap_s * a.columns.period) * a.weight_w;
        ws[e] = k < left && c < kChannels && first_to + c < a.result_channels ? load(*w) : 0.0f;
      }
      __syncthreads();
#pragma unroll 1
      for (int t = 0; t < count; t += kTapsAhead) {
        u32 offset[kTapsAhead][kPositions];
        bool inside[kTapsAhead][kPositions];
#pragma unroll
        for (int u = 0; u < kTapsAhead; ++u) {
          const int h = down.offset + r * down.step, w = across.offset + s * across.step;
          const u32 moved = (u32)h * (u32)a.source_h + (u32)w * (u32)a.source_w;
          const bool live = kTapsAhead == 1 || t + u < count;
#pragma unroll
          for (int i = 0; i < kPositions; ++i) {
            offset[u][i] = origin[i] + moved;
            inside[u][i] = live && (u32)(row[i] * down_step + h) < (u32)a.rows.source &&
                           (u32)(column[i] * across_step + w) < (u32)a.columns.source;
          }
          if (++s == across.count) s = 0, ++r;
        }
#pragma unroll
        for (int first = 0; first < kDeep; first += kAhead) {
          f32 x[kTapsAhead][kAhead][kPositions];
#pragma unroll
          for (int u = 0; u < kTapsAhead; ++u) {
#pragma unroll
            for (int k = 0; k < kAhead; ++k) {
              const T* const channel = source + (first_from + first + k) * a.source_c;
#pragma unroll
              for (int i = 0; i < kPositions; ++i)
                x[u][k][i] = inside[u][i] && first + k < left ? load(channel[offset[u][i]]) : 0.0f;
            }
          }
#pragma unroll
          for (int u = 0; u < kTapsAhead; ++u) {
            if (kTapsAhead > 1 && t + u >= count) break;  // its weights were not staged
#pragma unroll
            for (int k = 0; k < kAhead; ++k) {
              f32 weight[kPitch];
              read_weights(ws + ((t + u) * kDeep + first + k) * kPitch, weight);
#pragma unroll
              for (int c = 0; c < kChannels; ++c) {
#pragma unroll
                for (int i = 0; i < kPositions; ++i) sum[c][i] = fmaf(x[u][k][i], weight[c], sum[c][i]);
              }
            }
          }
        }
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int i = 0; i < kPositions; ++i) {
    if (first_position + i * kThreads >= positions) break;
    const i64 h = (i64)row[i] * a.rows.up + row_class, w = (i64)column[i] * a.columns.up + column_class;
    const i64 channel = group * a.result_channels + first_to;
    T* const to = a.result + image[i] * a.result_n + channel * a.result_c + h * a.result_h + w * a.result_w;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (first_to + c >= a.result_channels) break;
      to[c * a.result_c] = store(a.bias ? sum[c][i] + load(a.bias[(channel + c) * a.bias_step]) : sum[c][i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kChannels > 4 ? 2 : 3) direct_convolution(const Args a) {
  __shared__ Four staged[kStaged * kDeep * kPitch / 4];
  for (i64 block = blockIdx.x; block < a.blocks; block += gridDim.x) compute_block(a, block, (f32*)staged);
}

}  // namespace ebb::cuda
