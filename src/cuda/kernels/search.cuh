// SPDX-License-Identifier: MIT
// searchsorted: a thread per value bisects its line.
#pragma once
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/parts/rises.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kRight = false;
#endif

extern "C" __global__ void __launch_bounds__(kThreads) search(const SearchArgs a) {
  EACH(i, a.values.n) {
    const A value = load(((const T*)a.values.data)[at(a.values, i)]);
    const T* line = (const T*)a.sorted.data + at(a.sorted, quotient(i, a.count));
    const auto is_before = [&](i64 k) {
      const A x = load(line[k * a.step]);
      return kRight ? !rises(value, x) : rises(x, value);
    };
    i64 place = 0;
    for (i64 left = a.length; left > 1;) {
      const i64 half = left >> 1;
      if (is_before(place + half - 1)) place += half;
      left -= half;
    }
    a.out[i] = place + is_before(place);
  }
}

}  // namespace ebb::cuda
