// SPDX-License-Identifier: MIT
// scatter by a block per line, or a few short ones: the last element for each place is found in shared memory, then the
// lines are written once.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u32 T;
#endif

using Args = PutLastArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) put_last_of_line(const Args a) {
  constexpr int kAhead = 4;  // loads in flight
  DYNAMIC_SHARED(smem);
  const int threads = (int)(blockDim.x / a.lines), own = threadIdx.x / threads, me = threadIdx.x - own * threads;
  u32* const last = (u32*)smem + own * a.size;  // 1 + the position of the last element that goes there
  for (i64 first_line = blockIdx.x * a.lines; first_line < a.index.n; first_line += gridDim.x * a.lines) {
    const bool live = first_line + own < a.index.n;
    const i64 line = live ? first_line + own : 0, length = live ? a.length : 0, size = live ? a.size : 0;
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    const T* const base = (const T*)a.base.data + at(a.base, line);
    for (i64 i = me; i < size; i += threads) last[i] = 0;
    __syncthreads();
    for (i64 first = me; first < length; first += kAhead * threads) {
      i64 where[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const i64 i = first + k * threads;
        where[k] = i < length ? (i64)index[i * a.index_step] : 0;
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const i64 i = first + k * threads;
        if (i >= length) break;
        if ((u64)where[k] < (u64)a.size) {
          atomicMax(last + where[k], (u32)i + 1);
        } else {
          complain(a.complaints, line * a.length + i, 0, bits_of(where[k]));
        }
      }
    }
    __syncthreads();
    T* const out = a.out + line * a.size;
    for (i64 first = me; first < size; first += kAhead * threads) {
      T x[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const i64 i = first + k * threads;
        if (i >= size) break;
        const u32 from = last[i];
        x[k] = from ? src[(from - 1) * a.src_step] : base[i * a.base_step];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (first + k * threads < size) out[first + k * threads] = x[k];
      }
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
