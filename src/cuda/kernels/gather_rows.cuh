// SPDX-License-Identifier: MIT
// index_select of slices that lie densely: groups of lanes look at the index once.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef Words4 T;
#endif

using Args = GatherRowsArgs<T, I>;

extern "C" __global__ void __launch_bounds__(kThreads) gather_rows(const Args a) {
  constexpr int kPacks = kGatherPacks;
  const int lanes = 1 << a.lane_bits, lane = threadIdx.x & (lanes - 1);
  EACH(i, a.x.n * a.length * a.tiles << a.lane_bits) {
    const i64 task = i >> a.lane_bits, row = a.tiles == 1 ? task : quotient(task, a.tiles);
    const i64 outer = a.x.n == 1 ? 0 : quotient(row, a.length), token = row - outer * a.length;
    const i64 where = a.index[token * a.index_step];
    const i64 first = ((task - row * a.tiles) * kPacks << a.lane_bits) + lane;
    if ((u64)where >= (u64)a.size) {
      if (first == 0) complain(a.complaints, token, 0, bits_of(where));
      continue;
    }
    const T* const from = (const T*)a.x.data + (a.x.n == 1 ? 0 : at(a.x, outer)) + where * a.x_step;
    T* const to = a.out + row * a.inner;
    must_be_aligned(from, sizeof(T));
    T part[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (first + k * lanes < a.inner) part[k] = from[first + k * lanes];
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (first + k * lanes < a.inner) put(to + first + k * lanes, part[k]);
    }
  }
}

}  // namespace ebb::cuda
