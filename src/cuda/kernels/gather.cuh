// SPDX-License-Identifier: MIT
// gather, and index_select of slices that do not lie densely.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef Words4 T;
#endif

using Args = GatherArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) gather(const Args a) {
  EACH(i, a.index.n) {
    const i64 where = ((const I*)a.index.data)[at(a.index, i)];
    if ((u64)where < (u64)a.size) {
      put(a.out + i, ((const T*)a.x.data)[at(a.x, i) + where * a.x_step]);
    } else {
      const i64 outer = a.inner ? quotient(i, a.inner) : 0;
      complain(a.complaints, a.inner ? outer - quotient(outer, a.length) * a.length : i, 0, bits_of(where));
    }
  }
}

}  // namespace ebb::cuda
