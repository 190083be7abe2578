// SPDX-License-Identifier: MIT
// Rows of logits become losses and gradients, a block per row. T is how x and W are stored, A what is computed in.
//   look           adds the bias, caps, makes the loss; leaves what the gradient needs in `seen`
//   differentiate  makes the gradient of the logits: in `narrow`, with zeros behind the last class, and in place where
//                  `keep` is set
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"
#include "cuda/kernels/parts/element.h"

namespace ebb::cuda {

using Args = FinishRowsArgs<T, A>;

EBB f64 weight_of(const Args& a, i64 c) { return a.weight ? (f64)a.weight[c * a.weight_step] : 1.0; }
extern "C" __global__ void __launch_bounds__(kThreads) finish_rows(const Args a) {
  __shared__ u64 shared[kThreads];
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const i64 row = row_of(a.rows, r), y = a.target[row * a.target_step];
    A* const z = a.logits + r * a.step;
    T* const narrow = a.narrow + r * a.step;
    const bool inside = (u64)y < (u64)a.classes, counts = inside && y != a.ignore;
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.complaints, row, 0, bits_of(y));
    for (i64 c = a.classes + threadIdx.x; a.differentiate && c < a.step; c += kThreads) narrow[c] = (T)0;
    if (!counts) {
      if (a.look && threadIdx.x == 0) a.losses[row] = 0;
      for (i64 c = threadIdx.x; a.differentiate && c < a.classes; c += kThreads) {
        if (a.keep) z[c] = 0;
        narrow[c] = (T)0;
      }
      continue;
    }
    const f64 w = weight_of(a, y), spread_share = a.smoothing / (f64)a.classes;
    f64 peak = 0, total = 0, weights = (f64)a.classes;
    if (a.look) {
      f64 top = -infinity(), spread = 0, sum_of_weights = 0;
      for (i64 c = threadIdx.x; c < a.classes; c += kThreads) {
        A u = z[c];
        if (a.bias) u = u + a.bias[c * a.bias_step];
        if (a.softcap != 0) u = (A)a.softcap * tanh_of(u / (A)a.softcap);
        if (a.bias || a.softcap != 0) z[c] = u;
        top = larger(top, (f64)u);
        if (a.smoothing != 0) {
          const f64 here = weight_of(a, c);
          spread += here * (f64)u;
          sum_of_weights += here;
        }
      }
      top = over_block<Most>(top, shared);
      peak = is_finite(top) ? top : 0;
      if (a.smoothing != 0) {
        spread = over_block<Plus>(spread, shared);
        if (a.weight) weights = over_block<Plus>(sum_of_weights, shared);
      }
      for (i64 c = threadIdx.x; c < a.classes; c += kThreads) total += (f64)exp_of(z[c] - (A)peak);
      total = over_block<Plus>(total, shared);
      if (threadIdx.x == 0) {
        const f64 lse = peak + log(total);
        f64 loss = (1 - a.smoothing) * w * (lse - (f64)z[y]);
        if (a.smoothing != 0) loss += spread_share * (weights * lse - spread);
        if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
        a.losses[row] = (A)loss;
        a.seen[3 * r] = peak;
        a.seen[3 * r + 1] = total;
        a.seen[3 * r + 2] = weights;
      }
      __syncthreads();  // z[y] is read before it becomes a gradient
    } else {
      peak = a.seen[3 * r];
      total = a.seen[3 * r + 1];
      weights = a.seen[3 * r + 2];
    }
    if (!a.differentiate) continue;
    const f64 g =
        a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : row) * a.cotangent_step] : 1.0;
    const f64 hit = (1 - a.smoothing) * w;
    f64 factor = hit + spread_share * weights;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    const A scale = (A)(g * factor / total), drop = (A)(g * hit);
    for (i64 c = threadIdx.x; c < a.classes; c += kThreads) {
      const A u = z[c];
      A d = exp_of(u - (A)peak) * scale;
      if (a.smoothing != 0) d = d - (A)(g * spread_share * weight_of(a, c));
      if (c == y) d = d - drop;
      if (a.softcap != 0) d = d * ((A)1 - u / (A)a.softcap * (u / (A)a.softcap));
      if (a.keep) z[c] = d;
      narrow[c] = store(d);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
