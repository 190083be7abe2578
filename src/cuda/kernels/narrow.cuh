// SPDX-License-Identifier: MIT
// Rounds dense numbers of f32.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = NarrowArgs<T>;

extern "C" __global__ void __launch_bounds__(kThreads) narrow(const Args a) { EACH(i, a.n) a.to[i] = store(a.from[i]); }

}  // namespace ebb::cuda
