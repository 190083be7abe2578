// SPDX-License-Identifier: MIT
// scatter, and sums of integers or of one element each: a thread per element of the index, in any order. Which of
// several elements is the last for a place is found first, by its position; sums of integers have no order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u32 T;  // of src and out
typedef u32 P;  // of positions
#endif

using Args = ScatterElementsArgs<T, P>;

// Where in the output element i goes; -1: its index is outside, which is said once.
EBB i64 place_of(const Args& a, i64 i, bool says_so = true) {
  const i64 where = ((const I*)a.index.data)[at(a.index, i)];
  if ((u64)where < (u64)a.size) return at(a.out, i) + where * a.out_step;
  if (says_so) complain(a.complaints, i, 0, bits_of(where));
  return -1;
}

extern "C" __global__ void __launch_bounds__(kThreads) find_last(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) atomicMax(a.last + to, (P)(i + 1));
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) put_last(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i, false);
    if (to >= 0 && a.last[to] == (P)(i + 1)) ((T*)a.out.data)[to] = ((const T*)a.src.data)[at(a.src, i)];
  }
}

// Where no two elements go to one place.
extern "C" __global__ void __launch_bounds__(kThreads) put_elements(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) ((T*)a.out.data)[to] = ((const T*)a.src.data)[at(a.src, i)];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) add_integers(const Args a) {
  EACH(i, a.index.n) {
    const i64 to = place_of(a, i);
    if (to >= 0) atomicAdd((P*)a.out.data + to, ((const P*)a.src.data)[at(a.src, i)]);
  }
}

}  // namespace ebb::cuda
