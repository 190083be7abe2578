// SPDX-License-Identifier: MIT
// scatter, and sums of integers or of one element each: a thread per element of the index, in any order. Which of
// several elements is the last for a place is found first, by its position; sums of integers have no order.
#pragma once
#include "cuda/kernels/parts/scatter_places.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u32 T;  // of src and out
typedef u32 P;  // of positions
#endif

using Args = ScatterElementsArgs<T, P>;

// Where few places of a large output are written: only those begin with zeros.
extern "C" __global__ void __launch_bounds__(kThreads) clear_last(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i, false);
    if (to >= 0) a.last[to] = 0;
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) find_last(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) atomicMax(a.last + to, (P)(i + 1));
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) put_last(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i, false);
    if (to >= 0 && a.last[to] == (P)(i + 1)) ((T*)a.out.data)[to] = ((const T*)a.src.data)[at(a.src, i)];
  }
}

// A position and, below it, the bits of its element: one number of 64 bits, and nothing is looked up again.
extern "C" __global__ void __launch_bounds__(kThreads) find_last_value(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) atomicMax((u64*)a.last + to, (u64)(i + 1) << 32 | (u64)((const T*)a.src.data)[at(a.src, i)]);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) put_last_values(const PutValuesArgs<T> a) {
  EACH(i, a.base.n) {
    const u64 last = a.last[i];
    a.out[i] = last ? (T)last : ((const T*)a.base.data)[at(a.base, i)];
  }
}

// Where no two elements go to one place.
extern "C" __global__ void __launch_bounds__(kThreads) put_elements(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) ((T*)a.out.data)[to] = ((const T*)a.src.data)[at(a.src, i)];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) add_integers(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) atomicAdd((P*)a.out.data + to, ((const P*)a.src.data)[at(a.src, i)]);
  }
}

// The whole output in shared memory, `copies` of each sum side by side, which lanes choose among. Shared memory adds
// words of 32 bits: longer numbers are two of them, and the upper one seldom changes.
EBB void add_to_table(u32* table, i64 sums, i64 at, u32 x) { atomicAdd(table + at, x); }
EBB void add_to_table(u32* table, i64 sums, i64 at, u64 x) {
  const u32 low = (u32)x, before = atomicAdd(table + at, low);
  const u32 high = (u32)(x >> 32) + (before + low < before);
  if (high) atomicAdd(table + sums + at, high);
}
EBB u32 sum_of_table(const u32* table, i64, i64 at, u32) { return table[at]; }
EBB u64 sum_of_table(const u32* table, i64 sums, i64 at, u64) { return (u64)table[sums + at] << 32 | table[at]; }

extern "C" __global__ void __launch_bounds__(kThreads) add_integers_in_shared(const Args a) {
  constexpr int kAhead = sizeof(P) == 4 ? 8 : 4;  // loads in flight
  DYNAMIC_SHARED(smem);
  u32* const table = (u32*)smem;
  const i64 n = a.index.n, sums = a.sums * a.copies, copy = threadIdx.x & (a.copies - 1);
  for (i64 i = threadIdx.x; i < sums * (i64)(sizeof(P) / 4); i += kThreads) table[i] = 0;
  __syncthreads();
  for (i64 first = (i64)blockIdx.x * kThreads * kAhead + threadIdx.x; first < n;
       first += (i64)gridDim.x * kThreads * kAhead) {
    i64 where[kAhead];
    P x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 i = first + k * kThreads;
      where[k] = i < n ? (i64)((const I*)a.index.data)[at(a.index, i)] : 0;
      x[k] = i < n ? ((const P*)a.src.data)[at(a.src, i)] : (P)0;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 i = first + k * kThreads;
      if (i >= n) break;
      if ((u64)where[k] < (u64)a.size) {
        add_to_table(table, sums, (at(a.out, i) + where[k] * a.out_step) * a.copies + copy, x[k]);
      } else {
        complain_of(a, i, where[k]);
      }
    }
  }
  __syncthreads();
  for (i64 i = threadIdx.x; i < a.sums; i += kThreads) {
    P total = 0;
    for (i64 k = 0; k < a.copies; ++k) total += sum_of_table(table, sums, i * a.copies + k, (P)0);
    if (total) atomicAdd((P*)a.out.data + i, total);
  }
}

}  // namespace ebb::cuda
