// SPDX-License-Identifier: MIT
// The transducer: a block per sample, whose threads share the places of a diagonal; see the CPU's for the recursions.
// α and β of every place are kept in memory.
#pragma once
#include "cuda/kernels/args/alignment.h"
#include "cuda/kernels/parts/alignment.cuh"

namespace ebb::cuda {

using Args = TransducerArgs<T, L, Kept>;

extern "C" __global__ void __launch_bounds__(kThreads) align(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 n = blockIdx.x; n < a.samples; n += gridDim.x) {
    const Sample s = sample_of(a, n, shared);
    const i64 width = s.length + 1, places = a.steps * (a.room + 1);
    Kept* const alpha = a.alpha + n * places;
    const auto probability = [&](i64 t, i64 u, i64 c) {
      const A x = load(a.x[n * a.x_n + t * a.x_t + u * a.x_u + c * a.x_c]);
      const A tangent =
          kDual ? load(a.tangent[n * a.tangent_n + t * a.tangent_t + u * a.tangent_u + c * a.tangent_c]) : 0;
      Wide y;
      wide_exp<1>(&x, &tangent, &y);
      return y;
    };
    const i64 diagonals = s.steps == 0 ? 0 : s.steps + s.length;
    for (i64 d = 0; d < diagonals; ++d) {
      for (i64 u = threadIdx.x; u <= s.length; u += kThreads) {
        const i64 t = d - u;
        if (t < 0 || t >= s.steps) continue;
        Wide x = d == 0 ? one() : none();
        if (t > 0) x = plus(x, times(wide(alpha[(t - 1) * width + u]), probability(t - 1, u, a.blank)));
        if (u > 0)
          x = plus(x, times(wide(alpha[t * width + u - 1]), probability(t, u - 1, s.labels[(u - 1) * a.label_i])));
        alpha[t * width + u] = kept(x);
      }
      __syncthreads();
    }
    const Wide total =
        diagonals ? times(wide(alpha[(s.steps - 1) * width + s.length]), probability(s.steps - 1, s.length, a.blank))
                  : none();
    if (threadIdx.x == 0) a.losses[n] = (L)loss_of(a, total);
    if (a.order == 0) continue;
    T* const gradient = a.gradient + n * places * a.classes;
    for (i64 i = threadIdx.x; i < places * a.classes; i += kThreads) gradient[i] = (T)0;
    __syncthreads();
    if (!is_possible(total)) continue;  // -log 0 has no slope to follow
    const f64 g = (f64)a.cotangent[n * a.cotangent_step];
    const Share share(total);
    Kept* const beta = a.beta + n * places;
    for (i64 d = diagonals - 1; d >= 0; --d) {
      for (i64 u = threadIdx.x; u <= s.length; u += kThreads) {
        const i64 t = d - u;
        if (t < 0 || t >= s.steps) continue;
        const Wide here = wide(alpha[t * width + u]);
        const Wide after = t < s.steps - 1 ? wide(beta[(t + 1) * width + u]) : u == s.length ? one() : none();
        T* const row = gradient + (t * (a.room + 1) + u) * a.classes;
        const Wide by_blank = times(after, probability(t, u, a.blank));
        row[a.blank] = narrow(-g * share.of(here, by_blank));
        Wide sum = by_blank;
        if (u < s.length) {
          const i64 c = s.labels[u * a.label_i];
          const Wide by_label = times(wide(beta[t * width + u + 1]), probability(t, u, c));
          row[c] = narrow(-g * share.of(here, by_label));
          sum = plus(sum, by_label);
        }
        beta[t * width + u] = kept(sum);
      }
      __syncthreads();
    }
  }
}

}  // namespace ebb::cuda
