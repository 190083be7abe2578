// SPDX-License-Identifier: MIT
// Products of integers, a thread per element; they wrap.
#pragma once
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 T, A;
EBB A load(T x) { return x; }
EBB T store(A x) { return x; }
#endif

using Args = IntegerMatmulArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) multiply(const Args a) {
  EACH(i, a.a.n) {
    const T* const x = (const T*)a.a.data + at(a.a, i);
    const T* const y = (const T*)a.b.data + at(a.b, i);
    A total = 0;
    for (i64 k = 0; k < a.k; ++k) total = sum(total, product(load(x[k * a.a_step]), load(y[k * a.b_step])));
    a.out[i] = store(total);
  }
}

}  // namespace ebb::cuda
