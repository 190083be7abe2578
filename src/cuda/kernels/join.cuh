// SPDX-License-Identifier: MIT
// cat and pad_zero: rows of a dense result, each made of parts, are written in words of 16 bytes. Copying one part
// after the other would write lines of a few elements, whose neighbours come with another launch.
#pragma once
#include "cuda/kernels/args/join.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 T;
constexpr int kMost = 2;  // parts there can be
#endif

using Args = JoinArgs<kMost>;

EBB i64 divided(const Args& a, i64 i, i64 by, u32 factor, u32 shift) {
  if (by == 1) return i;
  return a.n >> 31 == 0 ? (i64)divided_by((u32)i, factor, shift) : quotient(i, by);
}
EBB int part_of(const Args& a, i64 column) {
  int k = 0;
#pragma unroll
  for (int q = 1; q < kMost; ++q) k += q < a.count && column >= a.of[q].first;
  return k;
}
// Where column c of the part's own lies.
EBB const T* place(const Args& a, const JoinPart& p, i64 row, i64 c) {
  const T* const from = (const T*)p.data + row * p.row;
  if (!p.lines) return from + c * p.column;
  const i64 line = divided(a, c, a.inner, a.by_inner, a.of_inner);
  return from + line * p.axis + (c - line * a.inner) * p.column;
}

// A part among zeros.
struct OnlyPart {
  const T* data;
  i64 first, end, row, column;
};
// The only one with data, and rows that are even steps; without data: there are others.
EBB OnlyPart only_part(const Args& a) {
  OnlyPart only{nullptr, 0, 0, 0, 0};
  int parts = 0;
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    const JoinPart& p = a.of[k];
    if (k >= a.count || !p.data) continue;
    parts += p.lines ? 2 : 1;
    only = {(const T*)p.data, p.first,
            k + 1 < kMost && k + 1 < a.count ? a.of[k + 1 < kMost ? k + 1 : k].first : a.columns, p.row, p.column};
  }
  if (parts != 1) only.data = nullptr;
  return only;
}
// Its elements where they begin and end within the pack.
template <int kEach>
EBB void pad_pack(const Args& a, const OnlyPart& p, i64 row, i64 column, int live, Pack<T, kEach>& y) {
  const i64 wrap = p.row - a.columns * p.column;
  const T* at = p.data + row * p.row + (column - p.first) * p.column;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    y.set(j, j < live && column >= p.first && column < p.end ? *at : T{});
    at += p.column;
    if (++column == a.columns) column = 0, at += wrap;
  }
}

template <int kEach>
EBB void write_pack(const Args& a, i64 i) {
  const i64 first = i * kEach;
  i64 row = divided(a, first, a.columns, a.by_columns, a.of_columns), column = first - row * a.columns;
  T* const to = (T*)a.out + first;
  const int whose = part_of(a, column);
  const JoinPart& p = a.of[whose];
  if constexpr (kEach == 1) {
    put(to, p.data ? *place(a, p, row, column - p.first) : T{});
  } else {
    const int live = a.n - first < kEach ? (int)(a.n - first) : kEach;
    const i64 end = whose + 1 < a.count ? a.of[whose + 1].first : a.columns;
    Pack<T, kEach> y;
    if (live == kEach && column + kEach <= end && (!p.data || (p.column == 1 && !p.lines))) {
      if (p.data) {
        y = load_shifted<kEach>(place(a, p, row, column - p.first));
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) y.w[k] = 0;
      }
    } else if (const OnlyPart only = only_part(a); only.data) {
      pad_pack<kEach>(a, only, row, column, live, y);
    } else {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const JoinPart& q = a.of[part_of(a, column)];
        y.set(j, j < live && q.data ? *place(a, q, row, column - q.first) : T{});
        if (++column == a.columns) {
          column = 0;
          ++row;
        }
      }
    }
    store_pack<kEach>(to, y, a.aligned, live, false);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) join(const Args a) {
  constexpr int kEach = 16 / sizeof(T);
  EACH(i, (a.n + kEach - 1) / kEach) write_pack<kEach>(a, i);
}

}  // namespace ebb::cuda
