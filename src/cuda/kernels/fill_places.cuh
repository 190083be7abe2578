// SPDX-License-Identifier: MIT
// Sums at places of short lines, or their last elements: a thread per line puts its elements, in order, where they go
// on chip, and neighbours write their places together. No thread waits for another's sums.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/packs.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u16 T;
typedef f32 S;  // on chip
EBB S held(T x) { return from_bf16(x); }
EBB T given(S x) { return to_bf16(x); }
constexpr bool kPuts = false;
constexpr int kLength = 3;
#endif

constexpr int kPack = 16 / (int)sizeof(T);

extern "C" __global__ void __launch_bounds__(kThreads) fill_places(const FillPlacesArgs a) {
  DYNAMIC_SHARED(smem);
  // Lines lie an odd number of elements apart, so that threads have different banks.
  const int threads = blockDim.x, size = (int)a.size, apart = size | 1;
  S* const places = (S*)smem;
  S* const own = places + threadIdx.x * apart;
  const T* const base = (const T*)a.base;
  T* const out = (T*)a.out;
  const i64 lines = a.src.n * a.inner;
  for (i64 first = (i64)blockIdx.x * threads; first < lines; first += (i64)gridDim.x * threads) {
    const int here = lines - first < threads ? (int)(lines - first) : threads;
    const i64 number = first + threadIdx.x, outer = a.inner == 1 ? number : quotient(number, a.inner),
              column = number - outer * a.inner;
    const bool live = number < lines;
    i64 where[kLength];
    T x[kLength];
    if (live) {
      const I* const index = (const I*)a.index.data + at(a.index, outer) + column * a.index_column;
      const T* const src = (const T*)a.src.data + at(a.src, outer) + column * a.src_column;
#pragma unroll
      for (int i = 0; i < kLength; ++i) where[i] = index[i * a.index_step], x[i] = src[i * a.src_step];
    }
    if (!kPuts) {
      for (int p = 0; p < size; ++p) own[p] = (S)0;
    } else if (a.inner > 1) {
      for (int p = 0; p < size && live; ++p) own[p] = held(base[(outer * size + p) * a.inner + column]);
    } else {
      for (int e = threadIdx.x * kPack; e < here * size; e += threads * kPack) {
        const int left = here * size - e;
        const Pack<T, kPack> pack = load_pack<kPack>(base + first * size + e, a.aligned, left < kPack ? left : kPack);
        int line = e / size, p = e - line * size;
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          if (j < left) places[line * apart + p] = held(pack.at(j));
          if (++p == size) p = 0, ++line;
        }
      }
      __syncthreads();
    }
    if (live) {
#pragma unroll
      for (int i = 0; i < kLength; ++i) {
        if ((u64)where[i] >= (u64)a.size) {
          complain(a.complaints, a.slices ? i : (outer * kLength + i) * a.inner + column, 0, bits_of(where[i]));
        } else if (kPuts) {
          own[where[i]] = held(x[i]);
        } else {
          own[where[i]] += held(x[i]);
        }
      }
    }
    if (a.inner > 1) {
      for (int p = 0; p < size && live; ++p) out[(outer * size + p) * a.inner + column] = given(own[p]);
      continue;
    }
    __syncthreads();
    for (int e = threadIdx.x * kPack; e < here * size; e += threads * kPack) {
      const int left = here * size - e;
      int line = e / size, p = e - line * size;
      Pack<T, kPack> pack;
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        pack.set(j, j < left ? given(places[line * apart + p]) : (T)0);
        if (++p == size) p = 0, ++line;
      }
      store_pack<kPack>(out + first * size + e, pack, a.aligned, left < kPack ? left : kPack, false);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
