// SPDX-License-Identifier: MIT
// scatter and its sums: a thread, a warp or a block per line of the index along the axis, in order.
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

EBB void complain_of(const ScatterArgs& a, i64 line, i64 i, i64 where) {
  const i64 outer = quotient(line, a.inner);
  complain(a.complaints, (outer * a.length + i) * a.inner + line - outer * a.inner, 0, bits_of(where));
}

extern "C" __global__ void __launch_bounds__(kThreads) scatter(const ScatterArgs a) {
  EACH(line, a.index.n) {
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    O* const out = (O*)a.out.data + at(a.out, line);
    for (i64 i = 0; i < a.length; ++i) {
      const i64 where = index[i * a.index_step];
      if ((u64)where >= (u64)a.size) {
        complain_of(a, line, i, where);
        continue;
      }
      O& to = out[where * a.out_step];
      const T x = src[i * a.src_step];
      update(to, x);
    }
  }
}

// A warp takes 32 neighbours of a line at a time. Those with the same place are added in turns, the first of all places
// at once.
EBB void add_line(const ScatterArgs& a, i64 line, O* to, i64 step) {
  const int lane = threadIdx.x & 31;
  const I* const index = (const I*)a.index.data + at(a.index, line);
  const T* const src = (const T*)a.src.data + at(a.src, line);
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
    if (live && !inside) complain_of(a, line, i, where);
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
    add_line(a, line, (O*)a.out.data + at(a.out, line), a.out_step);
}

// Sums that begin with zeros: each warp has a line's in shared memory. The result is of type R.
extern "C" __global__ void __launch_bounds__(kThreads) sum_by_warps(const ScatterArgs a) {
  DYNAMIC_SHARED(smem);
  const int warps = blockDim.x >> 5, lane = threadIdx.x & 31;
  O* const sums = (O*)smem + (threadIdx.x >> 5) * a.size;
  for (i64 line = (i64)blockIdx.x * warps + (threadIdx.x >> 5); line < a.index.n; line += (i64)gridDim.x * warps) {
    for (i64 i = lane; i < a.size; i += 32) sums[i] = (O)0;
    __syncwarp();
    add_line(a, line, sums, 1);
    R* const out = (R*)a.out.data + at(a.out, line);
    for (i64 i = lane; i < a.size; i += 32) out[i * a.out_step] = rounded(sums[i]);
    __syncwarp();
  }
}

// The same, a block per piece of a line. Of a block's
// neighbours that go to one place the first is added first: all leave their keys where their place leads, those of a
// later turn and of threads before others are larger, and whose key stays may add.
extern "C" __global__ void __launch_bounds__(kThreads) sum_in_shared(const ScatterArgs a) {
  DYNAMIC_SHARED(smem);
  u32* const keys = (u32*)smem;
  O* const sums = (O*)(keys + kTurnSlots);
  const int threads = blockDim.x, me = threadIdx.x;
  constexpr u32 kMostTurns = 1u << 22;
  u32 turn = kMostTurns;
  for (i64 task = blockIdx.x; task < a.index.n * a.pieces; task += gridDim.x) {
    const i64 line = a.pieces == 1 ? task : quotient(task, a.pieces), piece = task - line * a.pieces;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    for (i64 i = me; i < a.size; i += threads) sums[i] = (O)0;
    i64 next = begin + me < end ? (i64)index[(begin + me) * a.index_step] : -1;
    T next_x = begin + me < end ? src[(begin + me) * a.src_step] : (T)0;
    for (i64 first = begin; first < end; first += threads) {
      if (turn >= kMostTurns) {
        __syncthreads();
        for (int k = me; k < kTurnSlots; k += threads) keys[k] = 0;
        turn = 0;
      }
      __syncthreads();
      const i64 i = first + me, where = next;
      const T x = next_x;
      const bool live = i < end, inside = live && (u64)where < (u64)a.size;
      if (i + threads < end) {
        next = index[(i + threads) * a.index_step];
        next_x = src[(i + threads) * a.src_step];
      }
      if (live && !inside) complain_of(a, line, i, where);
      u32* const slot = keys + ((u32)where & (kTurnSlots - 1));
      for (bool waits = inside; __syncthreads_or(waits);) {
        const u32 key = ++turn * kThreads + (kThreads - 1 - me);
        if (waits) atomicMax(slot, key);
        __syncthreads();
        if (waits && *slot == key) {
          update(sums[where], x);
          waits = false;
        }
      }
    }
    __syncthreads();
    if (a.parts) {
      const i64 outer = quotient(line, a.inner);
      O* const to = (O*)a.parts + (outer * a.pieces + piece) * a.size * a.inner + line - outer * a.inner;
      for (i64 i = me; i < a.size; i += threads) to[i * a.inner] = sums[i];
    } else {
      R* const out = (R*)a.out.data + at(a.out, line);
      for (i64 i = me; i < a.size; i += threads) out[i * a.out_step] = rounded(sums[i]);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
