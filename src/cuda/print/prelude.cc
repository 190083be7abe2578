#include "cuda/print/sweep_text.h"

namespace ebb::cuda {

// Several literals: a compiler need not take longer ones.
static constexpr const char* kTypes = R"cuda(
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
#define EBB static __device__ __forceinline__

#ifdef __CUDACC_RTC__
EBB f32 from_f16(u16 h) { f32 x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
// Conversions of two numbers are several times cheaper than those of one.
EBB u32 to_f16x2(f32 low, f32 high) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low)); return w; }
EBB u32 to_bf16x2(f32 low, f32 high) { u32 w; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low)); return w; }
EBB u16 to_f16(f32 x) { return (u16)to_f16x2(x, 0.0f); }
EBB u16 to_bf16(f32 x) { return (u16)to_bf16x2(x, 0.0f); }
#else
EBB u32 to_f16x2(f32 low, f32 high) { return (u32)to_f16(high) << 16 | to_f16(low); }
EBB u32 to_bf16x2(f32 low, f32 high) { return (u32)to_bf16(high) << 16 | to_bf16(low); }
#endif
EBB f32 from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }

EBB f64 infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
EBB f64 not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
EBB bool is_inf(f32 x) { return fabsf(x) == (f32)infinity(); }
EBB bool is_inf(f64 x) { return fabs(x) == infinity(); }
EBB bool is_finite(f32 x) { return fabsf(x) < (f32)infinity(); }
EBB bool is_finite(f64 x) { return fabs(x) < infinity(); }

// Quotients of indices: mostly both fit 32 bits, where division is several times cheaper.
EBB i64 quotient(i64 a, i64 b) { return ((u64)a | (u64)b) >> 32 ? a / b : (i64)((u32)a / (u32)b); }

// Blocks on a multiprocessor that a kernel's registers must leave room for: fewer where they would not suffice.
#ifndef FEWER
#define FEWER 0
#endif
#define BLOCKS(n) (n - FEWER > 2 ? n - FEWER : 2)
// As a C++ cast, but NaN gives 0 and what is out of range saturates.
EBB i32 to_i32(f64 x) {
  return x != x ? 0 : x >= 2147483648.0 ? 2147483647 : x < -2147483648.0 ? -2147483647 - 1 : (i32)x;
}
EBB i64 to_i64(f64 x) {
  return x != x ? 0 : x >= 9223372036854775808.0 ? 9223372036854775807ll
         : x < -9223372036854775808.0 ? -9223372036854775807ll - 1 : (i64)x;
}

template <class T> EBB T sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; }
EBB bool sign_bit(f32 x) { return __float_as_uint(x) >> 31; }
EBB bool sign_bit(f64 x) { return __double_as_longlong(x) < 0; }
// NaN wins, and +0 is above -0.
#ifdef __CUDACC_RTC__
EBB f32 larger(f32 a, f32 b) { f32 x; asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
EBB f32 smaller(f32 a, f32 b) { f32 x; asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
#endif
template <class T> EBB T larger(T a, T b) { return a != a ? a : b != b ? b : a == b ? (sign_bit(a) ? b : a) : a > b ? a : b; }
template <class T> EBB T smaller(T a, T b) { return a != a ? a : b != b ? b : a == b ? (sign_bit(a) ? a : b) : a < b ? a : b; }
EBB i64 larger(i64 a, i64 b) { return a > b ? a : b; }
EBB i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

EBB f32 fmod_of(f32 a, f32 b) { return fmodf(a, b); }
EBB f64 fmod_of(f64 a, f64 b) { return fmod(a, b); }
EBB f32 floor_of(f32 a) { return floorf(a); }
EBB f64 floor_of(f64 a) { return floor(a); }
template <class T> EBB T floor_remainder(T a, T b) {
  const T r = fmod_of(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return sign_bit(b) ? -(T)0 : (T)0;
}
template <class T> EBB T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = fmod_of(a, b), least = (a - rest) / b;
  const T whole = rest != 0 && (rest < 0) != (b < 0) ? least - 1 : least;
  if (whole == 0) return sign_bit(a / b) ? -(T)0 : (T)0;
  const T down = floor_of(whole);
  return whole - down > (T)0.5 ? down + 1 : down;
}

// Integers wrap.
EBB i32 sum(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
EBB i64 sum(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
EBB i32 difference(i32 a, i32 b) { return (i32)((u32)a - (u32)b); }
EBB i64 difference(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
EBB i32 product(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
EBB i64 product(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
// Towards minus infinity; a divisor of 0 gives 0 and leaves everything to the remainder.
template <class T> EBB T integer_quotient(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return difference((T)0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <class T> EBB T integer_remainder(T a, T b) { return difference(a, product(b, integer_quotient(a, b))); }
template <class T> EBB T integer_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  T result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = product(result, base);
    base = product(base, base);
  }
  return result;
}

)cuda";

static constexpr const char* kRandom = R"cuda(
// Philox 4x32-10: word `at` % 4 of block `at` / 4. The key is the seed, the counter the block and the operation.
EBB u32 random_word(u64 seed, u64 operation, u64 at) {
  u32 c0 = (u32)(at >> 2), c1 = (u32)(at >> 34), c2 = (u32)operation, c3 = (u32)(operation >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const u32 which = (u32)at & 3;
  return which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3;
}
EBB f32 uniform_f32(u64 seed, u64 operation, u64 at) { return (f32)(random_word(seed, operation, at) >> 8) * 5.9604644775390625e-8f; }
EBB f64 uniform_f64(u64 seed, u64 operation, u64 at) { return random_word(seed, operation, at) * 2.3283064365386962890625e-10; }
)cuda";

static constexpr const char* kTree = R"cuda(
// What is wrong with the data, at the lowest position of the first step.
struct ErrorSlot {
  u64 key, bits;
  u32 lock, unused;
};
EBB u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
EBB u64 bits_of(f32 x) { return bits_of((f64)x); }
EBB u64 bits_of(i64 x) { return (u64)x; }
EBB u64 bits_of(i32 x) { return (u64)(i64)x; }
EBB u64 bits_of(bool x) { return x; }
static __device__ __noinline__ void complain(ErrorSlot* slot, i64 step, i64 position, int check, u64 bits) {
  volatile ErrorSlot* const seen = slot;
  const u64 key = (u64)step << 52 | (u64)position << 12 | (u64)check;
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

// The tree every sum is made by, whoever makes it. A leaf is 8 neighbours, added pairwise; a lane adds 8 leaves that lie
// 256 apart, in order; both in the type of the elements. From there on f64: a butterfly over 32 lanes makes a segment of
// 2048 elements. 1024 segments are a group: lane l adds segments l, l + 32, ... in order, eight at a time (a chunk), then
// those sums, then a butterfly; groups are added in the same way, one by one instead of eight. Integers and maxima have no rounding that an order could change, but go the same way.
struct Plus {
  EBB f32 of(f32 a, f32 b) { return a + b; }
  EBB f64 of(f64 a, f64 b) { return a + b; }
  EBB i64 of(i64 a, i64 b) { return sum(a, b); }
  template <class T> EBB T nothing() { return 0; }
};
struct Times {
  EBB f32 of(f32 a, f32 b) { return a * b; }
  EBB f64 of(f64 a, f64 b) { return a * b; }
  EBB i64 of(i64 a, i64 b) { return product(a, b); }
  template <class T> EBB T nothing() { return 1; }
};
EBB void lowest(f32& x) { x = -(f32)infinity(); }
EBB void lowest(f64& x) { x = -infinity(); }
EBB void lowest(i64& x) { x = -9223372036854775807ll - 1; }
EBB void highest(f32& x) { x = (f32)infinity(); }
EBB void highest(f64& x) { x = infinity(); }
EBB void highest(i64& x) { x = 9223372036854775807ll; }
struct Most {
  template <class T> EBB T of(T a, T b) { return larger(a, b); }
  template <class T> EBB T nothing() { T x; lowest(x); return x; }
};
struct Least {
  template <class T> EBB T of(T a, T b) { return smaller(a, b); }
  template <class T> EBB T nothing() { T x; highest(x); return x; }
};

EBB f32 other_lane(f32 x, int distance) {
  return __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x), distance));
}
template <class T> EBB T other_lane(T x, int distance) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_xor_sync(0xffffffffu, (u32)bits, distance);
  const u32 high = __shfl_xor_sync(0xffffffffu, (u32)(bits >> 32), distance);
  return from_bits(x, (u64)high << 32 | low);
}
template <class Op, int lanes = 32, class W> EBB W over_lanes(W x) {
#pragma unroll
  for (int distance = lanes / 2; distance; distance >>= 1) x = Op::of(x, other_lane(x, distance));
  return x;
}
// The same number for all threads of the block.
template <class Op, int warps = 8, class W> EBB W over_block(W x, u64* shared) {
  shared[threadIdx.x] = bits_of(x);
  __syncthreads();
  const int lane = threadIdx.x & 31;
  x = from_bits(x, shared[lane]);
  for (int warp = 1; warp < warps; ++warp) x = Op::of(x, from_bits(x, shared[warp * 32 + lane]));
  __syncthreads();
  return over_lanes<Op>(x);
}

// A lane's share of a segment of elements of type T, wide type W.
template <class Op, class T, class W> struct Reduction {
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
  template <int lanes> __device__ __forceinline__ W segment() {  // the same number for all its lanes
    const W x = over_lanes<Op, lanes>((W)part);
    part = Op::template nothing<T>();
    return x;
  }
};
// part(0), part(1)..., up to 1024 of them; the same number for all lanes.
template <class Op, class W, class Part> EBB W over_each(const Part& part, int count) {
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
template <class Op, class W> EBB W over_segments(const u64* parts, int count) {
  return over_each<Op, W>([&](int i) { return from_bits((W)0, parts[i]); }, count);
}
// A group of parts in memory, in the same order: of a full one all are on their way at once.
template <class Op, class W, int group> EBB W over_group(const u64* parts, i64 count) {
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
template <class Op, class W> EBB W over_groups(const volatile u64* sums, i64 groups) {
  W x = Op::template nothing<W>();
  for (i64 i = threadIdx.x & 31; i < groups; i += 32) x = Op::of(x, from_bits(x, sums[i]));
  return over_lanes<Op>(x);
}
// What all blocks have left, by one block; shared: 1024 numbers. `group`: how many make a group, 1024 or, where they are
// sums of chunks, 128.
template <class Op, class W, int group> EBB W over_parts(const u64* parts, i64 count, u64* shared) {
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
)cuda";

static constexpr const char* kFromBits = R"cuda(
EBB f32 from_bits(f32, u64 bits) { return (f32)__longlong_as_double((i64)bits); }
EBB f64 from_bits(f64, u64 bits) { return __longlong_as_double((i64)bits); }
EBB i64 from_bits(i64, u64 bits) { return (i64)bits; }
)cuda";

const char* prelude() {
  static const std::string* const text = new std::string(std::string(kTypes) + functions_text() + kRandom + kFromBits +
                                                         kTree + packs_text() + pairs_text());
  return text->c_str();
}

}  // namespace ebb::cuda
