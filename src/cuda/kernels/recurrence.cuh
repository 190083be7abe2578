// SPDX-License-Identifier: MIT
// Recurrences from the end of a line: s_i = g_i + carry_{i+1}, carry_i = factor_i·s_i. For linear_recurrence factors
// are given, and s is the result. For sums of runs, as in the gradient of cummax, an element begins a run if its index
// is its place: it carries nothing on, and has the run's sum, others zero. Lines whose elements lie close to each other
// have a block per piece, others a thread per strip. A line of several is read twice: what a piece does to its carry is
// one product and one sum, which a block applies from the end of the line.
#pragma once
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kLineThreads = kThreads, kStrip = 256;  // of a block; elements of a strip
constexpr bool kHalf = true, kRuns = true;
#endif

using Args = RecurrenceArgs;

constexpr int kPiece = kCarryEach * kLineThreads, kWarps = kLineThreads / 32;

EBB T narrow(f64 x) { return store(kHalf ? (A)to_odd(x) : (A)x); }

// The effect of neighbouring elements on an incoming carry: sum + factor · carry.
struct Carry {
  f64 sum, factor;
};
EBB f64 times(f64 factor, f64 x) {
  if (kRuns) return factor != 0 ? x : 0;  // not even NaN comes out of the next run
  return factor * x;
}
// A product of many factors stays finite: there may be nothing that it multiplies.
EBB f64 product_of(f64 a, f64 b) {
  constexpr f64 kMost = 1.7976931348623157e308;
  const f64 x = a * b;
  return is_inf(x) && is_finite(a) && is_finite(b) ? (x > 0 ? kMost : -kMost) : x;
}
EBB f64 apply(Carry to, f64 carry) { return to.sum + times(to.factor, carry); }
EBB Carry join(Carry left, Carry right) { return {apply(left, right.sum), product_of(left.factor, right.factor)}; }
EBB Carry no_elements() { return {0, 1}; }
EBB f64 from_lane(f64 x, int lane) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane & 31);
  const u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane & 31);
  return from_bits(x, (u64)high << 32 | low);
}
EBB Carry from_lane(Carry x, int lane) { return {from_lane(x.sum, lane), from_lane(x.factor, lane)}; }

// From what each thread's elements do: what those of the threads behind it do. The warps' in `totals` are read until
// the next barrier.
EBB Carry behind_thread(Carry mine, f64 (&totals)[2][kWarps]) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Carry right = from_lane(mine, lane + distance);
    if (lane + distance < 32) mine = join(mine, right);
  }
  if (lane == 0) totals[0][warp] = mine.sum, totals[1][warp] = mine.factor;
  Carry behind = from_lane(mine, lane + 1);
  if (lane == 31) behind = no_elements();
  __syncthreads();
  for (int w = warp + 1; w < kWarps; ++w) behind = join(behind, Carry{totals[0][w], totals[1][w]});
  return behind;
}

// A line's elements in memory.
struct Line {
  const i64* index;
  const T *factors, *g;
};
EBB Line line_of(const Args& a, i64 line) {
  return {(const i64*)a.factors.data + at(a.factors, line), (const T*)a.factors.data + at(a.factors, line),
          (const T*)a.g.data + at(a.g, line)};
}
EBB f64 factor_at(const Args& a, const Line& line, i64 i) {
  if constexpr (kRuns) return line.index[i * a.factor_step] == i ? 0 : 1;
  return (f64)load(line.factors[i * a.factor_step]);
}
EBB f64 g_at(const Args& a, const Line& line, i64 i) { return (f64)load(line.g[i * a.g_step]); }
// An element's result, from the carry that comes to it, which becomes its own.
EBB T step(f64 x, f64 factor, f64& carry) {
  const f64 total = x + carry;
  carry = times(factor, total);
  return kRuns && factor != 0 ? (T)0 : narrow(total);
}

// A piece in shared memory. Threads take neighbours of others from memory, and neighbours of their own from here.
struct Piece {
  T elements[kPiece + kLineThreads];
  T factors[kRuns ? 1 : kPiece + kLineThreads];
  u32 begins[kRuns ? kPiece / 32 : 1];  // one bit per element
  f64 totals[2][kWarps];
};
EBB int place_of(int e) { return e + e / kCarryEach; }
EBB f64 factor_in(const Piece& piece, int e) {
  if constexpr (kRuns) return piece.begins[e / 32] >> e % 32 & 1 ? 0 : 1;
  return (f64)load(piece.factors[place_of(e)]);
}
EBB void load_piece(const Args& a, i64 number, i64 begin, Piece& piece) {
  const Line line = line_of(a, number);
  T x[kCarryEach], factors[kCarryEach];
  bool begins[kCarryEach];
#pragma unroll
  for (int k = 0; k < kCarryEach; ++k) {
    const i64 i = begin + threadIdx.x + k * kLineThreads;
    const bool live = i < a.length;
    x[k] = live ? line.g[i * a.g_step] : (T)0;
    if constexpr (kRuns) {
      begins[k] = live && line.index[i * a.factor_step] == i;
    } else {
      factors[k] = live ? line.factors[i * a.factor_step] : (T)0;
    }
  }
#pragma unroll
  for (int k = 0; k < kCarryEach; ++k) {
    const int e = threadIdx.x + k * kLineThreads;
    piece.elements[place_of(e)] = x[k];
    if constexpr (kRuns) {
      const u32 bits = __ballot_sync(0xffffffffu, begins[k]);
      if ((threadIdx.x & 31) == 0) piece.begins[e / 32] = bits;
    } else {
      piece.factors[place_of(e)] = factors[k];
    }
  }
  __syncthreads();
}
EBB Carry carry_of_thread(const Piece& piece) {
  Carry all = no_elements();
#pragma unroll
  for (int j = kCarryEach - 1; j >= 0; --j) {
    const int e = threadIdx.x * kCarryEach + j;
    const f64 x = (f64)load(piece.elements[place_of(e)]), factor = factor_in(piece, e);
    all = {times(factor, x + all.sum), product_of(factor, all.factor)};
  }
  return all;
}

extern "C" __global__ void __launch_bounds__(kLineThreads) carries_of_pieces(const Args a) {
  __shared__ Piece piece;
  for (i64 task = blockIdx.x; task < a.g.n * a.pieces; task += gridDim.x) {
    const i64 line = quotient(task, a.pieces);
    load_piece(a, line, (task - line * a.pieces) * kPiece, piece);
    const Carry mine = carry_of_thread(piece), all = join(mine, behind_thread(mine, piece.totals));
    if (threadIdx.x == 0) a.carries[task] = all.sum, a.products[task] = all.factor;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kLineThreads) results_of_pieces(const Args a) {
  __shared__ Piece piece;
  for (i64 task = blockIdx.x; task < a.g.n * a.pieces; task += gridDim.x) {
    const i64 line = a.pieces == 1 ? task : quotient(task, a.pieces), begin = (task - line * a.pieces) * kPiece;
    load_piece(a, line, begin, piece);
    f64 carry = apply(behind_thread(carry_of_thread(piece), piece.totals), a.carries ? a.carries[task] : 0);
#pragma unroll
    for (int j = kCarryEach - 1; j >= 0; --j) {
      const int e = threadIdx.x * kCarryEach + j;
      T& x = piece.elements[place_of(e)];
      x = step((f64)load(x), factor_in(piece, e), carry);
    }
    __syncthreads();
    T* const out = (T*)a.out.data + at(a.out, line);
#pragma unroll
    for (int k = 0; k < kCarryEach; ++k) {
      const int e = threadIdx.x + k * kLineThreads;
      if (begin + e < a.length) out[(begin + e) * a.out_step] = piece.elements[place_of(e)];
    }
    __syncthreads();
  }
}

// Replaces the effect of each piece by its incoming carry.
extern "C" __global__ void __launch_bounds__(kLineThreads) add_carries(const Args a) {
  __shared__ f64 totals[2][kWarps], carried;
  for (i64 line = blockIdx.x; line < a.g.n; line += gridDim.x) {
    f64* const carries = a.carries + line * a.pieces;
    const f64* const products = a.products + line * a.pieces;
    f64 after = 0;
    for (i64 end = a.pieces; end > 0; end -= kPiece) {
      const i64 first = end - kPiece + threadIdx.x * kCarryEach;
      Carry each[kCarryEach], mine = no_elements();
#pragma unroll
      for (int j = kCarryEach - 1; j >= 0; --j) {
        each[j] = first + j >= 0 ? Carry{carries[first + j], products[first + j]} : no_elements();
        mine = join(each[j], mine);
      }
      f64 carry = apply(behind_thread(mine, totals), after);
#pragma unroll
      for (int j = kCarryEach - 1; j >= 0; --j) {
        if (first + j >= 0) carries[first + j] = carry;
        carry = apply(each[j], carry);
      }
      if (threadIdx.x == 0) carried = carry;
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
EBB Strip strip_of(const Args& a, i64 task) {
  const i64 number = quotient(task, a.g.n), begin = number * kStrip;
  return {task - number * a.g.n, number, begin, begin + kStrip < a.length ? begin + kStrip : a.length};
}
extern "C" __global__ void __launch_bounds__(kThreads) carries_of_strips(const Args a) {
  EACH(task, a.g.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const Line line = line_of(a, s.line);
    Carry all = no_elements();
#pragma unroll 4
    for (i64 i = s.end - 1; i >= s.begin; --i) {
      const f64 factor = factor_at(a, line, i);
      all = {times(factor, g_at(a, line, i) + all.sum), product_of(factor, all.factor)};
    }
    a.carries[s.line * a.pieces + s.number] = all.sum;
    a.products[s.line * a.pieces + s.number] = all.factor;
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) results_of_strips(const Args a) {
  EACH(task, a.g.n * a.pieces) {
    const Strip s = strip_of(a, task);
    const Line line = line_of(a, s.line);
    T* const out = (T*)a.out.data + at(a.out, s.line);
    f64 carry = a.carries ? a.carries[s.line * a.pieces + s.number] : 0;
    for (i64 last = s.end - 1; last >= s.begin; last -= kCarryEach) {  // loaded before the first is stored
      f64 g[kCarryEach], factor[kCarryEach];
#pragma unroll
      for (int j = 0; j < kCarryEach; ++j) {
        const i64 i = last - j >= s.begin ? last - j : s.begin;
        g[j] = g_at(a, line, i), factor[j] = factor_at(a, line, i);
      }
#pragma unroll
      for (int j = 0; j < kCarryEach; ++j) {
        if (last - j >= s.begin) out[(last - j) * a.out_step] = step(g[j], factor[j], carry);
      }
    }
  }
}

}  // namespace ebb::cuda
