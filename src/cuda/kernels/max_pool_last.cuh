// SPDX-License-Identifier: MIT
// max_pool_index of images whose channels lie last, and gradients to what it found: a thread has kEach channels, which
// are side by side in memory, of a window or an element.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/pool.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kEach = 8;
#endif

// The position of window or element number i, and the first of its channels.
struct Channels {
  Window at;
  i64 first;
};
// `position` is window_at or element_at.
template <class Position>
EBB Channels channels_at(i64 i, i64 channels, const Position& position) {
  const i64 packs = quotient(channels, kEach), pixel = quotient(i, packs);
  return {position((P)pixel), (i - pixel * packs) * kEach};
}

extern "C" __global__ void __launch_bounds__(kThreads) largest(const PoolArgs<T, A> a) {
  EACH(i, a.n / kEach) {
    const Channels c = channels_at(i, a.channels, [&](P k) { return window_at(k, a.rows, a.columns); });
    const Taps down = taps_of(a.rows, c.at.row), across = taps_of(a.columns, c.at.column);
    const T* const first = a.image + c.at.plane * a.step_n + c.first * a.step_c;
    A best[kEach];
    i64 place[kEach];
    for (int r = 0; r < down.count; ++r) {
      const i64 h = down.first + r * a.rows.dilation;
#pragma unroll 3
      for (int s = 0; s < across.count; ++s) {
        const i64 w = across.first + s * a.columns.dilation;
        const Pack<T, kEach> x = load_pack<kEach>(first + h * a.step_h + w * a.step_w, true, kEach);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const A y = load(x.at(j));
          if (r + s == 0 || (best[j] == best[j] && (y > best[j] || y != y))) {
            best[j] = y;
            place[j] = h * a.columns.size + w;
          }
        }
      }
    }
    Pack<i64, kEach> to;
#pragma unroll
    for (int j = 0; j < kEach; ++j) to.set(j, place[j]);
    store_pack<kEach>(a.places + i * kEach, to, true, kEach, false);
  }
}

// Windows add in their order, as a scatter of them does.
extern "C" __global__ void __launch_bounds__(kThreads) spread_to_largest(const SpreadToLargestArgs<T> a) {
  EACH(i, a.n / kEach) {
    const Channels c = channels_at(i, a.channels, [&](P k) { return element_at(k, a.rows, a.columns); });
    const Range down = windows_near(a.rows, c.at.row), across = windows_near(a.columns, c.at.column);
    const i64 own = c.at.row * a.columns.size + c.at.column;
    A sum[kEach] = {};
    for (i64 p = down.first; p <= down.last; ++p) {
      for (i64 q = across.first; q <= across.last; ++q) {
        const i64 window = (c.at.plane * a.rows.outputs + p) * a.columns.outputs + q;
        const Pack<i64, kEach> place = load_pack<kEach>(a.places + window * a.channels + c.first, true, kEach);
        const Pack<T, kEach> g = load_pack<kEach>(
            a.g + c.at.plane * a.step_n + p * a.step_h + q * a.step_w + c.first * a.step_c, true, kEach);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          if (place.at(j) == own) sum[j] += load(g.at(j));
        }
      }
    }
    Pack<T, kEach> to;
#pragma unroll
    for (int j = 0; j < kEach; ++j) to.set(j, store(sum[j]));
    store_pack<kEach>(a.x + i * kEach, to, true, kEach, false);
  }
}

}  // namespace ebb::cuda
