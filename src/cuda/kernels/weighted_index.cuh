// SPDX-License-Identifier: MIT
// weighted_gather, weighted_scatter and gather_dot: see ops/index_nodes.h. The entries that go to one element are added
// in the order of the index, which all rows of an image share.
#pragma once
#include "cuda/kernels/args/weighted_index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i32 K;
#endif

using Args = WeightedArgs<T, A, K>;
constexpr int kRows = kWeightedRows;

EBB bool is_outside(const Args& a, i64 where) { return (u64)(where + 1) > (u64)a.size; }

// Some rows of an image, and one element of each: of y, or of x.
struct RowsAt {
  i64 image, first, place;
};
EBB RowsAt rows_at(i64 i, i64 rows, i64 length) {
  const i64 groups = (rows + kRows - 1) / kRows, task = quotient(i, length), image = quotient(task, groups);
  return {image, (task - image * groups) * kRows, i - task * length};
}

extern "C" __global__ void __launch_bounds__(kThreads) weighted_gather(const Args a) {
  EACH(i, a.images * ((a.rows + kRows - 1) / kRows) * a.points) {
    const RowsAt to = rows_at(i, a.rows, a.points);
    const i64 entry = (to.image * a.points + to.place) * a.taps, row = to.image * a.rows + to.first;
    const int live = (int)(a.rows - to.first < kRows ? a.rows - to.first : kRows);
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    for (i64 k = 0; k < a.taps; ++k) {
      const i64 where = a.index[entry + k];
      const A weight = a.weight[entry + k];
      if (is_outside(a, where)) {
        if (to.first == 0) complain(a.complaints, entry + k, 0, bits_of(where));
        continue;
      }
      const T* const from = a.x + row * a.size + where;
      A x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = where >= 0 && r < live ? load(from[r * a.size]) : (A)0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] += weight * x[r];
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < live) a.y[(row + r) * a.points + to.place] = store(sum[r]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) make_keys(const Args a) {
  EACH(i, a.images * a.points * a.taps) {
    const i64 where = a.index[i];
    if (is_outside(a, where)) complain(a.complaints, i, 0, bits_of(where));
    a.keys[i] = (K)((u64)where < (u64)a.size ? where : a.size);
  }
}

// By bisection: an image whose entries all go to one element takes no longer.
extern "C" __global__ void __launch_bounds__(kThreads) find_entries(const Args a) {
  const i64 entries = a.points * a.taps;
  EACH(i, a.images * a.size) {
    const i64 image = quotient(i, a.size), element = i - image * a.size;
    const K* const keys = a.keys + image * entries;
    const i64* const order = a.order + image * entries;
    const auto before = [&](i64 key) {
      i64 low = 0, high = entries;
      while (low < high) {
        const i64 middle = (low + high) / 2;
        if ((i64)keys[order[middle]] < key) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    TokenRange range;
    range.begin = before(element);
    range.end = before(element + 1);
    a.ranges[i] = range;
    if (range.end - range.begin > kManyEntries) a.many[atomicAdd(a.many_count, 1u)] = i;
  }
}

// sum += the entries begin, begin + step, ... of an image's rows.
EBB void add_entries(const Args& a, i64 image, i64 row, int live, i64 begin, i64 end, int step, A (&sum)[kRows]) {
  const i64 entries = image * a.points * a.taps;
  for (i64 p = begin; p < end; p += step) {
    const i64 entry = a.order[entries + p];
    const A weight = a.weight[entries + entry];
    const T* const from = a.y + row * a.points + quotient(entry, a.taps);
    A y[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) y[r] = r < live ? load(from[r * a.points]) : (A)0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] += weight * y[r];
  }
}
EBB void put_sums(const Args& a, i64 row, int live, i64 place, const A (&sum)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r < live) a.x[(row + r) * a.size + place] = store(sum[r]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) weighted_scatter(const Args a) {
  EACH(i, a.images * ((a.rows + kRows - 1) / kRows) * a.size) {
    const RowsAt to = rows_at(i, a.rows, a.size);
    const TokenRange range = a.ranges[to.image * a.size + to.place];
    if (range.end - range.begin > kManyEntries) continue;
    const i64 row = to.image * a.rows + to.first;
    const int live = (int)(a.rows - to.first < kRows ? a.rows - to.first : kRows);
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    add_entries(a, to.image, row, live, range.begin, range.end, 1, sum);
    put_sums(a, row, live, to.place, sum);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) scatter_many(const Args a) {
  const i64 groups = (a.rows + kRows - 1) / kRows, tasks = *a.many_count * groups;
  const int lane = threadIdx.x & 31;
  const i64 warps = (i64)gridDim.x * (kThreads / 32);
  for (i64 task = (i64)blockIdx.x * (kThreads / 32) + (threadIdx.x >> 5); task < tasks; task += warps) {
    const i64 which = quotient(task, groups), first = (task - which * groups) * kRows, to = a.many[which];
    const i64 image = quotient(to, a.size), row = image * a.rows + first;
    const TokenRange range = a.ranges[to];
    const int live = (int)(a.rows - first < kRows ? a.rows - first : kRows);
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    add_entries(a, image, row, live, range.begin + lane, range.end, 32, sum);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], d);
    }
    if (lane == 0) put_sums(a, row, live, to - image * a.size, sum);
  }
}

// Neighbours are entries of a point, which often look at neighbours.
extern "C" __global__ void __launch_bounds__(kThreads) gather_dot(const Args a) {
  EACH(i, a.images * a.points * a.taps) {
    const i64 point = quotient(i, a.taps), image = quotient(point, a.points), where = a.index[i];
    if (is_outside(a, where)) {
      complain(a.complaints, i, 0, bits_of(where));
      continue;
    }
    const T* const x = a.x + image * a.rows * a.size + where;
    const T* const y = a.y + image * a.rows * a.points + (point - image * a.points);
    A sum = 0;
#pragma unroll 8
    for (i64 r = 0; r < a.rows; ++r) sum += load(y[r * a.points]) * (where >= 0 ? load(x[r * a.size]) : (A)0);
    a.weight[i] = sum;
  }
}

}  // namespace ebb::cuda
