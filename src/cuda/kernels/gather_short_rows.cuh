// SPDX-License-Identifier: MIT
// index_select of short slices that are no multiples of 16 bytes: a thread collects 16 bytes of the result.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/packs.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u16 T;
#endif

using Args = GatherRowsArgs<T, I>;

extern "C" __global__ void __launch_bounds__(kThreads) gather_short_rows(const Args a) {
  constexpr int kEach = 16 / (int)sizeof(T);
  const i64 elements = a.x.n * a.length * a.inner;
  EACH(word, (elements + kEach - 1) / kEach) {
    const i64 first = word * kEach;
    i64 row = quotient(first, a.inner), column = first - row * a.inner;
    const i64 outer = a.x.n == 1 ? 0 : quotient(row, a.length);
    i64 token = row - outer * a.length, slice = outer;
    const T* from[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      from[j] = nullptr;
      if (first + j < elements) {
        const i64 where = a.index[token * a.index_step];
        if ((u64)where < (u64)a.size) {
          from[j] = (const T*)a.x.data + (a.x.n == 1 ? 0 : at(a.x, slice)) + where * a.x_step + column;
        } else {
          complain(a.complaints, token, 0, bits_of(where));
        }
      }
      if (++column < a.inner) continue;
      column = 0;
      if (++token < a.length) continue;
      token = 0;
      ++slice;
    }
    Pack<T, kEach> collected;
#pragma unroll
    for (int j = 0; j < kEach; ++j) collected.set(j, from[j] ? *from[j] : (T)0);
    const i64 left = elements - first;
    store_pack<kEach>(a.out + first, collected, true, left < kEach ? (int)left : kEach, false);
  }
}

}  // namespace ebb::cuda
