// SPDX-License-Identifier: MIT
// to[n, k, ..] = from[n, k, ..] + bias[k].
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = AddBiasArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) add_bias(const Args a) {
  EACH(i, a.n) {
    const i64 outer = quotient(i, a.inner), k = outer - quotient(outer, a.channels) * a.channels;
    a.to[i] = store(a.from[i] + load(a.bias[k * a.bias_step]));
  }
}

}  // namespace ebb::cuda
