// SPDX-License-Identifier: MIT
// Copies rows of neighbours, both of which begin anywhere, perhaps with zeros behind them.
#pragma once
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 T;
#endif

// A thread has as many elements as 16 bytes hold, so that indices are found once for all of them.
extern "C" __global__ void __launch_bounds__(kThreads) copy_rows(const CopyRowsArgs a) {
  constexpr int kEach = 16 / sizeof(T);
  EACH(i, a.to.n * a.packs) {
    const i64 row = quotient(i, a.packs), first = (i - row * a.packs) * kEach;
    const int live = first > a.length ? 0 : a.length - first < kEach ? (int)(a.length - first) : kEach;
    const int room = a.room - first < kEach ? (int)(a.room - first) : kEach;
    const i64 of_first_lane = i - row * a.packs - (threadIdx.x & 31);
    const bool whole = of_first_lane >= 0 && (of_first_lane + 32) * kEach <= a.room;  // all of the warp in this row
    const Pack<T, kEach> x = load_pack<kEach>((const T*)a.from.data + at(a.from, row) + first, false, live);
    store_pack<kEach>((T*)a.to.data + at(a.to, row) + first, x, false, room, whole);
  }
}

}  // namespace ebb::cuda
