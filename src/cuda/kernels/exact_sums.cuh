// SPDX-License-Identifier: MIT
// Sums of floats at more places than shared memory holds: every place has its sum in fixed point, a few integers that
// atomics add to in any order. Nothing is rounded before all is added, so the bits are the same in every run, whatever
// else is in the batch. The exponents of what is added say how many integers that takes, mostly two.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/round_to_odd.cuh"
#include "cuda/kernels/parts/scatter_places.cuh"

namespace ebb::cuda {

using Args = ExactSumsArgs<T>;

constexpr u32 kSpecial = 255;  // the exponent of infinities and NaN

// An f32 is significand · 2^(exponent - 150), below 2^24.
EBB u32 exponent_of(u32 bits) {
  const u32 field = bits >> 23 & 255u;
  return field ? field : 1;
}

extern "C" __global__ void __launch_bounds__(kThreads) find_range(const Args a) {
  constexpr int kAhead = 8;  // loads in flight
  __shared__ u32 most[2];
  if (threadIdx.x < 2) most[threadIdx.x] = 0;
  __syncthreads();
  u32 highest = 0, lowest = 0;
  for (i64 first = (i64)blockIdx.x * kThreads * kAhead + threadIdx.x; first < a.src.n;
       first += (i64)gridDim.x * kThreads * kAhead) {
    T x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 i = first + k * kThreads;
      if (i < a.src.n) x[k] = ((const T*)a.src.data)[at(a.src, i)];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * kThreads >= a.src.n) break;
      const u32 bits = __float_as_uint(load(x[k])), e = exponent_of(bits);
      if (bits << 1 == 0) continue;
      if (e > highest) highest = e;
      if (256 - e > lowest) lowest = 256 - e;
    }
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const u32 h = __shfl_xor_sync(0xffffffffu, highest, distance), l = __shfl_xor_sync(0xffffffffu, lowest, distance);
    if (h > highest) highest = h;
    if (l > lowest) lowest = l;
  }
  if ((threadIdx.x & 31) == 0) {
    atomicMax(most, highest);
    atomicMax(most + 1, lowest);
  }
  __syncthreads();
  if (threadIdx.x < 2 && most[threadIdx.x]) atomicMax(a.range + threadIdx.x, most[threadIdx.x]);
}

// Digits from the highest bit of all elements down: most elements then lie in one digit.
struct Digits {
  int bits, count;
  int shift;  // the lowest bit of an element with exponent e is that much above e
  bool special;
};
EBB Digits digits_of(const Args& a) {
  const u32 highest = a.range[0];
  Digits d{(int)a.digit_bits, 0, 0, highest == kSpecial};
  if (highest == 0) return d;  // zeros alone
  const int low = 256 - (int)a.range[1], all = (int)(d.special ? kSpecial - 1 : highest) - low + 24;
  d.count = (all + d.bits - 1) / d.bits;
  d.shift = d.count * d.bits - all - low;
  return d;
}

extern "C" __global__ void __launch_bounds__(kThreads) clear_digits(const Args a) {
  const Digits d = digits_of(a);
  EACH(i, a.places * d.count) a.digits[i] = 0;
  if (!d.special) return;
  EACH(i, a.places) a.specials[i] = 0;
}

// Many elements of one place, a padding token's, would wait for each other: where some lanes of a warp have the same
// digit as one of these, one adds for all.
constexpr int kSampledLanes = 4;
constexpr int kManyLanes = 4;

EBB void add_digit(u64* digits, u32 at, u64 x, bool live) {
  const u32 none = ~0u;
  u32 mine = live ? at : none;
#pragma unroll
  for (int s = 0; s < kSampledLanes; ++s) {
    const u32 one = __shfl_sync(0xffffffffu, mine, s * (32 / kSampledLanes));
    const bool same = mine != none && mine == one;
    const u32 alike = __ballot_sync(0xffffffffu, same);
    if (__popc(alike) < kManyLanes) continue;
    u64 all = same ? x : 0;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const u32 low = __shfl_xor_sync(0xffffffffu, (u32)all, distance);
      const u32 high = __shfl_xor_sync(0xffffffffu, (u32)(all >> 32), distance);
      all += (u64)high << 32 | low;
    }
    if (same && (alike & ((1u << (threadIdx.x & 31)) - 1)) == 0) atomicAdd(digits + at, all);
    if (same) mine = none;
  }
  if (mine != none) atomicAdd(digits + at, x);
}

extern "C" __global__ void __launch_bounds__(kThreads) add_to_digits(const Args a) {
  constexpr int kAhead = 4;  // loads in flight
  const Digits d = digits_of(a);
  const u32 reciprocal = (65536 + d.bits - 1) / d.bits;  // of positions below 512: exact
  const u64 mask = ((u64)1 << d.bits) - 1;
  for (i64 begin = (i64)blockIdx.x * kThreads * kAhead; begin < a.count; begin += (i64)gridDim.x * kThreads * kAhead) {
    i64 where[kAhead];
    T x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 e = begin + k * kThreads + threadIdx.x, i = a.first + e;
      const bool live = e < a.count;
      where[k] = live ? (i64)((const I*)a.index.data)[at(a.index, i)] : 0;
      if (live) x[k] = ((const T*)a.src.data)[at(a.src, i)];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const i64 e = begin + k * kThreads + threadIdx.x, i = a.first + e;
      bool live = e < a.count;
      i64 place = 0;
      if (live) {
        place = at(a.out, i) + where[k] * a.out_step - a.first_place;
        if ((u64)where[k] >= (u64)a.size) {
          complain_of(a, i, where[k]);
          live = false;
        }
      }
      const u32 bits = live ? __float_as_uint(load(x[k])) : 0u;
      const u32 exponent = exponent_of(bits);
      live = bits << 1 != 0;
      if (exponent == kSpecial) {
        atomicOr(a.specials + place, bits << 9 ? 4u : bits >> 31 ? 2u : 1u);
        live = false;
      }
      const u32 position = (u32)((int)exponent + d.shift), digit = live ? position * reciprocal >> 16 : 0u;
      const int up = (int)(position - digit * d.bits);
      const u64 significand = (bits & 0x7FFFFFu) | (bits >> 23 & 255u ? 0x800000u : 0u);
      u64 low = live ? significand << up & mask : 0, high = live ? significand >> (d.bits - up) : 0;
      if (bits >> 31) {
        low = 0 - low;
        high = 0 - high;
      }
      const u32 to = digit * (u32)a.places + (u32)place;
      add_digit(a.digits, to, low, low != 0);
      if (high) atomicAdd(a.digits + to + (u32)a.places, high);
    }
  }
}

constexpr int kFewDigits = 2;  // are usual, and a third of the instructions

// Rounded to odd, 42 bits or more: rounding it again to what is stored, a subnormal number too, is as rounding once.
template <int kDigits>
EBB f64 sum_to_odd(const Args& a, const Digits& d, i64 place) {
  const u64 mask = ((u64)1 << d.bits) - 1;
  i64 own[kDigits], carry = 0;
#pragma unroll
  for (int k = 0; k < kDigits; ++k) {
    if (k < d.count) {
      own[k] = (i64)a.digits[k * a.places + place];
      carry = (own[k] + carry) >> d.bits;
    }
  }
  const bool negative = carry < 0;
  carry = 0;
#pragma unroll
  for (int k = 0; k < kDigits; ++k) {
    if (k < d.count) {
      const i64 x = (negative ? -own[k] : own[k]) + carry;
      own[k] = (i64)((u64)x & mask);
      carry = x >> d.bits;
    }
  }
  // The highest 64 bits, and whether there is anything below.
  u64 top = (u64)carry, below = 0;
  int exponent = d.count * d.bits;  // of its lowest bit, in the digits
#pragma unroll
  for (int k = kDigits - 1; k >= 0; --k) {
    if (k >= d.count) continue;
    const int room = __clzll((i64)top), taken = room < d.bits ? room : d.bits, left = d.bits - taken;
    top = top << taken | (u64)own[k] >> left;
    below |= (u64)own[k] & (((u64)1 << left) - 1);
    exponent -= taken;
  }
  if (top >> 53) {  // an f64 has 53
    below |= top & 2047u;
    top >>= 11;
    exponent += 11;
  }
  const f64 scale = from_bits(0.0, (u64)(1023 + exponent - d.shift - 150) << 52);
  const f64 size = (f64)(top | (below ? 1u : 0u)) * scale;
  return negative ? -size : size;
}

extern "C" __global__ void __launch_bounds__(kThreads) round_sums(const Args a) {
  const Digits d = digits_of(a);
  EACH(i, a.places) {
    const f64 exact = d.count <= kFewDigits ? sum_to_odd<kFewDigits>(a, d, i) : sum_to_odd<kMostDigits>(a, d, i);
    f32 sum = sizeof(T) == 2 ? to_odd(exact) : (f32)exact;
    const u32 special = d.special ? a.specials[i] : 0u;
    if (special) sum = __uint_as_float(special == 1 ? 0x7F800000u : special == 2 ? 0xFF800000u : 0x7FC00000u);
    a.sums[a.first_place + i] = store(sum);
  }
}

}  // namespace ebb::cuda
