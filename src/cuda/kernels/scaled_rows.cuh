// SPDX-License-Identifier: MIT
// Rows that are made as exponentials.
//
// With e = exp(z − r) for a reference r near the row's largest logits, S = Σ e and the row's factor s = g·w / S, the
// gradient of a row of logits is s·e, less g·w at its target: s·(e − S) there. So e stays as it is but for that one
// number, s goes into the rows of x for the gradient of W, and into those of the finished gradient of x.
//
// The reference is the target's own logit, up to the order of its sum: S is at least about 1. Where another logit is
// larger by so much that S leaves the range in which halves are exact enough, where something is no number, and with
// `all`, the row is made anew from its largest logit, by one block: this is slow, and rare.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"

namespace ebb::cuda {

EBB f32 dot(const u16* x, const u16* w, int first, int step, int width) {
  f32 sum = 0;
  for (int i = first * 8; i < width; i += step * 8) {
    const Pack<u16, 8> p = load_pack<8>(x + i, true, 8), q = load_pack<8>(w + i, true, 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = fmaf(from_bf16(p.at(j)), from_bf16(q.at(j)), sum);
  }
  return sum;
}
EBB f32 exp_from(f32 z, f32 reference) {
  return power_of_two(fmaf(z, 1.4426950408889634f, -(reference * 1.4426950408889634f)));
}

// A warp per row.
extern "C" __global__ void __launch_bounds__(kThreads) references(const ScaledRowsArgs a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (i64 r = (i64)blockIdx.x * kReferenceRows + warp; r < a.count; r += (i64)gridDim.x * kReferenceRows) {
    const Target t(a, r);
    if (!t.inside && t.y != a.ignore && lane == 0) complain(a.complaints, t.row, 0, bits_of(t.y));
    f32 z = 0;
    if (t.counts) z = over_lanes<Plus>(dot(a.x + r * a.width, a.head + t.y * a.width, lane, 32, (int)a.width));
    if (lane == 0) {
      a.reference[r] = is_finite(z) ? z : 0.0f;
      a.chosen[r] = t.counts ? (i32)t.y : -1;
    }
  }
}

// A block per row: its loss, its factor, its number at the target.
extern "C" __global__ void __launch_bounds__(kThreads) scaled_rows(const ScaledRowsArgs a) {
  __shared__ u64 shared[kThreads];
  const int classes = (int)a.classes, width = (int)a.width;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const Target t(a, r);
    u16 *const e = a.e + r * a.step, *const x = a.x + r * a.width;
    for (i64 c = a.classes + threadIdx.x; c < a.step; c += kThreads) e[c] = 0;
    if (!t.counts) {  // its x is 0, and so are its logits; what is multiplied by that must be numbers
      if (threadIdx.x == 0) a.losses[t.row] = 0, a.scale[r] = 0;
      for (int c = threadIdx.x; a.all && c < classes; c += kThreads) e[c] = 0;
      continue;
    }
    f64 total = 0;
    for (i64 i = threadIdx.x; !a.all && i < a.tiles; i += kThreads) total += (f64)a.parts[r * a.tiles + i];
    total = over_block<Plus>(total, shared);
    f32 reference = a.reference[r], own = a.own[r];
    if (!(total > 8.6736173798840355e-19 && total < 1.152921504606847e18)) {  // 2^-60 to 2^60
      f32 top = -(f32)infinity();
      for (int c = threadIdx.x; c < classes; c += kThreads) {
        e[c] = to_bf16(dot(x, a.head + (i64)c * width, 0, 1, width));
        top = larger(top, from_bf16(e[c]));
      }
      const f64 highest = over_block<Most>((f64)top, shared);
      reference = is_finite(highest) ? (f32)highest : 0.0f;
      own = from_bf16(e[t.y]);
      __syncthreads();  // before it becomes an exponential
      total = 0;
      for (int c = threadIdx.x; c < classes; c += kThreads) {
        const f32 one = exp_from(from_bf16(e[c]), reference);
        total += (f64)one;
        e[c] = to_bf16(one);
      }
      total = over_block<Plus>(total, shared);
    }
    const f64 w = t.weight(a), g = a.cotangent ? (f64)a.cotangent[t.row * a.cotangent_step] : 1.0;
    // The number at the target is the largest by far: what its rounding has changed goes into the factor.
    const f64 exact = (f64)exp_from(own, reference) - total;
    const u16 rounded = to_bf16((f32)exact);
    const f64 kept = (f64)from_bf16(rounded), share = g * w / total;
    const f32 scale = (f32)(is_finite(total) ? kept != 0 ? share * (exact / kept) : share : not_a_number());
    if (threadIdx.x == 0) {
      a.losses[t.row] = (f32)(w * ((f64)reference + log(total) - (f64)own));
      a.scale[r] = scale;
      e[t.y] = rounded;
    }
    if (!a.differentiate) continue;
    for (int i = threadIdx.x * 8; i < width; i += kThreads * 8) {
      const Pack<u16, 8> p = load_pack<8>(x + i, true, 8);
      Pack<u16, 8> q;
#pragma unroll
      for (int j = 0; j < 8; ++j) q.set_bf16(j, from_bf16(p.at(j)) * scale);
      store_pack<8>(x + i, q, true, 8, false);
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
