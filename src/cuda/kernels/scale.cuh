// SPDX-License-Identifier: MIT
// Multiplies dense elements by one number; where that is 1 they are not touched, and zeros stay zeros whatever it is.
#pragma once
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f32 F;  // the factor's type
EBB A factor_of(const F* at) { return *at; }
#endif

using Args = ScaleArgs<T, F>;
struct alignas(16) Vector {
  T of[16 / sizeof(T)];
};

EBB T scaled(T x, A f) {
  const A value = load(x);
  return value == (A)0 ? x : store(value * f);
}

extern "C" __global__ void __launch_bounds__(kThreads) scale(const Args a) {
  const A f = factor_of(a.factor);
  if (f == (A)1) return;
  constexpr int kWide = 16 / sizeof(T);
  const i64 wide = ((u64)a.data & 15) == 0 ? a.n / kWide : 0;
  EACH(i, wide) {
    Vector v = ((const Vector*)a.data)[i];
#pragma unroll
    for (int k = 0; k < kWide; ++k) v.of[k] = scaled(v.of[k], f);
    ((Vector*)a.data)[i] = v;
  }
  EACH(j, a.n - wide * kWide) a.data[wide * kWide + j] = scaled(a.data[wide * kWide + j], f);
}

}  // namespace ebb::cuda
