// SPDX-License-Identifier: MIT
// cumsum and cumprod of lines whose elements lie side by side. Lines of up to kSumGroup pieces take one pass: a block
// adds the elements of a piece, leaves its total, and waits for those of all pieces before it in the line, which it
// adds in an order that depends on its place alone. Blocks take pieces in the order in which they begin, so that
// whatever a block waits for is being made. Longer lines are divided into as many chunks as a large GPU has room for
// blocks: one pass adds each, a second one scans its pieces one after the other, and nobody waits.
#pragma once
#include "cuda/kernels/parts/scan_step.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kScanThreads = kThreads;  // of a block
constexpr bool kForward = true;         // elements follow each other in memory
#endif

using Args = ScanOnceArgs;

constexpr int kWarps = kThreads / 32;

// A block's elements, where its threads exchange them: neighbours of a thread, without conflicts of banks.
EBB int place_of(int e) { return e + e / kSumEach; }

// Numbers that others wait for are two halves with a bit above each that says that it is there: none needs a fence.
EBB void leave_total(const Args& a, i64 at, S total) {
  volatile u64* const to = a.totals + 2 * at;
  const u64 bits = bits_of(total);
  to[0] = (u64)1 << 32 | (u32)bits;
  to[1] = (u64)1 << 32 | bits >> 32;
}
EBB S total_at(const Args& a, i64 at, S nothing) {
  const volatile u64* const from = a.totals + 2 * at;
  u64 low = from[0], high = from[1];
  while (!(low >> 32)) low = from[0];
  while (!(high >> 32)) high = from[1];
  return from_bits(nothing, high << 32 | (u32)low);
}

// Combines all threads' numbers, within a warp by butterfly, then warps in order. `warps`: read until the next barrier.
EBB S total_of_block(S x, u64* warps) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) x = next(x, other_lane(x, distance));
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = bits_of(x);
  __syncthreads();
  S total = from_bits(x, warps[0]);
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total = next(total, from_bits(x, warps[w]));
  return total;
}

// Returns the total of all earlier pieces of the line, and publishes this piece's own for the later ones.
EBB S before_piece(const Args& a, i64 line, i64 piece, S own, u64* warps) {
  const i64 first = line * a.pieces;
  const S nothing = (S)a.start;
  if (threadIdx.x == 0) leave_total(a, first + piece, own);
  S mine = nothing;
  if (threadIdx.x < piece) mine = total_at(a, first + threadIdx.x, nothing);
  return total_of_block(mine, warps);
}

// Elements of a piece as they lie in memory, a block of threads apart.
struct Piece {
  T* at;  // of this thread
  i64 step;
  int live;  // elements of the piece
};
EBB Piece piece_of(const KernelView& lines, i64 step, i64 line, i64 begin, i64 end) {
  if (kForward) step = 1;
  const i64 left = end - begin;
  return {(T*)lines.data + at(lines, line) + (begin + threadIdx.x) * step, step,
          left < kSumPiece ? (int)left : kSumPiece};
}
EBB void read_piece(const Piece& p, T (&part)[kSumEach]) {
  const T* from = p.at;
#pragma unroll
  for (int k = 0; k < kSumEach; ++k, from += kScanThreads * p.step) {
    if ((int)threadIdx.x + k * kScanThreads < p.live) part[k] = *from;
  }
}

// A piece in shared memory, and what its scan needs.
struct Scan {
  T elements[kSumPiece + kThreads];
  u64 totals[kWarps];  // of warps
};
EBB void put_piece(const T (&part)[kSumEach], int live, Scan& scan) {
#pragma unroll
  for (int k = 0; k < kSumEach; ++k) {
    const int e = threadIdx.x + k * kScanThreads;
    if (e < live) scan.elements[place_of(e)] = part[k];
  }
  __syncthreads();
}
// A thread has neighbouring elements. Returns the total of the lanes before this one.
EBB S scan_piece(S nothing, int live, Scan& scan) {
  const int first = threadIdx.x * kSumEach;
  S all = nothing;
#pragma unroll
  for (int j = 0; j < kSumEach; ++j) {
    if (first + j < live) all = next(all, (S)load(scan.elements[place_of(first + j)]));
  }
  return scan_lanes(all, scan.totals);
}
EBB S total_of_piece(S nothing, const Scan& scan) {
  S own = nothing;
#pragma unroll
  for (int w = 0; w < kScanThreads / 32; ++w) own = next(own, from_bits(nothing, scan.totals[w]));
  return own;
}
EBB void write_piece(S before, S left, const Piece& to, Scan& scan) {
  const int first = threadIdx.x * kSumEach;
  before = before_thread(before, left, scan.totals);
#pragma unroll
  for (int j = 0; j < kSumEach; ++j) {
    if (first + j >= to.live) break;
    before = next(before, (S)load(scan.elements[place_of(first + j)]));
    scan.elements[place_of(first + j)] = narrow(before);
  }
  __syncthreads();
  T* out = to.at;
#pragma unroll
  for (int k = 0; k < kSumEach; ++k, out += kScanThreads * to.step) {
    const int e = threadIdx.x + k * kScanThreads;
    if (e < to.live) *out = scan.elements[place_of(e)];
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(kScanThreads, 1024 / kScanThreads) scan_once(const Args a) {
  __shared__ Scan scan;
  __shared__ u64 warps[kWarps];
  __shared__ i64 taken;
  const i64 tasks = a.x.n * a.pieces;
  const S nothing = (S)a.start;
  for (i64 task = blockIdx.x;; task += gridDim.x) {
    if (a.totals) {
      if (threadIdx.x == 0) taken = (i64)atomicAdd(a.next, 1u);
      __syncthreads();
      task = taken;
    }
    if (task >= tasks) return;
    const i64 line = quotient(task, a.pieces), piece = task - line * a.pieces, begin = piece * kSumPiece;
    const Piece from = piece_of(a.x, a.x_step, line, begin, a.length);
    T part[kSumEach];
    read_piece(from, part);
    put_piece(part, from.live, scan);
    const S left = scan_piece(nothing, from.live, scan);
    const S before = a.totals ? before_piece(a, line, piece, total_of_piece(nothing, scan), warps) : nothing;
    write_piece(before, left, piece_of(a.out, a.out_step, line, begin, a.length), scan);
  }
}

// A chunk of a line: so many pieces.
struct Chunk {
  i64 line, number, begin, end;
};
EBB Chunk chunk_of(const Args& a, i64 task) {
  const i64 line = quotient(task, a.chunks), number = task - line * a.chunks, begin = number * a.chunk;
  return {line, number, begin, begin + a.chunk < a.length ? begin + a.chunk : a.length};
}

extern "C" __global__ void __launch_bounds__(kScanThreads, 4) sum_chunks(const Args a) {
  __shared__ u64 warps[kWarps];
  for (i64 task = blockIdx.x; task < a.x.n * a.chunks; task += gridDim.x) {
    const Chunk chunk = chunk_of(a, task);
    S total = (S)a.start;
    for (i64 begin = chunk.begin; begin < chunk.end; begin += kSumPiece) {
      const Piece from = piece_of(a.x, a.x_step, chunk.line, begin, chunk.end);
      T part[kSumEach];
      read_piece(from, part);
#pragma unroll
      for (int k = 0; k < kSumEach; ++k) {
        if ((int)threadIdx.x + k * kScanThreads < from.live) total = next(total, (S)load(part[k]));
      }
    }
    total = total_of_block(total, warps);
    if (threadIdx.x == 0) a.totals[task] = bits_of(total);
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kScanThreads, 3) scan_chunks(const Args a) {
  __shared__ Scan scan;
  __shared__ u64 warps[kWarps];
  const S nothing = (S)a.start;
  for (i64 task = blockIdx.x; task < a.x.n * a.chunks; task += gridDim.x) {
    const Chunk chunk = chunk_of(a, task);
    S before = nothing;
    for (i64 c = threadIdx.x; c < chunk.number; c += kThreads)
      before = next(before, from_bits(nothing, a.totals[chunk.line * a.chunks + c]));
    before = total_of_block(before, warps);
    Piece from = piece_of(a.x, a.x_step, chunk.line, chunk.begin, chunk.end);
    T part[kSumEach];
    read_piece(from, part);
    for (i64 begin = chunk.begin; begin < chunk.end; begin += kSumPiece) {
      const int live = from.live;
      put_piece(part, live, scan);
      if (begin + kSumPiece < chunk.end) {  // the next one is loaded meanwhile
        from = piece_of(a.x, a.x_step, chunk.line, begin + kSumPiece, chunk.end);
        read_piece(from, part);
      }
      const S left = scan_piece(nothing, live, scan), own = total_of_piece(nothing, scan);
      write_piece(before, left, piece_of(a.out, a.out_step, chunk.line, begin, chunk.end), scan);
      before = next(before, own);
    }
  }
}

}  // namespace ebb::cuda
