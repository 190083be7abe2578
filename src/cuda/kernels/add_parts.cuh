// SPDX-License-Identifier: MIT
// Adds the parts of a product in order, four elements at a time.
#pragma once
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = AddPartsArgs<T, A>;

extern "C" __global__ void __launch_bounds__(kThreads) add_parts(const Args a) {
  for (i64 i = ((i64)blockIdx.x * kThreads + threadIdx.x) * 4; i < a.n; i += (i64)gridDim.x * 4 * kThreads) {
    const int live = a.n - i < 4 ? (int)(a.n - i) : 4;
    Pack<A, 4> total = load_pack<4>(a.parts + i, a.aligned, live);
    for (i64 k = 1; k < a.count; ++k) {
      const Pack<A, 4> part = load_pack<4>(a.parts + k * a.n + i, a.aligned, live);
#pragma unroll
      for (int j = 0; j < 4; ++j) total.set(j, total.at(j) + part.at(j));
    }
    Pack<T, 4> out;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      A x = total.at(j);
      if (a.add && j < live) x += load(a.out[i + j]);
      if (a.bias && j < live) x += load(a.bias[(i + j) % a.columns]);
      out.set(j, store(x));
    }
    store_pack<4>(a.out + i, out, a.aligned, live, false);
  }
}

}  // namespace ebb::cuda
