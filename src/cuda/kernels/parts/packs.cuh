// SPDX-License-Identifier: MIT
// Neighbours that a thread loads, keeps on chip and stores together.
#pragma once
#include "cuda/kernels/parts/reductions.cuh"

namespace ebb::cuda {

#ifdef __CUDACC_RTC__
EBB void must_be_aligned(const void*, int) {}  // a GPU sees to it itself
#endif
struct alignas(16) Words4 {
  u32 x[4];
};
struct alignas(8) Words2 {
  u32 x[2];
};
// The compiler makes four stores of one of such a struct.
#ifdef __CUDACC_RTC__
EBB void store16(void* p, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x), "r"(y), "r"(z), "r"(w));
}
EBB void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
#else
EBB void store16(void* p, u32 x, u32 y, u32 z, u32 w) { *(Words4*)p = Words4{{x, y, z, w}}; }
EBB void prefetch(const void*) {}
#endif
EBB u8 piece(const u32* w, int j, u8) { return (u8)(w[j >> 2] >> (j & 3) * 8); }
EBB u16 piece(const u32* w, int j, u16) { return (u16)(w[j >> 1] >> (j & 1) * 16); }
EBB u32 piece(const u32* w, int j, u32) { return w[j]; }
EBB i32 piece(const u32* w, int j, i32) { return (i32)w[j]; }
EBB f32 piece(const u32* w, int j, f32) { return __uint_as_float(w[j]); }
EBB u64 piece(const u32* w, int j, u64) { return (u64)w[2 * j + 1] << 32 | w[2 * j]; }
EBB i64 piece(const u32* w, int j, i64) { return (i64)piece(w, j, (u64)0); }
EBB f64 piece(const u32* w, int j, f64) { return __longlong_as_double((i64)piece(w, j, (u64)0)); }
// Small ones in the order of j.
EBB void set_piece(u32* w, int j, u8 x) { w[j >> 2] = j & 3 ? w[j >> 2] | (u32)x << (j & 3) * 8 : (u32)x; }
EBB void set_piece(u32* w, int j, u16 x) { w[j >> 1] = j & 1 ? w[j >> 1] | (u32)x << 16 : (u32)x; }
EBB void set_piece(u32* w, int j, u32 x) { w[j] = x; }
EBB void set_piece(u32* w, int j, i32 x) { w[j] = (u32)x; }
EBB void set_piece(u32* w, int j, f32 x) { w[j] = __float_as_uint(x); }
EBB void set_piece(u32* w, int j, u64 x) {
  w[2 * j] = (u32)x;
  w[2 * j + 1] = (u32)(x >> 32);
}
EBB void set_piece(u32* w, int j, i64 x) {
  w[2 * j] = (u32)x;
  w[2 * j + 1] = (u32)((u64)x >> 32);
}
EBB void set_piece(u32* w, int j, f64 x) { set_piece(w, j, (i64)__double_as_longlong(x)); }

template <class T, int N>
struct Pack {
  static constexpr int kBytes = N * (int)sizeof(T);
  u32 w[kBytes < 4 ? 1 : kBytes / 4];
  __device__ __forceinline__ T at(int j) const { return piece(w, j, (T)0); }
  __device__ __forceinline__ void set(int j, T x) { set_piece(w, j, x); }
  // Halves in pairs: the first waits in f32 for the second.
  __device__ __forceinline__ void set_bf16(int j, f32 x) {
    w[j >> 1] = j & 1 ? to_bf16x2(__uint_as_float(w[j >> 1]), x) : __float_as_uint(x);
  }
  __device__ __forceinline__ void set_f16(int j, f32 x) {
    w[j >> 1] = j & 1 ? to_f16x2(__uint_as_float(w[j >> 1]), x) : __float_as_uint(x);
  }
};

// A row in registers leaves no room for what passes before have made of it: the compiler shall not look for it.
#ifdef __CUDACC_RTC__
template <class T, int N>
EBB void anew(Pack<T, N>& r) {
#pragma unroll
  for (int k = 0; k < (int)(sizeof(r.w) / 4); ++k) asm volatile("" : "+r"(r.w[k]));
}
#else
template <class T, int N>
EBB void anew(Pack<T, N>&) {}
#endif

// A lane's share of the maximum of a segment of halves, which compare in pairs.
#ifdef __CUDACC_RTC__
template <bool bf16>
EBB u32 larger_halves(u32 a, u32 b) {
  u32 x;
  if constexpr (bf16) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(x) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(x) : "r"(a), "r"(b));
  }
  return x;
}
#else
template <bool bf16>
EBB u32 larger_halves(u32 a, u32 b) {
  const f32 low = bf16 ? larger(from_bf16((u16)a), from_bf16((u16)b)) : larger(from_f16((u16)a), from_f16((u16)b));
  const f32 high = bf16 ? larger(from_bf16((u16)(a >> 16)), from_bf16((u16)(b >> 16)))
                        : larger(from_f16((u16)(a >> 16)), from_f16((u16)(b >> 16)));
  return bf16 ? to_bf16x2(low, high) : (u32)to_f16(high) << 16 | to_f16(low);
}
#endif
template <bool bf16>
struct MostOfHalves {
  static constexpr u32 kNothing = bf16 ? 0xFF80FF80u : 0xFC00FC00u;
  u32 part = kNothing;
  __device__ __forceinline__ void add(const Pack<u16, 8>& r) {
    part = larger_halves<bf16>(
        part, larger_halves<bf16>(larger_halves<bf16>(r.w[0], r.w[1]), larger_halves<bf16>(r.w[2], r.w[3])));
  }
  __device__ __forceinline__ void add(const Pack<u16, 8>& r, int live) {
    Pack<u16, 8> there;
#pragma unroll
    for (int j = 0; j < 8; ++j) there.set(j, j < live ? r.at(j) : (u16)kNothing);
    add(there);
  }
  template <int lanes>
  __device__ __forceinline__ f32 segment() {
    const f32 low = bf16 ? from_bf16((u16)part) : from_f16((u16)part);
    const f32 high = bf16 ? from_bf16((u16)(part >> 16)) : from_f16((u16)(part >> 16));
    part = kNothing;
    return over_lanes<Most, lanes>(larger(low, high));
  }
};
template <int N, class T>
EBB Pack<T, N> load_each(const T* p, i64 stride, int live) {
  Pack<T, N> r;
#pragma unroll
  for (int j = 0; j < N; ++j) r.set(j, j < live ? p[j * stride] : (T)0);
  return r;
}
template <int N, class T>
EBB void store_each(T* p, i64 stride, const Pack<T, N>& r, int live) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (j < live) p[j * stride] = r.at(j);
  }
}
// Rows of an odd length begin anywhere. A pack of one lies in aligned words of 16 bytes, which are loaded whole and
// shifted; of those that have nothing of it none is read, since they may not be there.
// w[k] becomes the four bytes from 4·k + bytes on, for k < count; w has four more, and bytes is a multiple of T's.
template <int count, class T>
EBB void shift_words(u32* w, u32 bytes) {
#pragma unroll
  for (int k = 0; k < count + 2; ++k) w[k] = bytes & 8 ? w[k + 2] : w[k];
  if constexpr (sizeof(T) <= 4) {
#pragma unroll
    for (int k = 0; k < count + 1; ++k) w[k] = bytes & 4 ? w[k + 1] : w[k];
  }
  if constexpr (sizeof(T) <= 2) {
#pragma unroll
    for (int k = 0; k < count; ++k) w[k] = (u32)(((u64)w[k + 1] << 32 | w[k]) >> (bytes & 3) * 8);
  }
}
template <int N, class T>
EBB Pack<T, N> load_shifted(const T* p) {
  constexpr int kBytes = Pack<T, N>::kBytes, kWords = kBytes / 4, kRead = (kBytes + 15) / 16 + 1;
  const u32 skew = (u32)(u64)p & 15;
  const Words4* const at = (const Words4*)((const char*)p - skew);
  u32 w[4 * kRead];
#pragma unroll
  for (int i = 0; i < kRead; ++i) {
    const Words4 q = 16 * i < (int)skew + kBytes ? at[i] : Words4{};
#pragma unroll
    for (int k = 0; k < 4; ++k) w[4 * i + k] = q.x[k];
  }
  shift_words<kWords, T>(w, skew);
  Pack<T, N> r;
#pragma unroll
  for (int k = 0; k < kWords; ++k) r.w[k] = w[k];
  return r;
}
template <int N, class T>
EBB Pack<T, N> load_pack(const T* p, bool aligned, int live) {
  Pack<T, N> r;
  constexpr int kBytes = Pack<T, N>::kBytes;
  if (live < N) return load_each<N>(p, 1, live);
  if constexpr (kBytes < 4) return load_each<N>(p, 1, N);
  if (!aligned) return load_shifted<N>(p);
  must_be_aligned(p, kBytes < 16 ? kBytes : 16);
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const Words4 q = ((const Words4*)p)[i];
#pragma unroll
      for (int k = 0; k < 4; ++k) r.w[4 * i + k] = q.x[k];
    }
  } else if constexpr (kBytes == 8) {
    const Words2 q = *(const Words2*)p;
    r.w[0] = q.x[0];
    r.w[1] = q.x[1];
  } else {
    r.w[0] = *(const u32*)p;
  }
  return r;
}
// `whole`: all lanes of the warp are here, with packs side by side.
// With packs of 32 bytes each access takes half, and leaves it to the first cache to have the other one still when it
// is asked for. Where many arrays are read it has not: there two lanes, which have 64 neighbouring bytes, take half of
// each pack, in accesses without gaps, and exchange them.
template <int N, class T>
EBB Pack<T, N> load_together(const T* p, bool aligned, int live, bool whole) {
  if (!aligned || !whole) return load_pack<N>(p, aligned, live);
  static_assert(Pack<T, N>::kBytes == 32, "two accesses");
  must_be_aligned(p, 16);
  const bool odd = threadIdx.x & 1;
  const Words4* const at = (const Words4*)p - (odd ? 1 : 0);
  const Words4 a = at[0], b = at[2];
  Pack<T, N> r;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const u32 other = __shfl_xor_sync(0xffffffffu, odd ? a.x[k] : b.x[k], 1);
    r.w[k] = odd ? other : a.x[k];
    r.w[4 + k] = odd ? b.x[k] : other;
  }
  return r;
}
// Where all lanes of a warp have packs side by side, each takes the end of its neighbour's and stores whole words of 16
// bytes; the first lane's first and the last lane's last bytes share theirs with what others store.
template <int N, class T>
EBB void store_shifted(T* p, const Pack<T, N>& r, bool whole) {
  constexpr int kBytes = Pack<T, N>::kBytes, kWords = kBytes / 4;
  if constexpr (kBytes % 16 == 0) {
    const u32 skew = (u32)(u64)p & 15;
    if (skew == 0) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        store16((Words4*)p + i, r.w[4 * i], r.w[4 * i + 1], r.w[4 * i + 2], r.w[4 * i + 3]);
      return;
    }
    if (whole) {
      const int lane = threadIdx.x & 31;
      u32 w[kWords + 4];
#pragma unroll
      for (int k = 0; k < 4; ++k) w[k] = __shfl_sync(0xffffffffu, r.w[kWords - 4 + k], (lane + 31) & 31);
#pragma unroll
      for (int k = 0; k < kWords; ++k) w[4 + k] = r.w[k];
      shift_words<kWords, T>(w, 16 - skew);
      Words4* const at = (Words4*)((char*)p - skew);
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        if (i > 0 || lane > 0) store16(at + i, w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
      }
      const int first = lane == 0 ? (16 - (int)skew) / (int)sizeof(T) : 0;
      const int last = lane == 31 ? N - (int)skew / (int)sizeof(T) : N;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (j < first || j >= last) p[j] = r.at(j);
      }
      return;
    }
  }
  if constexpr (sizeof(T) == 2) {  // two at a time
    const bool odd = (u64)p & 2;
    if (odd) {
      p[0] = r.at(0);
      p[N - 1] = r.at(N - 1);
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (!odd) {
        ((u32*)p)[k] = r.w[k];
      } else if (k + 1 < kWords) {
        ((u32*)(p + 1))[k] = r.w[k] >> 16 | r.w[k + 1] << 16;
      }
    }
  } else {
    store_each<N>(p, 1, r, N);
  }
}
template <int N, class T>
EBB void store_pack(T* p, const Pack<T, N>& r, bool aligned, int live, bool whole) {
  constexpr int kBytes = Pack<T, N>::kBytes;
  if (live < N) return store_each<N>(p, 1, r, live);
  if constexpr (kBytes < 4) return store_each<N>(p, 1, r, N);
  if (!aligned) return store_shifted<N>(p, r, whole);
  must_be_aligned(p, kBytes < 16 ? kBytes : 16);
  if constexpr (kBytes == 32) {
    // Two lanes have 64 neighbouring bytes; they exchange halves so that each access of the two fills 32 in a row.
    if (whole) {
      const bool odd = threadIdx.x & 1;
      Words4 mine, other;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        mine.x[k] = odd ? r.w[4 + k] : r.w[k];
        other.x[k] = __shfl_xor_sync(0xffffffffu, odd ? r.w[k] : r.w[4 + k], 1);
      }
      Words4* const at = (Words4*)p - (odd ? 1 : 0);
      const Words4 a = odd ? other : mine, b = odd ? mine : other;
      store16(at, a.x[0], a.x[1], a.x[2], a.x[3]);
      store16(at + 2, b.x[0], b.x[1], b.x[2], b.x[3]);
      return;
    }
  }
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      store16((Words4*)p + i, r.w[4 * i], r.w[4 * i + 1], r.w[4 * i + 2], r.w[4 * i + 3]);
  } else if constexpr (kBytes == 8) {
    Words2 q;
    q.x[0] = r.w[0];
    q.x[1] = r.w[1];
    *(Words2*)p = q;
  } else {
    *(u32*)p = r.w[0];
  }
}

// A thread's own memory: leaf `slot` of what begins at `base`. A warp's 16 bytes lie side by side. What a thread copies
// there it reads itself, so that nobody else has to be waited for.
EBB Words4* own(char* base, int slot, int chunks) {
  must_be_aligned(base, 16);
  return (Words4*)base + (slot * chunks * (int)blockDim.x + threadIdx.x);
}
EBB void read_words(const Words4* at, u32* w) {
  const Words4 q = *at;
#pragma unroll
  for (int k = 0; k < 4; ++k) w[k] = q.x[k];
}
EBB void write_words(Words4* at, const u32* w) {
  Words4 q;
#pragma unroll
  for (int k = 0; k < 4; ++k) q.x[k] = w[k];
  *at = q;
}
// A leaf in the given ones of its `chunks` chunks of 16 bytes, each beside those of the warp's other lanes; the
// thread's first is at `mine`.
template <int chunks>
EBB Words4* chunk_at(char* mine, int slot, int chunk) {
  must_be_aligned(mine, 16);
  return (Words4*)(mine + (slot * chunks + chunk) * 512);
}
template <class T, int chunks, int... chunk>
EBB Pack<T, 8> read_chunks(char* mine, int slot) {
  Pack<T, 8> r;
  int i = 0;
  (read_words(chunk_at<chunks>(mine, slot, chunk), r.w + 4 * i++), ...);
  return r;
}
template <class T, int chunks, int... chunk>
EBB void write_chunks(char* mine, int slot, const Pack<T, 8>& r) {
  int i = 0;
  (write_words(chunk_at<chunks>(mine, slot, chunk), r.w + 4 * i++), ...);
}
template <class T>
EBB Pack<T, 8> read_own(char* base, int slot) {
  Pack<T, 8> r;
  constexpr int kChunks = (int)sizeof(T) / 2;
  const Words4* const at = own(base, slot, kChunks);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const Words4 q = at[i * blockDim.x];
#pragma unroll
    for (int k = 0; k < 4; ++k) r.w[4 * i + k] = q.x[k];
  }
  return r;
}
template <class T>
EBB void write_own(char* base, int slot, const Pack<T, 8>& r) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  Words4* const at = own(base, slot, kChunks);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    Words4 q;
#pragma unroll
    for (int k = 0; k < 4; ++k) q.x[k] = r.w[4 * i + k];
    at[i * blockDim.x] = q;
  }
}
template <class T>
EBB Pack<T, 8> all_of(T x) {
  Pack<T, 8> r;
#pragma unroll
  for (int j = 0; j < 8; ++j) r.set(j, x);
  return r;
}
// An element that a warp has written of its row.
template <class T>
EBB T of_warp(char* base, int warp, int col) {
  constexpr int kChunks = (int)sizeof(T) / 2, kOfWords = 16 / (int)sizeof(T);
  const int leaf = col >> 3, j = col & 7, thread = 32 * warp + (leaf & 31);
  const Words4* const at = (const Words4*)base + ((leaf >> 5) * kChunks + j / kOfWords) * (int)blockDim.x + thread;
  Pack<T, 8> r;
#pragma unroll
  for (int k = 0; k < (int)sizeof(T) / 4; ++k) r.w[k] = at->x[j % kOfWords * ((int)sizeof(T) / 4) + k];
  return r.at(0);
}
template <class Op, class W, class T>
EBB void add_chunk(u64* at, const Pack<T, 8>& chunk, int live, bool first) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (j < live) at[j] = bits_of(Op::of(first ? Op::template nothing<W>() : from_bits((W)0, at[j]), (W)chunk.at(j)));
  }
}
#ifdef __CUDACC_RTC__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
// Neighbours that two accesses share come through the first cache, others around it.
template <bool whole>
EBB void copy16(void* to, const void* from) {
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if (whole) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  }
}
EBB void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left>
EBB void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
#endif
// Rows that begin anywhere lie in a warp's shared memory as they do in memory, in the aligned chunks of 16 bytes that
// hold them: a leaf begins in its lane's first chunk and may end in the first one of the next leaf. Every eight leaves
// have one chunk more, for what the last lane's leaf ends in.
template <class T>
EBB char* skewed_chunk(char* mine, int slot, int chunk) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  return mine + (slot * kChunks + chunk) * 512 + (slot >> 3) * 16;
}
template <class T>
EBB char* chunk_after(char* mine, int slot) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  return skewed_chunk<T>(mine, slot, 0) + ((threadIdx.x & 31) < 31 ? 16 : kChunks * 512 - 31 * 16);
}
// `ends`: the next leaf is no lane's of this warp, so that this one copies the chunk it ends in, too.
template <class T>
EBB void copy_skewed(char* mine, int slot, const T* from, int live, bool ends) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  const int skew = (int)((u64)from & 15), bytes = skew + live * (int)sizeof(T);
  const Words4* const at = (const Words4*)((const char*)from - skew);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (16 * c < bytes) copy16<kChunks == 1>(skewed_chunk<T>(mine, slot, c), at + c);
  }
  if (ends && 16 * kChunks < bytes) copy16<kChunks == 1>(chunk_after<T>(mine, slot), at + kChunks);
}
template <class T>
EBB Pack<T, 8> read_skewed(char* mine, int slot, u32 skew, int live) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  u32 w[4 * kChunks + 4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) read_words((const Words4*)skewed_chunk<T>(mine, slot, c), w + 4 * c);
  read_words((const Words4*)chunk_after<T>(mine, slot), w + 4 * kChunks);
  shift_words<4 * kChunks, T>(w, skew);
  Pack<T, 8> r;
#pragma unroll
  for (int k = 0; k < 4 * kChunks; ++k) r.w[k] = w[k];
  if (live < 8) {
    Pack<T, 8> part;
#pragma unroll
    for (int j = 0; j < 8; ++j) part.set(j, j < live ? r.at(j) : (T)0);
    return part;
  }
  return r;
}
template <class T, int chunks, int... chunk>
EBB void copy_chunks(char* mine, int slot, const T* from, bool aligned, int live) {
  if (!aligned || live < 8) return write_chunks<T, chunks, chunk...>(mine, slot, load_pack<8>(from, false, live));
  must_be_aligned(from, 16);
  int i = 0;
  (copy16<sizeof...(chunk) == 1>(chunk_at<chunks>(mine, slot, chunk), (const Words4*)from + i++), ...);
}

}  // namespace ebb::cuda
