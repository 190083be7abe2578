// SPDX-License-Identifier: MIT
// Distances of rows, by kLanes lanes each, and their gradient, an element per thread. pdist comes here; cdist of what
// is on a GPU is a formula of products and sweeps (Backend::calls_distances) unless its operands were on no device when
// it was called.
#pragma once
#include "cuda/kernels/args/distances.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kPower = 2;
constexpr bool kPairs = false;
constexpr int kLanes = 32;
#endif

using Args = DistanceArgs<T>;

// Pairs i < j of n rows that come before those of row i.
EBB i64 pairs_before(i64 i, i64 n) { return i * (2 * n - 1 - i) / 2; }

EBB f64 sum_of_lanes(f64 x) {
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
EBB f64 largest_of_lanes(f64 x) {
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2) {
    const f64 y = __shfl_xor_sync(0xffffffffu, x, d);
    x = y > x ? y : x;
  }
  return x;
}
// Sums are f64, where squares of f32 are exact; those of f64 are scaled by the largest difference.
EBB T distance(const T* a, const T* b, i64 depth) {
  const int lane = threadIdx.x % kLanes;
  f64 sum = 0, most = 0;
#pragma unroll 4
  for (i64 k = lane; k < depth; k += kLanes) {
    const f64 d = fabs((f64)load(a[k]) - (f64)load(b[k]));
    if (kPower == 1) {
      sum += d;
    } else {
      sum = fma(d, d, sum);
      most = d > most ? d : most;
    }
  }
  sum = sum_of_lanes(sum);
  if (kPower == 1) return store((A)sum);
  most = largest_of_lanes(most);
  if (sum == sum && most > 0 && most < infinity() && (sum < 1e-290 || sum > 1e307)) {
    sum = 0;
    for (i64 k = lane; k < depth; k += kLanes) {
      const f64 d = ((f64)load(a[k]) - (f64)load(b[k])) / most;
      sum = fma(d, d, sum);
    }
    return store((A)(sqrt(sum_of_lanes(sum)) * most));
  }
  return store((A)sqrt(sum));
}

// All lanes of a distance take the same way.
extern "C" __global__ void __launch_bounds__(kThreads) distances(const Args a) {
  const bool writes = threadIdx.x % kLanes == 0;
  const i64 step = (i64)gridDim.x * (kThreads / kLanes);
  for (i64 at = (i64)blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes; at < a.batches * a.m * a.n; at += step) {
    const i64 row = quotient(at, a.n), j = at - row * a.n;
    if (kPairs && row >= j) continue;
    const i64 batch = quotient(row, a.m), to = kPairs ? pairs_before(row, a.n) + j - row - 1 : at;
    const T d = distance(a.a + row * a.depth, a.b + (batch * a.n + j) * a.depth, a.depth);
    if (writes) a.out[to] = d;
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
