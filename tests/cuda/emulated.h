// SPDX-License-Identifier: MIT
// The part of CUDA that a printed kernel needs to run on the CPU: every thread of a block is a fiber, and fibers take
// turns in a shuffled order wherever they wait for each other. Compiled together with the kernels, by a C++ compiler at
// run time, without the headers of the C++ library: loading them, precompiled, took a third of a kernel's compilation.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
// A text's shared memory lies in a section of its own, which is poisoned before a block begins.
#define __shared__ static __attribute__((section(EBB_SHARED_SECTION)))

// As in CUDA, and in C++'s <cmath>: the functions of a double are overloaded for a float. A compiler whose folders of
// headers come from the environment finds C++'s math.h after all, which has them.
#ifndef _GLIBCXX_CMATH
#define EBB_OF_FLOAT(name) \
  inline float name(float x) { return name##f(x); }
#define EBB_OF_FLOATS(name) \
  inline float name(float x, float y) { return name##f(x, y); }
EBB_OF_FLOAT(fabs)
EBB_OF_FLOAT(sqrt)
EBB_OF_FLOAT(exp)
EBB_OF_FLOAT(exp2)
EBB_OF_FLOAT(expm1)
EBB_OF_FLOAT(log)
EBB_OF_FLOAT(log1p)
EBB_OF_FLOAT(log2)
EBB_OF_FLOAT(sin)
EBB_OF_FLOAT(cos)
EBB_OF_FLOAT(tan)
EBB_OF_FLOAT(tanh)
EBB_OF_FLOAT(erf)
EBB_OF_FLOAT(erfc)
EBB_OF_FLOAT(lgamma)
EBB_OF_FLOAT(tgamma)
EBB_OF_FLOAT(floor)
EBB_OF_FLOAT(ceil)
EBB_OF_FLOAT(rint)
EBB_OF_FLOAT(trunc)
EBB_OF_FLOATS(pow)
EBB_OF_FLOATS(fmod)
EBB_OF_FLOATS(fmin)
EBB_OF_FLOATS(fmax)
EBB_OF_FLOATS(copysign)
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
#endif

struct Index {
  unsigned x, y, z;
};
static Index threadIdx, blockIdx, gridDim, blockDim;

namespace emulated {

constexpr unsigned kThreads = 1024, kWarp = 32;  // the most of a block
constexpr size_t kStack = 128 << 10;

alignas(16) static char dynamic[228 << 10];  // its size is the launch's

struct Barrier {
  unsigned arrived = 0, turn = 0;
};
// Where a fiber goes on. The compiler's own jumps where there are any: a thread sanitizer keeps account of setjmp by
// the one stack that it takes a thread to have.
#if defined(__GNUC__) && !defined(__clang__)
typedef void* Place[5];
#define EBB_SET_PLACE(place) __builtin_setjmp(place)
[[noreturn]] __attribute__((noinline)) static void go_to(Place& place) { __builtin_longjmp(place, 1); }
#else
typedef jmp_buf Place;
#define EBB_SET_PLACE(place) _setjmp(place)
[[noreturn]] static void go_to(Place& place) { _longjmp(place, 1); }
#endif
struct Fiber {
  Place at;
  ucontext_t first;
  char* stack = nullptr;
  bool started = false;
};
// A thread gets a fiber when it begins and gives it back at its end: threads that never wait share one.
static Fiber fibers[kThreads], *fiber_of[kThreads], *free_fibers[kThreads];
static unsigned free_count;
static Place scheduler;
static ucontext_t scheduler_first;
static Barrier of_block, of_warp[kThreads / kWarp], of_turns[8];
static unsigned long long lanes[2][kThreads];  // of one shuffle and the next
static unsigned long turns = 0;                // of barriers: whether anything still moves
static void (*kernel)(const void*);
static const void* arguments;

// Copies to shared memory land as late as they may: when their group is waited for, or at the end.
struct Copy {
  void* to;
  const void* from;  // null: zeros
  unsigned group;
};
constexpr unsigned kCopies = 256;  // of a thread on their way
static Copy copies[kThreads][kCopies];
static unsigned copy_count[kThreads], copy_groups[kThreads];
inline void begin_copy(void* to, const void* from) {
  const unsigned me = threadIdx.x;
  if (copy_count[me] == kCopies) {
    fprintf(stderr, "emulated device: more than %u copies are on their way\n", kCopies);
    abort();
  }
  copies[me][copy_count[me]++] = {to, from, copy_groups[me]};
}
inline void land(unsigned groups) {
  const unsigned me = threadIdx.x, count = copy_count[me];
  copy_count[me] = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Copy c = copies[me][i];
    if (c.group >= groups) {
      copies[me][copy_count[me]++] = c;
    } else if (c.from) {
      memcpy(c.to, c.from, 16);
    } else {
      memset(c.to, 0, 16);
    }
  }
}

inline void yield() {
  if (!EBB_SET_PLACE(fiber_of[threadIdx.x]->at)) go_to(scheduler);
}
inline void wait(Barrier& barrier, unsigned count) {
  const unsigned turn = barrier.turn;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.turn;
    ++turns;
    return;
  }
  while (barrier.turn == turn) yield();
}
static bool done[kThreads];
// A fiber is made once, which costs system calls, and then runs one thread after the other.
static void body() {
  for (;;) {
    kernel(arguments);
    land(~0u);
    copy_groups[threadIdx.x] = 0;
    done[threadIdx.x] = true;
    yield();
  }
}
inline void resume(unsigned t) {
  threadIdx.x = t;
  if (!fiber_of[t]) fiber_of[t] = free_fibers[--free_count];
  Fiber& f = *fiber_of[t];
  if (EBB_SET_PLACE(scheduler)) return;
  if (f.started) go_to(f.at);
  f.started = true;
  if (!f.stack) f.stack = static_cast<char*>(malloc(kStack));
  getcontext(&f.first);
  f.first.uc_stack.ss_sp = f.stack;
  f.first.uc_stack.ss_size = kStack;
  f.first.uc_link = nullptr;
  makecontext(&f.first, body, 0);
  setcontext(&f.first);
}
inline unsigned random_number(unsigned long long& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>(state >> 33);
}
inline void shuffle(unsigned* order, unsigned n, unsigned long long& state) {
  for (unsigned i = n; i > 1; --i) {
    const unsigned j = random_number(state) % i, x = order[i - 1];
    order[i - 1] = order[j];
    order[j] = x;
  }
}

// Shared memory of the text: [shared, shared_end), and `bytes` of the launch's.
static int launch(void (*what)(const void*), unsigned blocks, unsigned count, char* shared, char* shared_end,
                  unsigned bytes, const void* args, unsigned long long seed) {
  if (!free_fibers[0]) {
    for (Fiber& f : fibers) free_fibers[free_count++] = &f;
  }
  kernel = what;
  arguments = args;
  gridDim = {blocks, 1, 1};
  blockDim = {count, 1, 1};
  unsigned* const order = static_cast<unsigned*>(malloc(blocks * sizeof(unsigned)));
  for (unsigned b = 0; b < blocks; ++b) order[b] = b;
  shuffle(order, blocks, seed);
  unsigned threads[kThreads];
  for (unsigned t = 0; t < count; ++t) threads[t] = t;
  for (unsigned b = 0; b < blocks; ++b) {
    blockIdx = {order[b], 0, 0};
    memset(shared, 0xA5, static_cast<size_t>(shared_end - shared));
    memset(dynamic, 0xA5, bytes);
    of_block = {};
    for (Barrier& w : of_warp) w = {};
    for (Barrier& w : of_turns) w = {};
    memset(done, 0, count);
    shuffle(threads, count, seed);
    for (unsigned left = count; left;) {
      const unsigned long before = turns;
      const unsigned left_before = left;
      for (unsigned i = 0; i < count; ++i) {
        const unsigned t = threads[i];
        if (done[t]) continue;
        resume(t);
        if (!done[t]) continue;
        --left;
        free_fibers[free_count++] = fiber_of[t];
        fiber_of[t] = nullptr;
      }
      if (left && left == left_before && before == turns) {
        fprintf(stderr, "emulated device: %u threads of block %u wait for ever\n", left, order[b]);
        free(order);
        for (unsigned t = 0; t < count; ++t) {
          if (!fiber_of[t]) continue;
          fiber_of[t]->started = false;  // it is in the middle of something
          free_fibers[free_count++] = fiber_of[t];
          fiber_of[t] = nullptr;
        }
        return 1;
      }
    }
  }
  free(order);
  return 0;
}

template <class Args>
Args argument_of(void (*)(Args));  // of a kernel

}  // namespace emulated

inline void __syncthreads() { emulated::wait(emulated::of_block, blockDim.x); }
inline int __syncthreads_or(int x) {
  static int any = 0;
  if (x) any = 1;
  __syncthreads();
  const int result = any;
  __syncthreads();
  any = 0;
  __syncthreads();
  return result;
}
template <class T>
inline T __shfl_sync(unsigned, T x, int lane) {
  using namespace emulated;
  const unsigned me = threadIdx.x;
  Barrier& warp = of_warp[me / kWarp];
  unsigned long long* const side = lanes[warp.turn % 2];  // who is one shuffle ahead writes to the other one
  memcpy(&side[me], &x, sizeof(T));
  wait(warp, kWarp);
  memcpy(&x, &side[me / kWarp * kWarp + static_cast<unsigned>(lane) % kWarp], sizeof(T));
  return x;
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T x, int distance) {
  return __shfl_sync(mask, x, static_cast<int>(threadIdx.x) ^ distance);
}
inline unsigned __ballot_sync(unsigned, int x) {
  using namespace emulated;
  const unsigned me = threadIdx.x, first = me / kWarp * kWarp;
  Barrier& warp = of_warp[me / kWarp];
  const unsigned long long* const side = lanes[warp.turn % 2];
  lanes[warp.turn % 2][me] = x != 0;
  wait(warp, kWarp);
  unsigned set = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) set |= static_cast<unsigned>(side[first + lane]) << lane;
  return set;
}
inline unsigned __match_any_sync(unsigned, unsigned x) {
  using namespace emulated;
  const unsigned me = threadIdx.x, first = me / kWarp * kWarp;
  Barrier& warp = of_warp[me / kWarp];
  const unsigned long long* const side = lanes[warp.turn % 2];
  lanes[warp.turn % 2][me] = x;
  wait(warp, kWarp);
  unsigned alike = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) alike |= static_cast<unsigned>(side[first + lane] == x) << lane;
  return alike;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned x) {
  for (int distance = 1; distance < 32; distance *= 2) x += __shfl_xor_sync(mask, x, distance);
  return x;
}
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline void __syncwarp() { emulated::wait(emulated::of_warp[threadIdx.x / emulated::kWarp], emulated::kWarp); }
inline void __threadfence_system() {}
inline void __threadfence() {}

// A GPU refuses to access what is not aligned.
inline void must_be_aligned(const void* at, int bytes) {
  if (reinterpret_cast<unsigned long long>(at) % static_cast<unsigned>(bytes) == 0) return;
  fprintf(stderr, "emulated device: %p is not a multiple of %d bytes\n", at, bytes);
  abort();
}

#define DYNAMIC_SHARED(name) char* const name = emulated::dynamic
template <bool whole>
inline void copy16(void* to, const void* from) {
  must_be_aligned(to, 16);
  emulated::begin_copy(to, from);
}
inline void copy16_or_zeros(void* to, const void* from, bool live) {
  must_be_aligned(to, 16);
  if (live) must_be_aligned(from, 16);
  emulated::begin_copy(to, live ? from : nullptr);
}
inline void copies_begun() { ++emulated::copy_groups[threadIdx.x]; }
template <int left>
inline void wait_for_copies() {
  const unsigned begun = emulated::copy_groups[threadIdx.x];
  emulated::land(begun > left ? begun - left : 0);
}
inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned x) {
  const unsigned before = *at;
  if (before == expected) *at = x;
  return before;
}
template <class T>
inline T atomicAdd(T* at, T x) {
  const T was = *at;
  *at = was + x;
  return was;
}
template <class T>
inline T atomicMax(T* at, T x) {
  const T was = *at;
  *at = was < x ? x : was;
  return was;
}
inline unsigned atomicOr(unsigned* at, unsigned x) {
  const unsigned was = *at;
  *at = was | x;
  return was;
}
inline unsigned atomicExch(unsigned* at, unsigned x) {
  const unsigned before = *at;
  *at = x;
  return before;
}
template <class To, class From>
inline To same_bits(From x) {
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float __double2float_rz(double x) {
  const float nearest = static_cast<float>(x);
  return fabs(static_cast<double>(nearest)) > fabs(x) ? nextafterf(nearest, 0.0F) : nearest;
}
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }

// e^(x²)·erfc(x), which CUDA has and C++ has not.
inline double erfcx(double x) {
  if (x < 50) return x < -27 ? HUGE_VAL : static_cast<double>(expl(static_cast<long double>(x) * x) * erfcl(x));
  const long double y = 1 / (2 * static_cast<long double>(x) * x);
  return static_cast<double>((1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y)))) / (x * 1.7724538509055160273L));
}
inline float erfcxf(float x) { return static_cast<float>(erfcx(x)); }

// The conversions that the device has instructions for.
inline float from_f16(unsigned short h) {
  const unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FFu;
  if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | fraction << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float x = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -x : x;
}
inline unsigned short to_f16(float x) {
  const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;
  const float size = fabsf(x);
  if (x != x) return static_cast<unsigned short>(sign | 0x7E00u);
  if (size >= 65520.0f) return static_cast<unsigned short>(sign | 0x7C00u);
  if (size < 0x1p-14f) return static_cast<unsigned short>(sign | static_cast<unsigned>(rintf(size * 0x1p24f)));
  const unsigned magnitude = bits & 0x7FFFFFFFu;
  return static_cast<unsigned short>(sign | ((magnitude + 0xFFFu + (magnitude >> 13 & 1)) >> 13) - (112u << 10));
}
inline unsigned short to_bf16(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return 0x7FFF;
  return static_cast<unsigned short>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

// The instructions for products of small matrices, by the lanes of a warp together: what a lane has, and what all have
// then.
namespace emulated {
template <class X>
inline const X* of_lanes(const X& mine) {
  static X sides[2][kThreads];
  const unsigned me = threadIdx.x, warp = me / kWarp;
  X* const side = sides[of_warp[warp].turn % 2];
  side[me] = mine;
  wait(of_warp[warp], kWarp);
  return side + warp * kWarp;
}
}  // namespace emulated
inline void load_matrices(unsigned (&x)[4], const unsigned short* at) {
  must_be_aligned(at, 16);
  const unsigned lane = threadIdx.x % 32;
  const unsigned short* const* const rows = emulated::of_lanes(at);
  for (unsigned i = 0; i < 4; ++i) memcpy(&x[i], rows[8 * i + lane / 4] + 2 * (lane % 4), 4);
}
inline void load_transposed(unsigned (&x)[4], const unsigned short* at) {
  must_be_aligned(at, 16);
  const unsigned lane = threadIdx.x % 32;
  const unsigned short* const* const rows = emulated::of_lanes(at);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned short* const* const first = rows + 8 * i + 2 * (lane % 4);
    x[i] = first[0][lane / 4] | static_cast<unsigned>(first[1][lane / 4]) << 16;
  }
}
struct Factors {  // of a lane
  float a[8], b[4];
};
// Kernels are compiled quickly and not to be quick; this is where such a one spends its time.
#define QUICK __attribute__((optimize("O2")))
template <bool bf16>
QUICK void widen(Factors& to, const unsigned* words) {
  for (int i = 0; i < 12; ++i) {
    const unsigned short half = static_cast<unsigned short>(words[i / 2] >> 16 * (i % 2));
    (i < 8 ? to.a[i] : to.b[i - 8]) = bf16 ? __uint_as_float(static_cast<unsigned>(half) << 16) : from_f16(half);
  }
}
inline QUICK void add_products(float* c, const Factors* all, unsigned row, unsigned column) {
  for (unsigned i = 0; i < 4; ++i) {
    double sum = c[i];
    for (unsigned k = 0; k < 16; ++k) {  // lane k / 2 % 4 of its row or column has it
      const unsigned of_a = k / 8 * 4 + i / 2 * 2 + k % 2, of_b = k / 8 * 2 + k % 2;
      sum += static_cast<double>(all[row * 4 + k / 2 % 4].a[of_a]) * all[(column + i % 2) * 4 + k / 2 % 4].b[of_b];
    }
    c[i] = static_cast<float>(sum);
  }
}
template <bool bf16>
inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  Factors mine;
  widen<bf16>(mine, words);
  add_products(c, emulated::of_lanes(mine), threadIdx.x % 32 / 4, threadIdx.x % 4 * 2);
}

// Products of warpgroups, a warp's part of them: the right factor comes from a tile of rows of 64 whose pieces of eight
// are exchanged. Here they are made at once.
namespace emulated {
inline unsigned short of_tile(const unsigned short* tile, unsigned row, unsigned column) {
  return tile[row * 64 + (column / 8 ^ row % 8) * 8 + column % 8];
}
}  // namespace emulated
template <bool bf16>
inline void multiply_tile(float (&c)[8][4], const unsigned (&x)[4], const unsigned short* tile, int k, bool add,
                          bool rows) {
  must_be_aligned(tile, 1024);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned n = 0; n < 8; ++n) {
    unsigned b[2];
    for (unsigned i = 0; i < 2; ++i) {
      unsigned short pair[2];
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned deep = 16 * static_cast<unsigned>(k) + 8 * i + 2 * (lane % 4) + j, across = 8 * n + lane / 4;
        pair[j] = rows ? emulated::of_tile(tile, deep, across) : emulated::of_tile(tile, across, deep);
      }
      b[i] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
    }
    if (!add) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
    multiply_add<bf16>(c[n], x, b[0], b[1]);
  }
}
inline unsigned __cvta_generic_to_shared(const void* at) {
  return static_cast<unsigned>(reinterpret_cast<unsigned long long>(at));
}

// The same by a tile of panels of 64 columns, `panel` elements apart, and of any number of columns.
template <bool bf16, int parts>
inline void multiply_panels(float (&c)[parts][4], const unsigned (&x)[4], const unsigned short* tile, int panel, int k,
                            bool rows) {
  must_be_aligned(tile, 1024);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned n = 0; n < parts; ++n) {
    unsigned b[2];
    for (unsigned i = 0; i < 2; ++i) {
      unsigned short pair[2];
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned deep = 16 * static_cast<unsigned>(k) + 8 * i + 2 * (lane % 4) + j, across = 8 * n + lane / 4;
        const unsigned row = rows ? deep : across, column = rows ? across : deep;
        pair[j] = emulated::of_tile(tile + column / 64 * static_cast<unsigned>(panel), row, column % 64);
      }
      b[i] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
    }
    multiply_add<bf16>(c[n], x, b[0], b[1]);
  }
}

// Barriers in shared memory, which count arrivals and bytes of copies; copies are made at once.
namespace emulated {
struct SharedBarrier {
  unsigned char count, arrived;
  unsigned short phase;
  int bytes;  // that have been announced and not come
};
inline SharedBarrier& at_shared(unsigned long long* b) {
  must_be_aligned(b, 8);
  return *reinterpret_cast<SharedBarrier*>(b);
}
inline void change(unsigned long long* at, unsigned char arrivals, int bytes) {
  SharedBarrier& b = at_shared(at);
  b.arrived = static_cast<unsigned char>(b.arrived + arrivals);
  b.bytes += bytes;
  if (b.arrived > b.count) {
    fprintf(stderr, "emulated device: more arrive at a barrier than it was made for\n");
    abort();
  }
  if (b.arrived < b.count || b.bytes != 0) return;
  b.arrived = 0;
  ++b.phase;
  ++turns;
}
}  // namespace emulated
inline void init_barrier(unsigned long long* b, int arrivals) {
  emulated::at_shared(b) = {static_cast<unsigned char>(arrivals), 0, 0, 0};
}
inline void mbarriers_are_made() {}
inline void expect_at(unsigned long long* b, int bytes) { emulated::change(b, 1, bytes); }
inline void arrive_at(unsigned long long* b) { emulated::change(b, 1, 0); }
inline void wait_at(unsigned long long* b, int parity) {
  while (emulated::at_shared(b).phase % 2 == parity) emulated::yield();
}
// Barriers between two warpgroups, only one of which waits.
inline void wait_for_turn(int group) { emulated::wait(emulated::of_turns[group], 256); }
inline void give_turn(int group) {
  emulated::Barrier& b = emulated::of_turns[group];
  if (++b.arrived < 256) return;
  b.arrived = 0;
  ++b.turn;
  ++emulated::turns;
}
inline void bytes_have_come(unsigned long long* b, int bytes) { emulated::change(b, 0, -bytes); }
template <int count>
inline void take_registers() {}
template <int count>
inline void leave_registers() {}
