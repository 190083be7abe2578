// SPDX-License-Identifier: MIT
// A range of the sorted order without the rest of it. The keys at its first and at its last place are found digit by
// digit from the highest on, by histograms of the elements that agree with them so far. What lies between them is
// collected in the order of the line, with as many equal ones as belong to the range, and then sorted.
// A block has a whole line, where there are many lines, and keeps in shared memory what is left of it as soon as that
// is little; otherwise blocks have pieces of it, one launch per digit.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/order_keys.cuh"

namespace ebb::cuda {

using Args = SelectArgs<T>;

struct Bound {
  T key;     // the digits found so far
  u32 rank;  // its place among the elements that have these
};
struct Bounds {
  Bound low, high;
};
EBB Bounds all_of(const Args& a) { return {{0, (u32)a.first}, {0, (u32)(a.first + a.count - 1)}}; }

struct Exchange {
  u32 warps[kWarps], digit, rank;
};

EBB T known_at(int shift) { return shift + 8 < kKeyBits ? (T)((T) ~(T)0 << (shift + 8)) : (T)0; }
EBB bool agree(T a, T b, T known) { return (T)((a ^ b) & known) == 0; }

EBB void add_digit(Bound& b, const u32* counts, int shift, Exchange& shared) {
  const u32 mine = counts[threadIdx.x];
  u32 all;
  const u32 place = b.rank - sum_before(mine, shared.warps, all);
  if (place < mine) {
    shared.digit = threadIdx.x;
    shared.rank = place;
  }
  __syncthreads();
  b.key = (T)(b.key | (T)((T)shared.digit << shift));
  b.rank = shared.rank;
  __syncthreads();
}
// `counts`: of both bounds; of the first alone, where they agree so far.
EBB void add_digits(Bounds& b, const u32* counts, int shift, Exchange& shared) {
  const bool same = agree(b.low.key, b.high.key, known_at(shift));
  add_digit(b.low, counts, shift, shared);
  add_digit(b.high, counts + (same ? 0 : 256), shift, shared);
}

// Where keys come from: a line, or what was kept of it.
struct Line {
  const T* x;
  i64 step;
  __device__ __forceinline__ T key(i64 i) const { return key_of(x[i * step]); }
  __device__ __forceinline__ u32 place(i64 i) const { return (u32)i; }
};
struct Kept {
  T keys[kSelectKept];
  u32 places[kSelectKept];
  u32 warps[kWarps];
  __device__ __forceinline__ T key(i64 i) const { return keys[i]; }
  __device__ __forceinline__ u32 place(i64 i) const { return places[i]; }
};

template <class From>
EBB void load_batch(const From& from, i64 first, i64 end, T (&key)[kSelectEach]) {
#pragma unroll
  for (int k = 0; k < kSelectEach; ++k) {
    const i64 i = first + k * kThreads + threadIdx.x;
    key[k] = i < end ? from.key(i) : (T)0;
  }
}
// The same elements with neighbours in one thread, where their order counts.
template <class From>
EBB i64 load_neighbours(const From& from, i64 first, i64 end, T (&key)[kSelectEach]) {
  const i64 mine = first + (i64)threadIdx.x * kSelectEach;
#pragma unroll
  for (int k = 0; k < kSelectEach; ++k) key[k] = mine + k < end ? from.key(mine + k) : (T)0;
  return mine;
}

// Counters that lanes share by turns: the highest digit of most data has few values, and atomics at one of them wait
// for each other.
constexpr int kCopies = 8;

struct Counters {
  u32 of[2 * 256 * kCopies], all[2 * 256];
};
EBB void clear_counters(Counters& c) {
#pragma unroll
  for (int k = 0; k < 2 * kCopies; ++k) c.of[threadIdx.x + k * 256] = 0;
  __syncthreads();
}
EBB void add_counters(Counters& c) {
  __syncthreads();
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int digit = threadIdx.x + 256 * side;
    u32 total = 0;
#pragma unroll
    for (int k = 0; k < kCopies; ++k) total += c.of[digit * kCopies + (k + threadIdx.x / 4) % kCopies];
    c.all[digit] = total;
  }
  __syncthreads();
}

template <class From>
EBB void count_piece(const From& from, i64 begin, i64 end, const Bounds& b, int shift, Counters& counters) {
  const T known = known_at(shift);
  u32* const counts = counters.of + threadIdx.x % kCopies;
  for (i64 first = begin; first < end; first += kSelectBatch) {
    T key[kSelectEach];
    load_batch(from, first, end, key);
#pragma unroll
    for (int k = 0; k < kSelectEach; ++k) {
      if (first + k * kThreads + threadIdx.x >= end) continue;
      if (agree(key[k], b.low.key, known)) {
        atomicAdd(counts + digit_of(key[k], shift) * kCopies, 1u);
      } else if (agree(key[k], b.high.key, known)) {
        atomicAdd(counts + (256 + digit_of(key[k], shift)) * kCopies, 1u);
      }
    }
  }
}

// 1: the first key, 2: the last, 3: between them, 0: none of these.
EBB int kind_of(const Bounds& b, T key) {
  if (key == b.low.key) return 1;
  if (key == b.high.key) return 2;
  return key > b.low.key && key < b.high.key ? 3 : 0;
}

// `seen`: of each kind, in the line before.
template <class From>
EBB void collect_piece(const Args& a, const From& from, i64 line, i64 begin, i64 end, const Bounds& b, const u32* seen,
                       u64* warps) {
  u32 low = seen[0], high = seen[1], between = seen[2];
  const u32 skipped = b.low.rank, high_end = b.high.rank + 1;
  const u32 low_end = b.low.key == b.high.key ? high_end : ~0u;
  for (i64 first = begin; first < end; first += kSelectBatch) {
    T key[kSelectEach];
    const i64 mine = load_neighbours(from, first, end, key);
    u64 kinds = 0;  // how many there are of each: three numbers, of 21 bits each
#pragma unroll
    for (int k = 0; k < kSelectEach; ++k) {
      const int kind = mine + k < end ? kind_of(b, key[k]) : 0;
      if (kind) kinds += (u64)1 << 21 * (kind - 1);
    }
    if (!__syncthreads_or(kinds != 0)) continue;
    constexpr u32 kMask = (1u << 21) - 1;
    u64 all;
    const u64 before = sum_before(kinds, warps, all);
    u32 lows = low + ((u32)before & kMask), highs = high + ((u32)(before >> 21) & kMask),
        betweens = between + (u32)(before >> 42);
#pragma unroll
    for (int k = 0; k < kSelectEach; ++k) {
      const int kind = mine + k < end ? kind_of(b, key[k]) : 0;
      if ((kind == 1 && lows >= skipped && lows < low_end) || (kind == 2 && highs < high_end) || kind == 3) {
        const u32 from_low = lows < skipped ? 0 : (lows < low_end ? lows : low_end) - skipped;
        const u32 to = from_low + (highs < high_end ? highs : high_end) + betweens;
        a.keys_to[line * a.count + to] = key[k];
        a.places_to[line * a.count + to] = from.place(mine + k);
      }
      lows += kind == 1;
      highs += kind == 2;
      betweens += kind == 3;
    }
    low += (u32)all & kMask;
    high += (u32)(all >> 21) & kMask;
    between += (u32)(all >> 42);
    __syncthreads();
  }
}

// Keeps the elements whose digits down to `shift` are not outside the bounds, in order.
EBB void keep_range(const Line& from, i64 length, const Bounds& b, int shift, Kept& kept) {
  const T known = (T)((T) ~(T)0 << shift), low = (T)(b.low.key & known), high = (T)(b.high.key & known);
  u32 count = 0;
  for (i64 first = 0; first < length; first += kSelectBatch) {
    T key[kSelectEach];
    const i64 mine = load_neighbours(from, first, length, key);
    const auto belongs = [&](int k) {
      const T digits = (T)(key[k] & known);
      return mine + k < length && digits >= low && digits <= high;
    };
    u32 own = 0;
#pragma unroll
    for (int k = 0; k < kSelectEach; ++k) own += belongs(k);
    u32 all, to = count + sum_before(own, kept.warps, all);
#pragma unroll
    for (int k = 0; k < kSelectEach; ++k) {
      if (!belongs(k)) continue;
      kept.keys[to] = key[k];
      kept.places[to++] = from.place(mine + k);
    }
    count += all;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) select_lines(const Args a) {
  __shared__ Counters counters;
  __shared__ Kept kept;
  __shared__ u32 seen[3];
  __shared__ u64 warps[kWarps];
  __shared__ Exchange shared;
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const Line whole{(const T*)a.x.data + at(a.x, line), a.x_step};
    Bounds b = all_of(a);
    u32 left = 0;  // elements kept; 0: the line is read
    for (int shift = kKeyBits - 8; shift >= 0; shift -= 8) {
      const bool same = agree(b.low.key, b.high.key, known_at(shift));
      const u32 wanted = b.high.rank - b.low.rank;  // less one, where the bounds are the same so far
      clear_counters(counters);
      if (left) {
        count_piece(kept, 0, left, b, shift, counters);
      } else {
        count_piece(whole, 0, a.length, b, shift, counters);
      }
      add_counters(counters);
      add_digits(b, counters.all, shift, shared);
      if (left || !same) continue;
      // Elements that begin like the first key, like the last one, and what is between them.
      const u32 inside = wanted + b.low.rank - b.high.rank + counters.all[digit_of(b.high.key, shift)];
      if (inside <= kSelectKept) {
        keep_range(whole, a.length, b, shift, kept);
        left = inside;
      }
    }
    if (threadIdx.x < 3) seen[threadIdx.x] = 0;
    __syncthreads();
    if (left) {
      collect_piece(a, kept, line, 0, left, b, seen, warps);
    } else {
      collect_piece(a, whole, line, 0, a.length, b, seen, warps);
    }
    __syncthreads();
  }
}

// A piece of a line, and its bounds down to a digit by the histograms of launches before.
struct Piece {
  i64 line, number, begin, end;
};
EBB Piece piece_of(const Args& a, i64 task) {
  const i64 line = quotient(task, a.pieces), number = task - line * a.pieces, begin = number * a.piece;
  return {line, number, begin, begin + a.piece < a.length ? begin + a.piece : a.length};
}
EBB u32* histogram(const Args& a, i64 line, int shift) {
  return a.histograms + (line * (i64)sizeof(T) + shift / 8) * 512;
}
EBB Bounds bounds_above(const Args& a, i64 line, int shift, Exchange& shared) {
  Bounds b = all_of(a);
  for (int s = kKeyBits - 8; s > shift; s -= 8) add_digits(b, histogram(a, line, s), s, shared);
  return b;
}

extern "C" __global__ void __launch_bounds__(kThreads) count_next_digit(const Args a) {
  __shared__ Counters counters;
  __shared__ Exchange shared;
  const int shift = (int)a.shift;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const Piece p = piece_of(a, task);
    const Bounds b = bounds_above(a, p.line, shift, shared);
    clear_counters(counters);
    count_piece(Line{(const T*)a.x.data + at(a.x, p.line), a.x_step}, p.begin, p.end, b, shift, counters);
    add_counters(counters);
    u32* const to = histogram(a, p.line, shift);
#pragma unroll
    for (int k = threadIdx.x; k < 512; k += kThreads) {
      if (counters.all[k]) atomicAdd(to + k, counters.all[k]);
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) count_chosen(const Args a) {
  __shared__ u32 sums[3];
  __shared__ Exchange shared;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const Piece p = piece_of(a, task);
    const Bounds b = bounds_above(a, p.line, -1, shared);
    const Line x{(const T*)a.x.data + at(a.x, p.line), a.x_step};
    u32 n[3] = {0, 0, 0};
    for (i64 first = p.begin; first < p.end; first += kSelectBatch) {
      T key[kSelectEach];
      load_batch(x, first, p.end, key);
#pragma unroll
      for (int k = 0; k < kSelectEach; ++k) {
        const int kind = first + k * kThreads + threadIdx.x < p.end ? kind_of(b, key[k]) : 0;
#pragma unroll
        for (int c = 0; c < 3; ++c) n[c] += kind == c + 1;
      }
    }
    if (threadIdx.x < 3) sums[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      if (n[c]) atomicAdd(&sums[c], n[c]);
    }
    __syncthreads();
    if (threadIdx.x < 3) a.chosen[task * 3 + threadIdx.x] = sums[threadIdx.x];
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) collect_chosen(const Args a) {
  __shared__ u32 seen[3];
  __shared__ u64 warps[kWarps];
  __shared__ Exchange shared;
  for (i64 task = blockIdx.x; task < a.x.n * a.pieces; task += gridDim.x) {
    const Piece p = piece_of(a, task);
    const Bounds b = bounds_above(a, p.line, -1, shared);
    if (threadIdx.x < 3) seen[threadIdx.x] = 0;
    __syncthreads();
    for (i64 piece = threadIdx.x; piece < p.number; piece += kThreads) {
#pragma unroll
      for (int c = 0; c < 3; ++c) atomicAdd(&seen[c], a.chosen[(p.line * a.pieces + piece) * 3 + c]);
    }
    __syncthreads();
    collect_piece(a, Line{(const T*)a.x.data + at(a.x, p.line), a.x_step}, p.line, p.begin, p.end, b, seen, warps);
    __syncthreads();
  }
}

}  // namespace ebb::cuda
