// SPDX-License-Identifier: MIT
// Sums of runs: element i of a line begins a run if its index is i, and others belong to the run before them. A run's
// sum goes to its first element, zeros to the rest, as in the gradient of cummax. Lines whose elements lie close to
// each other have a block per piece, others a thread per strip. A line of several is read twice: what begins a piece
// belongs to a run of a piece before it, and these heads are added from the end of the line, by a block.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kRunThreads = kThreads;  // of a block
constexpr bool kHalf = true;
#endif

constexpr int kPiece = kRunEach * kRunThreads, kWarps = kRunThreads / 32;

EBB T narrow(f64 x) { return store(kHalf ? (A)to_odd(x) : (A)x); }

// Neighbours up to the first that begins a run: their sum, and whether none does.
struct Head {
  f64 sum;
  bool open;
};
EBB Head join(Head left, Head right) { return left.open ? Head{left.sum + right.sum, right.open} : left; }
EBB Head from_lane(Head x, int lane) {
  const u64 bits = bits_of(x.sum);
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane & 31);
  const u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane & 31);
  const u32 open = __ballot_sync(0xffffffffu, x.open);
  return {from_bits(x.sum, (u64)high << 32 | low), (bool)(open >> (lane & 31) & 1)};
}

struct Totals {
  f64 sums[kWarps];
  u32 open[kWarps];
};
// From each thread's head: that of the threads behind it. The warps' in `totals` are read until the next barrier.
EBB Head behind_thread(Head mine, Totals& totals) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Head right = from_lane(mine, lane + distance);
    if (lane + distance < 32) mine = join(mine, right);
  }
  if (lane == 0) totals.sums[warp] = mine.sum, totals.open[warp] = mine.open;
  Head behind = from_lane(mine, lane + 1);
  if (lane == 31) behind = {0, true};
  __syncthreads();
  for (int w = warp + 1; w < kWarps; ++w) behind = join(behind, Head{totals.sums[w], totals.open[w] != 0});
  return behind;
}

// A piece in shared memory. Threads take neighbours of others from memory, and neighbours of their own from here.
struct Piece {
  T elements[kPiece + kRunThreads];
  u32 starts[kPiece / 32];  // one bit per element
  Totals totals;
};
EBB int place_of(int e) { return e + e / kRunEach; }
EBB u32 starts_of_thread(const Piece& piece) {
  const int first = threadIdx.x * kRunEach;
  return piece.starts[first / 32] >> first % 32 & ((1u << kRunEach) - 1);
}
EBB void load_piece(const RunsArgs& a, i64 line, i64 begin, Piece& piece) {
  const i64* const index = (const i64*)a.index.data + at(a.index, line);
  const T* const g = (const T*)a.g.data + at(a.g, line);
  i64 where[kRunEach];
  T x[kRunEach];
#pragma unroll
  for (int k = 0; k < kRunEach; ++k) {
    const i64 i = begin + threadIdx.x + k * kRunThreads;
    where[k] = i < a.length ? index[i * a.index_step] : -1;
    x[k] = i < a.length ? g[i * a.g_step] : (T)0;
  }
#pragma unroll
  for (int k = 0; k < kRunEach; ++k) {
    const int e = threadIdx.x + k * kRunThreads;
    const u32 starts = __ballot_sync(0xffffffffu, where[k] == begin + e);
    if ((threadIdx.x & 31) == 0) piece.starts[e / 32] = starts;
    piece.elements[place_of(e)] = x[k];
  }
  __syncthreads();
}
EBB Head head_of_thread(const Piece& piece) {
  const u32 starts = starts_of_thread(piece);
  f64 sum = 0;
#pragma unroll
  for (int j = kRunEach - 1; j >= 0; --j) {
    const f64 x = (f64)load(piece.elements[place_of(threadIdx.x * kRunEach + j)]);
    sum = starts >> j & 1 ? 0 : x + sum;
  }
  return {sum, starts == 0};
}

extern "C" __global__ void __launch_bounds__(kRunThreads) heads_of_pieces(const RunsArgs a) {
  __shared__ Piece piece;
  for (i64 task = blockIdx.x; task < a.g.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces);
    load_piece(a, line, (task - line * a.pieces) * kPiece, piece);
    const Head mine = head_of_thread(piece), head = join(mine, behind_thread(mine, piece.totals));
    if (threadIdx.x == 0) a.heads[task] = head.sum, a.open[task] = head.open;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kRunThreads) sums_of_pieces(const RunsArgs a) {
  __shared__ Piece piece;
  for (i64 task = blockIdx.x; task < a.g.n * a.pieces; task += gridDim.x) {
    const i64 line = a.pieces == 1 ? task : quotient(task, a.pieces), begin = (task - line * a.pieces) * kPiece;
    load_piece(a, line, begin, piece);
    const Head behind = behind_thread(head_of_thread(piece), piece.totals);
    f64 sum = behind.open && a.heads ? behind.sum + a.heads[task] : behind.sum;
    const u32 starts = starts_of_thread(piece);
#pragma unroll
    for (int j = kRunEach - 1; j >= 0; --j) {
      T& x = piece.elements[place_of(threadIdx.x * kRunEach + j)];
      const bool begins = starts >> j & 1;
      const f64 total = (f64)load(x) + sum;
      x = begins ? narrow(total) : (T)0;
      sum = begins ? 0 : total;
    }
    __syncthreads();
    T* const out = (T*)a.out.data + at(a.out, line);
#pragma unroll
    for (int k = 0; k < kRunEach; ++k) {
      const int e = threadIdx.x + k * kRunThreads;
      if (begin + e < a.length) out[(begin + e) * a.out_step] = piece.elements[place_of(e)];
    }
    __syncthreads();
  }
}

// The heads of a line's pieces become what follows each of them.
extern "C" __global__ void __launch_bounds__(kRunThreads) add_heads(const RunsArgs a) {
  __shared__ Totals totals;
  __shared__ f64 carried;
  for (i64 line = blockIdx.x; line < a.g.n; line += gridDim.x) {
    f64 after = 0;
    for (i64 end = a.pieces; end > 0; end -= kPiece) {
      const i64 first = end - kPiece + threadIdx.x * kRunEach;
      Head heads[kRunEach], mine{0, true};
#pragma unroll
      for (int j = kRunEach - 1; j >= 0; --j) {
        const bool live = first + j >= 0;
        const i64 piece = line * a.pieces + first + j;
        heads[j] = {live ? a.heads[piece] : 0, live ? a.open[piece] != 0 : true};
        mine = join(heads[j], mine);
      }
      const Head behind = behind_thread(mine, totals);
      f64 sum = behind.open ? behind.sum + after : behind.sum;
#pragma unroll
      for (int j = kRunEach - 1; j >= 0; --j) {
        if (first + j >= 0) a.heads[line * a.pieces + first + j] = sum;
        sum = heads[j].open ? heads[j].sum + sum : heads[j].sum;
      }
      if (threadIdx.x == 0) carried = sum;
      __syncthreads();
      after = carried;
      __syncthreads();
    }
  }
}

// Strips of lines whose elements are neighbours of other lines'.
struct Strip {
  i64 line, number, begin, end;
};
EBB Strip strip_of(const RunsArgs& a, i64 task) {
  const i64 number = quotient(task, a.g.n), begin = number * kScanStrip;
  return {task - number * a.g.n, number, begin, begin + kScanStrip < a.length ? begin + kScanStrip : a.length};
}
extern "C" __global__ void __launch_bounds__(kThreads) heads_of_strips(const RunsArgs a) {
  EACH(task, a.g.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const i64* const index = (const i64*)a.index.data + at(a.index, s.line);
    const T* const g = (const T*)a.g.data + at(a.g, s.line);
    f64 sum = 0;
    bool open = true;
#pragma unroll 4
    for (i64 i = s.end - 1; i >= s.begin; --i) {
      const bool begins = index[i * a.index_step] == i;
      sum = begins ? 0 : (f64)load(g[i * a.g_step]) + sum;
      open &= !begins;
    }
    a.heads[s.line * a.pieces + s.number] = sum;
    a.open[s.line * a.pieces + s.number] = open;
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) sums_of_strips(const RunsArgs a) {
  EACH(task, a.g.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const i64* const index = (const i64*)a.index.data + at(a.index, s.line);
    const T* const g = (const T*)a.g.data + at(a.g, s.line);
    T* const out = (T*)a.out.data + at(a.out, s.line);
    f64 sum = a.heads ? a.heads[s.line * a.pieces + s.number] : 0;
#pragma unroll 4
    for (i64 i = s.end - 1; i >= s.begin; --i) {
      const bool begins = index[i * a.index_step] == i;
      const f64 total = (f64)load(g[i * a.g_step]) + sum;
      out[i * a.out_step] = begins ? narrow(total) : (T)0;
      sum = begins ? 0 : total;
    }
  }
}

}  // namespace ebb::cuda
