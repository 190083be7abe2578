// SPDX-License-Identifier: MIT
// Sums of a product become its elements: added to what is there, with a bias, rounded once.
#pragma once
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FinishProductArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) finish_product(const Args a) {
  EACH(i, a.n) {
    const i64 batch = quotient(i, a.of_batch), at = i - batch * a.of_batch;
    T* const to = a.out + batch * a.out_batch + at;
    A x = a.sums[i];
    if (a.add) x += load(*to);
    if (a.bias) x += load(a.bias[at % a.columns]);
    *to = store(x);
  }
}

}  // namespace ebb::cuda
