// SPDX-License-Identifier: MIT
// Distances of rows and their gradient, an element of the result per thread. Simple, since few come here: cdist and
// pdist of what is on a GPU are formulas of products and sweeps (Backend::calls_distances), and these kernels serve
// operands that were on no device when they were called.
#pragma once
#include "cuda/kernels/args/distances.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kPower = 2;
constexpr bool kPairs = false;
#endif

using Args = DistanceArgs<T>;

// Pairs i < j of n rows that come before those of row i.
EBB i64 pairs_before(i64 i, i64 n) { return i * (2 * n - 1 - i) / 2; }

// Sums are f64, where squares of f32 are exact; those of f64 are scaled by the largest difference.
EBB T distance(const T* a, const T* b, i64 depth) {
  f64 sum = 0, most = 0;
  for (i64 k = 0; k < depth; ++k) {
    const f64 d = fabs((f64)load(a[k]) - (f64)load(b[k]));
    if (kPower == 1) {
      sum += d;
    } else {
      sum = fma(d, d, sum);
      most = d > most ? d : most;
    }
  }
  if (kPower == 1) return store((A)sum);
  if (sum == sum && most > 0 && most < infinity() && (sum < 1e-290 || sum > 1e307)) {
    sum = 0;
    for (i64 k = 0; k < depth; ++k) {
      const f64 d = ((f64)load(a[k]) - (f64)load(b[k])) / most;
      sum = fma(d, d, sum);
    }
    return store((A)(sqrt(sum) * most));
  }
  return store((A)sqrt(sum));
}

extern "C" __global__ void __launch_bounds__(kThreads) distances(const Args a) {
  if (kPairs) {
    const i64 n = a.n;
    EACH(at, n * n) {
      const i64 i = at / n, j = at - i * n;
      if (i < j) a.out[pairs_before(i, n) + j - i - 1] = distance(a.a + i * a.depth, a.a + j * a.depth, a.depth);
    }
  } else {
    EACH(at, a.batches * a.m * a.n) {
      const i64 row = at / a.n, j = at - row * a.n, batch = row / a.m;
      a.out[at] = distance(a.a + row * a.depth, a.b + (batch * a.n + j) * a.depth, a.depth);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) gradient(const Args a) {
  EACH(at, a.batches * a.m * a.depth) {
    const i64 row = at / a.depth, k = at - row * a.depth, batch = row / a.m, i = row - batch * a.m;
    const A x = load(a.a[at]);
    f64 sum = 0;
    for (i64 j = 0; j < a.n; ++j) {
      if (kPairs && i == j) continue;
      const i64 pair = i < j ? pairs_before(i, a.n) + j - i - 1 : pairs_before(j, a.n) + i - j - 1;
      const i64 of_grad = kPairs ? pair : batch * a.grad_batch + i * a.grad_row + j * a.grad_column;
      const A g = load(a.grad[of_grad]), d = x - load(a.b[(batch * a.n + j) * a.depth + k]);
      if (kPower == 1) {
        sum += (f64)(d > 0 ? g : d < 0 ? -g : (A)0);
      } else {
        const i64 of_distance = kPairs ? pair : batch * a.distance_batch + i * a.distance_row + j * a.distance_column;
        const A by = load(a.distances[of_distance]);
        if (by != 0) sum = fma((f64)g / (f64)by, (f64)d, sum);
      }
    }
    a.out[at] = store((A)sum);
  }
}

}  // namespace ebb::cuda
