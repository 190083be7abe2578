// SPDX-License-Identifier: MIT
// scatter and its sums: a thread or a warp per line of the index along the axis, in order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u16 T;  // of src
typedef f32 O;  // of out, while it is made
typedef u16 R;  // of out
EBB R rounded(O x) { return to_bf16(x); }
EBB void update(O& to, T x) { to += from_bf16(x); }
#endif

extern "C" __global__ void __launch_bounds__(kThreads) scatter(const ScatterArgs a) {
  EACH(line, a.index.n) {
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    O* const out = (O*)a.out.data + at(a.out, line);
    const i64 outer = quotient(line, a.inner);
    for (i64 i = 0; i < a.length; ++i) {
      const i64 where = index[i * a.index_step];
      if ((u64)where >= (u64)a.size) {
        complain(a.complaints, (outer * a.length + i) * a.inner + line - outer * a.inner, 0, bits_of(where));
        continue;
      }
      O& to = out[where * a.out_step];
      const T x = src[i * a.src_step];
      update(to, x);
    }
  }
}

// A warp takes 32 neighbours of a line at a time. Those with the same place are added in turns, the first of all places
// at once. `to` is the line itself, or its image in shared memory with steps of `step`.
EBB void scatter_line(const ScatterArgs& a, i64 line, O* to, i64 step) {
  const int lane = threadIdx.x & 31;
  const I* const index = (const I*)a.index.data + at(a.index, line);
  const T* const src = (const T*)a.src.data + at(a.src, line);
  const i64 outer = quotient(line, a.inner);
  i64 next = lane < a.length ? (i64)index[lane * a.index_step] : -1;
  T next_x = lane < a.length ? src[lane * a.src_step] : (T)0;
  for (i64 first = 0; first < a.length; first += 32) {
    const i64 i = first + lane, where = next;
    const T x = next_x;
    const bool live = i < a.length, inside = live && (u64)where < (u64)a.size;
    if (i + 32 < a.length) {
      next = index[(i + 32) * a.index_step];
      next_x = src[(i + 32) * a.src_step];
    }
    if (live && !inside)
      complain(a.complaints, (outer * a.length + i) * a.inner + line - outer * a.inner, 0, bits_of(where));
    const u32 alike = __match_any_sync(0xffffffffu, inside ? (u32)where : 0xffffffffu);
    const int turn = inside ? __popc(alike & ((1u << lane) - 1)) : -1;
    for (int t = 0; __ballot_sync(0xffffffffu, turn >= t); ++t) {
      if (turn == t) update(to[where * step], x);
      __syncwarp();
    }
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) scatter_by_warps(const ScatterArgs a) {
  const i64 warps = (i64)gridDim.x * (kThreads / 32);
  for (i64 line = (i64)blockIdx.x * (kThreads / 32) + (threadIdx.x >> 5); line < a.index.n; line += warps)
    scatter_line(a, line, (O*)a.out.data + at(a.out, line), a.out_step);
}
// Sums that begin with zeros, in shared memory; the result is of type R.
extern "C" __global__ void __launch_bounds__(kThreads) sum_in_shared(const ScatterArgs a) {
  DYNAMIC_SHARED(smem);
  const int lane = threadIdx.x & 31, per_block = blockDim.x >> 5;
  O* const sums = (O*)smem + (threadIdx.x >> 5) * a.size;
  for (i64 line = (i64)blockIdx.x * per_block + (threadIdx.x >> 5); line < a.index.n;
       line += (i64)gridDim.x * per_block) {
    for (i64 i = lane; i < a.size; i += 32) sums[i] = (O)0;
    __syncwarp();
    scatter_line(a, line, sums, 1);
    R* const out = (R*)a.out.data + at(a.out, line);
    for (i64 i = lane; i < a.size; i += 32) out[i * a.out_step] = rounded(sums[i]);
    __syncwarp();
  }
}

}  // namespace ebb::cuda
