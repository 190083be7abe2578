// SPDX-License-Identifier: MIT
// Where matrices begin that lie at equal distances.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

extern "C" __global__ void __launch_bounds__(kThreads) fill_pointers(const PointersArgs a) {
  EACH(i, a.count) { a.to[i] = a.first + i * a.bytes; }
}

}  // namespace ebb::cuda
