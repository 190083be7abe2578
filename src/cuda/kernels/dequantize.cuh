// SPDX-License-Identifier: MIT
// Codes of eight bits as bf16, which holds all of them, for GPUs that do not multiply them.
#pragma once
#include "cuda/kernels/parts/fp8.cuh"

namespace ebb::cuda {

extern "C" __global__ void __launch_bounds__(kThreads) dequantize(const DequantizeArgs a) {
  EACH(i, a.n) a.out[i] = to_bf16(number_of(a.codes[i]) * a.scales[quotient(i, a.room)]);
}

}  // namespace ebb::cuda
