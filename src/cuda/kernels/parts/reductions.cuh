// SPDX-License-Identifier: MIT
// Complaints about data, and reductions.
#pragma once
#include "cuda/kernels/args/error_slot.h"
#include "cuda/kernels/parts/arithmetic.cuh"

namespace ebb::cuda {

EBB f32 from_bits(f32, u64 bits) { return (f32)__longlong_as_double((i64)bits); }
EBB f64 from_bits(f64, u64 bits) { return __longlong_as_double((i64)bits); }
EBB i64 from_bits(i64, u64 bits) { return (i64)bits; }
EBB i32 from_bits(i32, u64 bits) { return (i32)bits; }

EBB u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
EBB u64 bits_of(f32 x) { return bits_of((f64)x); }
EBB u64 bits_of(i64 x) { return (u64)x; }
EBB u64 bits_of(i32 x) { return (u64)(i64)x; }
EBB u64 bits_of(bool x) { return x; }
static __device__ __noinline__ void complain(ErrorSlot* slot, i64 step, i64 position, int check, u64 bits) {
  volatile ErrorSlot* const seen = slot;
  constexpr int kOfStep = ErrorSlot::kCheckBits + ErrorSlot::kPositionBits;
  const u64 key = (u64)step << kOfStep | (u64)position << ErrorSlot::kCheckBits | (u64)check;
  for (bool done = seen->key <= key; !done;) {
    if (atomicCAS(&slot->lock, 0u, 1u)) continue;
    __threadfence_system();
    if (key < seen->key) {
      seen->key = key;
      seen->bits = bits;
    }
    __threadfence_system();
    atomicExch(&slot->lock, 0u);
    done = true;
  }
}
EBB void complain(const Complaints& to, i64 position, int check, u64 bits) {
  complain(to.slot, to.step, position, check, bits);
}

// The tree every sum is made by, whoever makes it. A leaf is 8 neighbours, added pairwise; a lane adds 8 leaves that
// lie 256 apart, in order; both in the type of the elements. From there on f64: a butterfly over 32 lanes makes a
// segment of 2048 elements. 1024 segments are a group: lane l adds segments l, l + 32, ... in order, eight at a time (a
// chunk), then those sums, then a butterfly; groups are added in the same way, one by one instead of eight. Integers
// and maxima have no rounding that an order could change, but go the same way.
struct Plus {
  EBB f32 of(f32 a, f32 b) { return a + b; }
  EBB f64 of(f64 a, f64 b) { return a + b; }
  EBB i64 of(i64 a, i64 b) { return sum(a, b); }
  template <class T>
  EBB T nothing() {
    return 0;
  }
};
struct Times {
  EBB f32 of(f32 a, f32 b) { return a * b; }
  EBB f64 of(f64 a, f64 b) { return a * b; }
  EBB i64 of(i64 a, i64 b) { return product(a, b); }
  template <class T>
  EBB T nothing() {
    return 1;
  }
};
EBB void lowest(f32& x) { x = -(f32)infinity(); }
EBB void lowest(f64& x) { x = -infinity(); }
EBB void lowest(i64& x) { x = -9223372036854775807ll - 1; }
EBB void highest(f32& x) { x = (f32)infinity(); }
EBB void highest(f64& x) { x = infinity(); }
EBB void highest(i64& x) { x = 9223372036854775807ll; }
struct Most {
  template <class T>
  EBB T of(T a, T b) {
    return larger(a, b);
  }
  template <class T>
  EBB T nothing() {
    T x;
    lowest(x);
    return x;
  }
};
struct Least {
  template <class T>
  EBB T of(T a, T b) {
    return smaller(a, b);
  }
  template <class T>
  EBB T nothing() {
    T x;
    highest(x);
    return x;
  }
};

EBB f32 other_lane(f32 x, int distance) {
  return __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x), distance));
}
template <class T>
EBB T other_lane(T x, int distance) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_xor_sync(0xffffffffu, (u32)bits, distance);
  const u32 high = __shfl_xor_sync(0xffffffffu, (u32)(bits >> 32), distance);
  return from_bits(x, (u64)high << 32 | low);
}
template <class Op, int lanes = 32, class W>
EBB W over_lanes(W x) {
#pragma unroll
  for (int distance = lanes / 2; distance; distance >>= 1) x = Op::of(x, other_lane(x, distance));
  return x;
}
// The same number for all threads of the block.
template <class Op, int warps = 8, class W>
EBB W over_block(W x, u64* shared) {
  shared[threadIdx.x] = bits_of(x);
  __syncthreads();
  const int lane = threadIdx.x & 31;
  x = from_bits(x, shared[lane]);
  for (int warp = 1; warp < warps; ++warp) x = Op::of(x, from_bits(x, shared[warp * 32 + lane]));
  __syncthreads();
  return over_lanes<Op>(x);
}

// A lane's share of a segment of elements of type T, wide type W.
template <class Op, class T, class W>
struct Reduction {
  T p0, p1, p2, part;
  __device__ __forceinline__ Reduction() : part(Op::template nothing<T>()) {}
  __device__ __forceinline__ void add(int j, T x) {  // j of its leaf
    if (!(j & 1)) {
      p0 = x;
      return;
    }
    x = Op::of(p0, x);
    if (!(j & 2)) {
      p1 = x;
      return;
    }
    x = Op::of(p1, x);
    if (!(j & 4)) {
      p2 = x;
      return;
    }
    part = Op::of(part, Op::of(p2, x));
  }
  template <int lanes>
  __device__ __forceinline__ W segment() {  // the same number for all its lanes
    const W x = over_lanes<Op, lanes>((W)part);
    part = Op::template nothing<T>();
    return x;
  }
};
// part(0), part(1)..., up to 1024 of them; the same number for all lanes.
template <class Op, class W, class Part>
EBB W over_each(const Part& part, int count) {
  W x = Op::template nothing<W>();
  const int lane = threadIdx.x & 31;
  if (count <= 32) {  // groups of so many lanes add the same; what other lanes would add is nothing
    const int lanes = count > 16 ? 32 : count > 8 ? 16 : count > 4 ? 8 : count > 2 ? 4 : count > 1 ? 2 : 1;
    const int i = lane & (lanes - 1);
    if (i < count) x = Op::of(x, part(i));
    for (int distance = lanes >> 1; distance; distance >>= 1) x = Op::of(x, other_lane(x, distance));
    return x;
  }
  for (int i = lane; i < count; i += 256) {
    W chunk = Op::template nothing<W>();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (i + 32 * k < count) chunk = Op::of(chunk, part(i + 32 * k));
    }
    x = Op::of(x, chunk);
  }
  return over_lanes<Op>(x);
}
template <class Op, class W>
EBB W over_segments(const u64* parts, int count) {
  return over_each<Op, W>([&](int i) { return from_bits((W)0, parts[i]); }, count);
}
// A group of parts in memory, in the same order: of a full one all are on their way at once.
template <class Op, class W, int group>
EBB W over_group(const u64* parts, i64 count) {
  if (count < group) return over_segments<Op, W>(parts, (int)count);
  const int lane = threadIdx.x & 31;
  u64 part[group / 32];
#pragma unroll
  for (int k = 0; k < group / 32; ++k) part[k] = parts[lane + 32 * k];
  __syncwarp();  // the compiler shall not begin to add in between, which would save registers
  W x = Op::template nothing<W>();
#pragma unroll
  for (int first = 0; first < group / 32; first += 8) {
    W chunk = Op::template nothing<W>();
#pragma unroll
    for (int k = first; k < first + 8 && k < group / 32; ++k) chunk = Op::of(chunk, from_bits(x, part[k]));
    x = Op::of(x, chunk);
  }
  return over_lanes<Op>(x);
}
// A row's sum from those of its segments in memory, by all threads of a block; rows of more segments than a group has
// are added a group per warp, and a lane adds every 32nd group. `sums`: 32 words of shared memory.
template <class Op, class W, int group>
EBB W over_row(const u64* parts, i64 count, u64* sums) {
  if (count <= group) return over_segments<Op, W>(parts, (int)count);
  const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  W top = Op::template nothing<W>();
  for (i64 base = 0; base < count; base += 32 * group) {
    __syncthreads();
    for (int g = threadIdx.x >> 5; g < 32 && base + g * group < count; g += warps) {
      const i64 first = base + g * group;
      const W sum = over_group<Op, W, group>(parts + first, count - first);
      if (lane == 0) sums[g] = bits_of(sum);
    }
    __syncthreads();
    if (base + lane * group < count) top = Op::of(top, from_bits((W)0, sums[lane]));
  }
  return over_lanes<Op>(top);
}
// The kernel behind a sweep is there before that has ended, and waits.
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 900
EBB void wait_for_sweep() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
EBB void wait_for_sweep() {}
#endif
// Many parts are added by several blocks: each leaves the sums of some groups, and the last of them adds those.
template <class Op, class W, int group>
EBB void leave_groups(const u64* parts, i64 count, u64* sums, unsigned block, unsigned blocks) {
  const int warps = blockDim.x >> 5;
  const i64 groups = (count + group - 1) / group;
  for (i64 g = (i64)block * warps + (threadIdx.x >> 5); g < groups; g += (i64)blocks * warps) {
    const i64 base = g * group;
    const W y = over_group<Op, W, group>(parts + base, count - base);
    if ((threadIdx.x & 31) == 0) sums[g] = bits_of(y);
  }
}
EBB bool is_last(u64* counter, unsigned blocks, u64* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared[0] = atomicAdd((u32*)counter, 1u) == blocks - 1;
  __syncthreads();
  const bool last = shared[0] != 0;
  __threadfence();
  return last;
}
template <class Op, class W>
EBB W over_groups(const volatile u64* sums, i64 groups) {
  W x = Op::template nothing<W>();
  for (i64 i = threadIdx.x & 31; i < groups; i += 32) x = Op::of(x, from_bits(x, sums[i]));
  return over_lanes<Op>(x);
}
// Adds what all blocks have left, by one block; shared: 1024 numbers. `group`: how many make a group, 1024 or, where
// they are sums of chunks, 128.
template <class Op, class W, int group>
EBB W over_parts(const u64* parts, i64 count, u64* shared) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const i64 groups = (count + group - 1) / group;
  W x = Op::template nothing<W>();
  for (i64 first = 0; first < groups; first += 1024) {
    const int here = groups - first < 1024 ? (int)(groups - first) : 1024;
    for (int g = warp; g < here; g += warps) {
      const i64 base = (first + g) * group;
      const W y = over_group<Op, W, group>(parts + base, count - base);
      if (lane == 0) shared[g] = bits_of(y);
    }
    __syncthreads();
    for (int i = lane; i < here; i += 32) x = Op::of(x, from_bits(x, shared[i]));
    __syncthreads();
  }
  return over_lanes<Op>(x);
}

}  // namespace ebb::cuda
