// SPDX-License-Identifier: MIT
// index_zero_add: tokens are sorted by their rows, and those of a row are added in order. A row belongs to a group of
// lanes, each with some packs of its columns, or to a thread per column where rows are short; of rows with many tokens
// every thread has one column, and more loads in flight. Rows of very many are divided into segments, whose sums are
// added in order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i32 R;  // of rows
typedef f32 S;  // of sums
EBB S plus(S total, T x) { return total + (S)load(x); }
constexpr int kPacks = 4, kEach = 8;
constexpr bool kWide = true;
EBB void narrow(Pack<T, kEach>& to, int j, S x) { to.set_bf16(j, x); }
#endif

using Args = AddRowsArgs<T, R, S>;

EBB i64 row_of(const Args& a, i64 p) { return a.rows[p]; }
EBB i64 token_at(const Args& a, i64 p) { return a.order ? a.order[p] : p; }

// The segments of a row that begins at p. Where in the list they are depends on who comes first, but nothing else does.
EBB void divide_row(const Args& a, i64 row, i64 p) {
  i64 end = p + kManyTokens + 1, left = a.tokens - end;
  while (left > 0) {  // behind the last of its tokens
    const i64 half = left >> 1;
    if (row_of(a, end + half) == row) {
      end += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  const u32 count = (u32)((end - p + kSegmentTokens - 1) / kSegmentTokens);
  const i64 first = atomicAdd(&a.counters->segments, count);
  const i64 part = count > 1 ? (i64)atomicAdd(&a.counters->parts, count) : -1;
  if (count > 1) a.divided[atomicAdd(&a.counters->divided, 1u)] = DividedRow{row, part, (i64)count, 0};
  for (i64 s = 0; s < count; ++s) {
    const i64 begin = p + s * kSegmentTokens;
    a.segments[first + s] =
        RowSegment{row, begin, begin + kSegmentTokens < end ? begin + kSegmentTokens : end, part < 0 ? part : part + s};
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) find_rows(const Args a) {
  EACH(p, a.tokens) {
    const i64 row = row_of(a, p);
    if (p == 0 || row_of(a, p - 1) != row) {
      if (a.ranges) a.ranges[row].begin = p;
      if (p + kManyTokens < a.tokens && row_of(a, p + kManyTokens) == row) divide_row(a, row, p);
    }
    if (a.ranges && (p + 1 == a.tokens || row_of(a, p + 1) != row)) a.ranges[row].end = p + 1;
  }
}

EBB void add_segments(const Args& a) {
  const i64 segments = a.counters->segments;
  for (i64 i = (i64)blockIdx.x * kThreads + threadIdx.x; i < a.outer * segments * a.inner;
       i += a.many_blocks * kThreads) {
    const i64 line = quotient(i, a.inner), outer = quotient(line, segments), column = i - line * a.inner;
    const RowSegment segment = a.segments[line - outer * segments];
    const T* const g = a.g + outer * a.tokens * a.inner + column;
    S total = 0;
    for (i64 p = segment.begin; p < segment.end; p += kManyTokens) {  // so many loads in flight, added in order
      T part[kManyTokens];
#pragma unroll
      for (int k = 0; k < kManyTokens; ++k) {
        if (p + k < segment.end) part[k] = g[token_at(a, p + k) * a.inner];
      }
#pragma unroll
      for (int k = 0; k < kManyTokens; ++k) {
        if (p + k < segment.end) total = plus(total, part[k]);
      }
    }
    if (segment.part < 0) {
      a.out[(outer * a.size + segment.row) * a.inner + column] = store((A)total);
    } else {
      a.parts[(segment.part * a.outer + outer) * a.inner + column] = total;
    }
  }
}
// Short rows: a thread per token and column; the first of a row's tokens adds all of them.
extern "C" __global__ void __launch_bounds__(kThreads) add_runs(const Args a) {
  if (blockIdx.x < a.many_blocks) return add_segments(a);
  const i64 width = a.outer * a.inner;
  for (i64 i = (blockIdx.x - a.many_blocks) * kThreads + threadIdx.x; i < a.tokens * width;
       i += (gridDim.x - a.many_blocks) * kThreads) {
    const i64 p = width == 1 ? i : quotient(i, width), row = row_of(a, p);
    if (p > 0 && row_of(a, p - 1) == row) continue;
    if (p + kManyTokens < a.tokens && row_of(a, p + kManyTokens) == row) continue;
    const i64 e = i - p * width, outer = a.outer == 1 ? 0 : quotient(e, a.inner), column = e - outer * a.inner;
    const T* const g = a.g + outer * a.tokens * a.inner + column;
    S total = 0;
    for (i64 q = p; q < a.tokens && row_of(a, q) == row; ++q) total = plus(total, g[token_at(a, q) * a.inner]);
    a.out[(outer * a.size + row) * a.inner + column] = store((A)total);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) add_divided_rows(const Args a) {
  const i64 rows = a.counters->divided, width = a.outer * a.inner;
  EACH(i, rows * width) {
    const i64 which = quotient(i, width), e = i - which * width, outer = quotient(e, a.inner);
    const DividedRow row = a.divided[which];
    const S* const parts = a.parts + row.part * width + e;
    S total = parts[0];
#pragma unroll 16
    for (i64 p = 1; p < row.parts; ++p) total += parts[p * width];
    a.out[(outer * a.size + row.row) * a.inner + (e - outer * a.inner)] = store((A)total);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) add_rows(const Args a) {
  if (blockIdx.x < a.many_blocks) return add_segments(a);
  typedef Pack<T, kEach> Columns;
  constexpr int kAhead = kPacks > 2 ? 2 : 4;  // tokens
  const int lanes = 1 << a.lane_bits;
  const i64 threads = a.outer * a.size * a.tiles << a.lane_bits;
  for (i64 i = (blockIdx.x - a.many_blocks) * kThreads + threadIdx.x; i < threads;
       i += (gridDim.x - a.many_blocks) * kThreads) {
    const i64 task = i >> a.lane_bits, line = a.tiles == 1 ? task : quotient(task, a.tiles);
    const i64 outer = a.outer == 1 ? 0 : quotient(line, a.size);
    const TokenRange range = a.ranges[line - outer * a.size];
    if (range.end - range.begin > kManyTokens) continue;
    const i64 first = ((task - line * a.tiles) * kPacks * lanes + (threadIdx.x & (lanes - 1))) * kEach;
    const auto at_pack = [&](int k) { return first + k * lanes * kEach; };
    T* const to = a.out + line * a.inner;
    if (range.begin == range.end) {
      Columns zeros;
#pragma unroll
      for (int k = 0; k < (int)(sizeof(zeros.w) / 4); ++k) zeros.w[k] = 0;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (at_pack(k) < a.inner) store_pack<kEach>(to + at_pack(k), zeros, kWide, kEach, false);
      }
      continue;
    }
    const T* const g = a.g + outer * a.tokens * a.inner;
    S total[kPacks][kEach];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) total[k][j] = 0;
    }
    for (i64 p = range.begin; p < range.end; p += kAhead) {
      Columns part[kAhead][kPacks];
#pragma unroll
      for (int t = 0; t < kAhead; ++t) {
        if (p + t >= range.end) continue;
        const T* const from = g + token_at(a, p + t) * a.inner;
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          if (at_pack(k) < a.inner) part[t][k] = load_pack<kEach>(from + at_pack(k), kWide, kEach);
        }
      }
#pragma unroll
      for (int t = 0; t < kAhead; ++t) {
        if (p + t >= range.end) continue;
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) total[k][j] = plus(total[k][j], part[t][k].at(j));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      Columns sums;
#pragma unroll
      for (int j = 0; j < kEach; ++j) narrow(sums, j, total[k][j]);
      if (at_pack(k) < a.inner) store_pack<kEach>(to + at_pack(k), sums, kWide, kEach, false);
    }
  }
}

}  // namespace ebb::cuda
