// SPDX-License-Identifier: MIT
// Sums of two ranks' elements.
#pragma once
#include "cuda/kernels/args/collective.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = AddRanksArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) add_ranks(const Args a) {
  EACH(i, a.n) a.to[i] = store(load(a.a[i]) + load(a.b[i]));
}

}  // namespace ebb::cuda
