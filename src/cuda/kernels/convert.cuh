// SPDX-License-Identifier: MIT
// Converts dense elements to another dtype, four at a time where both have more than a byte.
#pragma once
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 To;
typedef f32 From;
EBB To converted(From x) { return to_bf16(x); }
constexpr bool kPacks = true;
#endif

using Args = ConvertArgs<To, From>;

extern "C" __global__ void __launch_bounds__(kThreads) convert(const Args a) {
  if constexpr (!kPacks) {
    EACH(i, a.n) a.to[i] = converted(a.from[i]);
    return;
  }
  for (i64 i = ((i64)blockIdx.x * kThreads + threadIdx.x) * 4; i < a.n; i += (i64)gridDim.x * 4 * kThreads) {
    const int live = a.n - i < 4 ? (int)(a.n - i) : 4;
    const Pack<From, 4> x = load_pack<4>(a.from + i, a.aligned, live);
    Pack<To, 4> y;
#pragma unroll
    for (int j = 0; j < 4; ++j) y.set(j, converted(x.at(j)));
    store_pack<4>(a.to + i, y, a.aligned, live, false);
  }
}

}  // namespace ebb::cuda
