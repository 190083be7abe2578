// SPDX-License-Identifier: MIT
// index_zero_add: tokens are sorted by their rows, and those of a row are added in order. A row belongs to a group of
// lanes, each with some packs of its columns; of rows with many tokens every thread has one column, and more loads in
// flight.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef f32 S;  // of sums
EBB S plus(S total, T x) { return total + (S)load(x); }
constexpr int kPacks = 4, kEach = 8;
constexpr bool kWide = true;
EBB void narrow(Pack<T, kEach>& to, int j, S x) { to.set_bf16(j, x); }
#endif

using Args = AddRowsArgs<T, I>;

extern "C" __global__ void __launch_bounds__(kThreads) find_rows(const Args a) {
  EACH(p, a.tokens) {
    const auto row_of = [&](i64 q) { return (i64)a.index[a.order[q] * a.index_step]; };
    const i64 row = row_of(p);
    if ((u64)row >= (u64)a.size) {
      complain(a.complaints, a.order[p], 0, bits_of(row));
      continue;
    }
    if (p == 0 || row_of(p - 1) != row) {
      a.ranges[row].begin = p;
      if (p + kManyTokens < a.tokens && row_of(p + kManyTokens) == row) a.many[atomicAdd(a.many_rows, 1u)] = row;
    }
    if (p + 1 == a.tokens || row_of(p + 1) != row) a.ranges[row].end = p + 1;
  }
}
EBB void add_many(const Args& a) {
  const i64 rows = *a.many_rows;
  for (i64 i = (i64)blockIdx.x * kThreads + threadIdx.x; i < a.outer * rows * a.inner; i += a.many_blocks * kThreads) {
    const i64 line = quotient(i, a.inner), outer = quotient(line, rows), row = a.many[line - outer * rows];
    const T* const g = a.g + outer * a.tokens * a.inner + (i - line * a.inner);
    const TokenRange range = a.ranges[row];
    S total = 0;
    for (i64 p = range.begin; p < range.end; p += kManyTokens) {  // so many loads in flight, added in order
      T part[kManyTokens];
#pragma unroll
      for (int k = 0; k < kManyTokens; ++k) {
        if (p + k < range.end) part[k] = g[a.order[p + k] * a.inner];
      }
#pragma unroll
      for (int k = 0; k < kManyTokens; ++k) {
        if (p + k < range.end) total = plus(total, part[k]);
      }
    }
    a.out[(outer * a.size + row) * a.inner + (i - line * a.inner)] = store((A)total);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) add_rows(const Args a) {
  if (blockIdx.x < a.many_blocks) return add_many(a);
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
        const T* const from = g + a.order[p + t] * a.inner;
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
