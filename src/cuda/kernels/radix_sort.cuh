// SPDX-License-Identifier: MIT
// argsort by digits of eight bits, from the lowest on; stable. A line that fits into a block's tile is sorted there. Of
// a longer one each pass counts the digits of every tile, sums them over the tiles before, and puts each element where
// its digit goes. Nothing depends on the order in which threads or blocks run.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/order_keys.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u32 P;                     // a place in a line
constexpr int kEach = kRadixEach;  // elements of a thread
#endif

constexpr int kTile = kEach * kThreads;

using Args = RadixArgs<T, P>;

// Words for so many bytes, or for the masks of all warps in turns with them.
EBB constexpr int room_of(int bytes) { return (bytes > kWarps * 1024 ? bytes : kWarps * 1024) / 8; }

// A warp's elements of a tile are neighbours, `each` per lane: 32 at a time.
EBB int place_in_tile(int k, int each) {
  return (int)(threadIdx.x >> 5) * 32 * each + k * 32 + (int)(threadIdx.x & 31);
}

// Counts each warp's digits. rank[k]: how many of the warp's elements with the same digit come before. `masks`: per
// warp and digit, the lanes that have it; a warp leaves its own as zeros.
EBB void rank_digits(const T (&key)[kEach], int each, int live, int shift, u32 (*counts)[256], u32* masks,
                     u16 (&rank)[kEach]) {
  const int lane = threadIdx.x & 31;
  u32* const of_warp = counts[threadIdx.x >> 5];
  u32* const lanes = masks + (threadIdx.x >> 5) * 256;
#pragma unroll
  for (int k = 0; k < 8; ++k) of_warp[lane + 32 * k] = lanes[lane + 32 * k] = 0;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (k >= each) break;
    const bool mine = place_in_tile(k, each) < live;
    const u32 digit = digit_of(key[k], shift);
    if (mine) atomicOr(lanes + digit, 1u << lane);
    __syncwarp();
    const u32 alike = lanes[digit], before = __popc(alike & ((1u << lane) - 1)), seen = of_warp[digit];
    __syncwarp();
    if (mine && before == 0) {
      of_warp[digit] = seen + __popc(alike);
      lanes[digit] = 0;
    }
    __syncwarp();
    rank[k] = (u16)(seen + before);
  }
}

// Where in the sorted tile each warp's first element with a digit goes, from how many there are; returns where the
// first of all with the digit threadIdx.x does. `total`: how many have it.
EBB u32 place_digits(u32 (*counts)[256], u32* warps, u32& total) {
  __syncthreads();
  total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const u32 n = counts[w][threadIdx.x];
    counts[w][threadIdx.x] = total;
    total += n;
  }
  u32 all;
  const u32 start = sum_before(total, warps, all);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] += start;
  __syncthreads();
  return start;
}

EBB const T* line_of(const Args& a, i64 line) { return (const T*)a.x.data + at(a.x, line); }
EBB T given_key(const Args& a, const T* x, i64 line, i64 i) {
  return a.given_keys ? a.given_keys[line * a.length + i] : key_of(x[i * a.x_step]);
}
EBB i64 given_place(const Args& a, i64 line, i64 i) {
  return a.given_places ? (i64)a.given_places[line * a.length + i] : i;
}
EBB void leave(const Args& a, i64* out, i64 at_line, i64 place) {
  const i64 to = at_line - a.first;
  if (to >= 0 && to < a.count) out[to * a.out_step] = place;
}
EBB T value_of(const Args& a, const T* x, T key, i64 place) {
  return tells_bits(key) ? bits_of_key(key) : x[place * a.x_step];
}

extern "C" __global__ void __launch_bounds__(kThreads) sort_tiles(const Args a) {
  __shared__ u32 counts[kWarps][256], warps[kWarps];
  __shared__ u64 room[room_of(kTile * (sizeof(T) > 2 ? sizeof(T) : 2))];
  T* const keys = (T*)room;  // in turns
  u16* const places = (u16*)room;
  u32* const masks = (u32*)room;
  const int live = (int)a.length, each = (live + kThreads - 1) / kThreads;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = line_of(a, line);
    T key[kEach];
    u16 place[kEach], rank[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = place_in_tile(k, each);
      place[k] = (u16)e;
      key[k] = k < each && e < live ? given_key(a, x, line, e) : (T)0;
    }
    for (int shift = 0; shift < kKeyBits; shift += 8) {
      rank_digits(key, each, live, shift, counts, masks, rank);
      u32 total;
      place_digits(counts, warps, total);
      if (__syncthreads_or(total == (u32)live)) continue;  // all have the same digit
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (k < each && place_in_tile(k, each) < live) {
          rank[k] = (u16)(rank[k] + counts[threadIdx.x >> 5][digit_of(key[k], shift)]);
          keys[rank[k]] = key[k];
        }
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (k < each && place_in_tile(k, each) < live) key[k] = keys[place_in_tile(k, each)];
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (k < each && place_in_tile(k, each) < live) places[rank[k]] = place[k];
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (k < each && place_in_tile(k, each) < live) place[k] = places[place_in_tile(k, each)];
      }
      __syncthreads();
    }
    const i64 offset = at(a.out, line);
    i64* const out = (i64*)a.out.data + offset;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = place_in_tile(k, each);
      if (k >= each || e >= live) continue;
      leave(a, out, e, given_place(a, line, place[k]));
      if (a.values) a.values[offset + e * a.out_step] = value_of(a, x, key[k], place[k]);
    }
    __syncthreads();
  }
}

// One of the passes that have something to do. The lowest digit's always counts as one.
struct Pass {
  bool runs, last;
  int before;  // how many others ran
};
EBB Pass pass_of(const Args& a) {
  const u64 varying = a.varying ? (u64)a.varying[1] << 32 | a.varying[0] : ~(u64)0;
  Pass pass{a.shift == 0, true, 0};
#pragma unroll
  for (int shift = 0; shift < kKeyBits; shift += 8) {
    if (shift >= a.key_bits || (shift > 0 && !(varying >> shift & 255u))) continue;
    if (shift < a.shift) ++pass.before;
    if (shift == a.shift) pass.runs = true;
    if (shift > a.shift) pass.last = false;
  }
  return pass;
}

EBB void load_tile(const Args& a, const Pass& pass, i64 line, i64 first, int live, T (&key)[kEach]) {
  const int begin = place_in_tile(0, kEach);
  const bool dense = pass.before || a.given_keys;
  if (dense) {
    const T* const from = (pass.before == 0  ? a.given_keys
                           : pass.before & 1 ? a.keys[0]
                                             : a.keys[1]) +
                          line * a.length + first + begin;
#pragma unroll
    for (int k = 0; k < kEach; ++k) key[k] = begin + 32 * k < live ? from[32 * k] : (T)0;
  } else {
    const T* x = line_of(a, line) + (first + begin) * a.x_step;
#pragma unroll
    for (int k = 0; k < kEach; ++k, x += 32 * a.x_step) key[k] = begin + 32 * k < live ? key_of(*x) : (T)0;
  }
}

// The first pass, which always runs, also leaves which bits differ between a line's keys: passes over the others have
// nothing to do.
EBB void leave_varying(const Args& a, u64 mine) {
  __shared__ u32 found[2];
  if (threadIdx.x < 2) found[threadIdx.x] = 0;
  __syncthreads();
  if ((u32)mine) atomicOr(&found[0], (u32)mine);
  if (mine >> 32) atomicOr(&found[1], (u32)(mine >> 32));
  __syncthreads();
  if (threadIdx.x >= 2) return;
  const volatile u32* const known = a.varying + threadIdx.x;  // mostly all that there is
  if (found[threadIdx.x] & ~*known) atomicOr(a.varying + threadIdx.x, found[threadIdx.x]);
}

extern "C" __global__ void __launch_bounds__(kThreads) count_digits(const Args a) {
  __shared__ u32 counts[kWarps][256];
  const Pass pass = pass_of(a);
  const bool finds_varying = a.varying && a.shift == 0 && kKeyBits > 8;
  u64 varying = 0;
  if (!pass.runs) return;
  for (i64 task = blockIdx.x; task < a.x.n * a.tiles; task += gridDim.x) {
    const i64 line = quotient(task, a.tiles), tile = task - line * a.tiles, left = a.length - tile * kTile;
    const int live = left < kTile ? (int)left : kTile;
    T key[kEach];
    load_tile(a, pass, line, tile * kTile, live, key);
    if (finds_varying) {
      const T one = given_key(a, line_of(a, line), line, 0);
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (place_in_tile(k, kEach) < live) varying |= (u64)(T)(key[k] ^ one);
      }
    }
#pragma unroll
    for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (place_in_tile(k, kEach) < live) atomicAdd(&counts[threadIdx.x >> 5][digit_of(key[k], (int)a.shift)], 1u);
    }
    __syncthreads();
    u32 total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += counts[w][threadIdx.x];
    a.counts[task * 256 + threadIdx.x] = (P)total;
    __syncthreads();
  }
  if (finds_varying) leave_varying(a, varying);
}

// rows[0], rows[256], ... of each thread's digit become what comes before them; returns their sum.
EBB P sum_rows(P* rows, i64 count) {
  constexpr int kAhead = 16;  // loads in flight
  P before = 0;
  for (i64 first = 0; first < count; first += kAhead, rows += 256 * kAhead) {
    P x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) x[k] = first + k < count ? rows[256 * k] : (P)0;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k >= count) break;
      rows[256 * k] = before;
      before += x[k];
    }
  }
  return before;
}

// Counts of tiles, by a block per group of them and a thread per digit; then sums of groups, by a block per line.
extern "C" __global__ void __launch_bounds__(kThreads) sum_counts(const Args a) {
  if (!pass_of(a).runs) return;
  for (i64 task = blockIdx.x; task < a.x.n * a.groups; task += gridDim.x) {
    const i64 line = quotient(task, a.groups), first = (task - line * a.groups) * a.group;
    const i64 count = a.tiles - first < a.group ? a.tiles - first : a.group;
    const P sum = sum_rows(a.counts + (line * a.tiles + first) * 256 + threadIdx.x, count);
    (a.groups == 1 ? a.totals : a.sums)[task * 256 + threadIdx.x] = sum;
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) sum_groups(const Args a) {
  if (!pass_of(a).runs) return;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x)
    a.totals[line * 256 + threadIdx.x] = sum_rows(a.sums + line * a.groups * 256 + threadIdx.x, a.groups);
}

// Through shared memory, so that neighbours of the sorted tile are written by neighbours.
extern "C" __global__ void __launch_bounds__(kThreads, kEach > 8 ? 3 : 4) move_by_digits(const Args a) {
  __shared__ u32 counts[kWarps][256], warps[kWarps];
  __shared__ P to[256],
      sums[kWarps];  // where in the line a digit's elements go, less where they are in the sorted tile
  __shared__ u64 room[room_of(kTile * (sizeof(T) > sizeof(P) ? sizeof(T) : sizeof(P)))];
  T* const keys = (T*)room;
  P* const places = (P*)room;  // in turns
  u32* const masks = (u32*)room;
  const Pass pass = pass_of(a);
  const int shift = (int)a.shift;
  if (!pass.runs) return;
  for (i64 task = blockIdx.x; task < a.x.n * a.tiles; task += gridDim.x) {
    const i64 line = quotient(task, a.tiles), tile = task - line * a.tiles, begin = tile * kTile;
    const int live = a.length - begin < kTile ? (int)(a.length - begin) : kTile;
    T key[kEach];
    u16 rank[kEach];
    load_tile(a, pass, line, begin, live, key);
    const P of_digit = a.totals[line * 256 + threadIdx.x];
    P of_tiles = a.counts[task * 256 + threadIdx.x];
    if (a.groups > 1) of_tiles += a.sums[(line * a.groups + quotient(tile, a.group)) * 256 + threadIdx.x];
    rank_digits(key, kEach, live, shift, counts, masks, rank);
    u32 total;
    const u32 start = place_digits(counts, warps, total);
    P all;
    to[threadIdx.x] = sum_before(of_digit, sums, all) + of_tiles - (P)start;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (place_in_tile(k, kEach) >= live) continue;
      rank[k] = (u16)(rank[k] + counts[threadIdx.x >> 5][digit_of(key[k], shift)]);
      keys[rank[k]] = key[k];
    }
    // Loaded here, where keys need no registers any more: they arrive while keys are written.
    const int mine = place_in_tile(0, kEach);
    const P* own = pass.before == 0 ? a.given_places : pass.before & 1 ? a.places[0] : a.places[1];
    if (own) own += line * a.length + begin + mine;
    P place[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      place[k] = (P)(begin + mine + 32 * k);
      if (own && mine + 32 * k < live) place[k] = own[32 * k];
    }
    __syncthreads();
    const i64 offset = at(a.out, line);
    T* const keys_to = (pass.before & 1 ? a.keys[1] : a.keys[0]) + line * a.length;
    T* const values = pass.last && a.values ? a.values + offset : nullptr;
    u32 digits[kEach / 4] = {};  // four per word: registers are short
    u32 looked_up = 0;           // a bit for each whose key does not tell its value
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = threadIdx.x + k * kThreads;
      if (e >= live) continue;
      const T sorted = keys[e];
      const u32 digit = digit_of(sorted, shift);
      digits[k / 4] |= digit << 8 * (k % 4);
      const P target = to[digit] + (P)e;
      if (!pass.last) keys_to[target] = sorted;
      if (!values) continue;
      if (tells_bits(sorted)) {
        values[target * a.out_step] = bits_of_key(sorted);
      } else {
        looked_up |= 1u << k;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (mine + 32 * k < live) places[rank[k]] = place[k];
    }
    __syncthreads();
    i64* const out = (i64*)a.out.data + offset;
    P* const places_to = (pass.before & 1 ? a.places[1] : a.places[0]) + line * a.length;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = threadIdx.x + k * kThreads;
      if (e >= live) continue;
      const P target = to[digits[k / 4] >> 8 * (k % 4) & 255u] + (P)e;
      if (pass.last) {
        leave(a, out, (i64)target, (i64)places[e]);
        if (looked_up >> k & 1u) values[target * a.out_step] = line_of(a, line)[(i64)places[e] * a.x_step];
      } else {
        places_to[target] = places[e];
      }
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
