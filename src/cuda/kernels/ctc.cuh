// SPDX-License-Identifier: MIT
// CTC in two kernels; see the CPU's for the recursions.
//
// The first makes rows of α and of β, each by a block of its own: backwards in time, with the labels in reverse, β
// times its probability follows the recursion of α. A lane has a blank and the label behind it, so that it needs one
// number of the lane before and no barrier. 32 such pairs are a stripe. A sample's stripes are shared by four warps,
// which follow each other at a distance of some steps; each has another warp that makes its probabilities.
//
// The second makes the gradient, a warp per row: everything is known by then.
#pragma once
#include "cuda/kernels/args/alignment.h"
#include "cuda/kernels/parts/alignment.cuh"

namespace ebb::cuda {

constexpr int kAhead = kDual ? 4 : 8;  // steps between two barriers
constexpr int kWalkers = 4;            // warps with a stripe each
struct Pair {
  Kept blank, label;
};
using Args = CtcArgs<T, L, Kept, Pair>;
EBB i32 from_lane(i32 x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
EBB f64 from_lane(f64 x, int lane) {
  const u64 bits = bits_of(x);
  const u32 low = __shfl_sync(0xffffffffu, (u32)bits, lane), high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), lane);
  return from_bits(x, (u64)high << 32 | low);
}
EBB Wide from_lane(const Wide& x, int lane) {
  return {from_lane(x.m, lane), from_lane(x.k, lane), kDual ? from_lane(x.d, lane) : 0.0};
}

// The labels of a sample as α or β sees them, and when. A stripe's warps begin with it at chunk 0 of its steps.
struct Way {
  const Args& a;
  const Sample& s;
  const i64 n;
  const bool back;
  const int lane;
  __device__ __forceinline__ i64 label_at(i64 i) const { return s.labels[(back ? s.length - 1 - i : i) * a.label_i]; }
  __device__ __forceinline__ int live(i64 step) const {
    return s.steps - step < kAhead ? (int)(s.steps - step) : kAhead;
  }
};

// Probabilities of a stripe's labels and of the blank, at some steps.
struct Probabilities {
  Kept label[kAhead][32], blank[kAhead];
};
struct Maker {
  const Way& way;
  struct Next {
    i64 label, blank, step;
  } next, next_tangent;  // where those of the next steps lie
  bool is_label;
  A x[kAhead + 1] = {}, tangent[kAhead + 1] = {};  // of these steps; the last are the blank's, of step `lane`

  __device__ __forceinline__ Maker(const Way& way) : way(way) {}
  __device__ __forceinline__ void begin(i64 stripe) {
    const Args& a = way.a;
    const i64 pair = stripe * 32 + way.lane, n = way.n;
    is_label = pair < way.s.length;  // there is none behind the last blank
    const i64 c = is_label ? way.label_at(pair) : a.blank, t = way.back ? way.s.steps - 1 : 0, sign = way.back ? -1 : 1;
    next = {t * a.x_t + n * a.x_n + c * a.x_c, t * a.x_t + n * a.x_n + a.blank * a.x_c, sign * a.x_t};
    if (kDual)
      next_tangent = {t * a.tangent_t + n * a.tangent_n + c * a.tangent_c,
                      t * a.tangent_t + n * a.tangent_n + a.blank * a.tangent_c, sign * a.tangent_t};
    fetch(0);
  }
  __device__ __forceinline__ void fetch_from(const T* from, Next& next, int live, A* x) {
#pragma unroll
    for (int q = 0; q < kAhead; ++q) {
      if (q < live) x[q] = load(from[next.label + q * next.step]);
    }
    if (way.lane < live) x[kAhead] = load(from[next.blank + way.lane * next.step]);
    next.label += kAhead * next.step;
    next.blank += kAhead * next.step;
  }
  __device__ __forceinline__ void fetch(i64 step) {
    fetch_from(way.a.x, next, way.live(step), x);
    if (kDual) fetch_from(way.a.tangent, next_tangent, way.live(step), tangent);
  }
  __device__ __forceinline__ void make(i64 step, Probabilities& to) {
    Wide y[kAhead + 1];
#pragma unroll
    for (int q = 0; q < kAhead; ++q) x[q] = is_label ? x[q] : (A)-infinity();
    wide_exp<kAhead + 1>(x, tangent, y);
    fetch(step + kAhead);
#pragma unroll
    for (int q = 0; q < kAhead; ++q) to.label[q][way.lane] = kept(y[q]);
    if (way.lane < kAhead) to.blank[way.lane] = kept(y[kAhead]);
  }
};

struct Walker {
  const Way& way;
  i64 pair;
  bool skips;
  Wide blank, label, edge;  // edge: the last label of the stripe before
  Pair* row;                // of the next step

  __device__ __forceinline__ Walker(const Way& way) : way(way) {}
  __device__ __forceinline__ void begin(i64 stripe) {
    pair = stripe * 32 + way.lane;
    // May be reached from the label before it at once?
    skips = pair > 0 && pair < way.s.length && way.label_at(pair - 1) != way.label_at(pair);
    blank = pair == 0 ? one() : none();
    label = edge = none();
    row = (way.back ? way.a.beta : way.a.alpha) + (way.s.before + way.n) * way.a.steps + pair;
  }
  __device__ __forceinline__ Wide left() const {
    const Wide before = from_lane(label, (way.lane + 31) & 31);
    return way.lane == 0 ? edge : before;
  }
  template <bool whole>
  __device__ __forceinline__ void walk(int live, const Probabilities& y, const Kept* edge_in, Kept* edge_out) {
    Wide blanks[kAhead], labels[kAhead], last[kAhead];
#pragma unroll
    for (int q = 0; q < kAhead; ++q) {
      if (!whole && q >= live) break;
      const Wide from = left();
      const Wide to_blank = plus(blank, from), to_label = plus(plus(label, blank), skips ? from : none());
      edge = wide(edge_in[q]);
      blank = times(to_blank, wide(y.blank[q]));
      label = times(to_label, wide(y.label[q][way.lane]));
      blanks[q] = way.back ? to_blank : blank;
      labels[q] = way.back ? to_label : label;
      last[q] = label;
    }
    if (way.a.order >= 1 && pair <= way.s.length) {
#pragma unroll
      for (int q = 0; q < kAhead; ++q) {
        if (!whole && q >= live) break;
        row->blank = kept(blanks[q]);
        row->label = kept(labels[q]);
        row += way.s.length + 1;
      }
    }
    if (way.lane == 31) {
#pragma unroll
      for (int q = 0; q < kAhead; ++q) {
        if (!whole && q >= live) break;
        edge_out[q] = kept(last[q]);
      }
    }
  }
};

// Labels in the order of their classes, for the sums over all places of a class.
EBB void sort_labels(const Args& a, const Sample& s) {
  for (i64 i = threadIdx.x; i < s.length; i += kThreads) {
    const i64 c = s.labels[i * a.label_i];
    int below = 0, before = 0, equal = 0;
    for (i64 j = 0; j < s.length; ++j) {
      const i64 other = s.labels[j * a.label_i];
      below += other < c;
      equal += other == c;
      before += other == c && j < i;
    }
    a.places[s.before + below + before] = {c, (i32)i, below, below + equal};
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) align(const Args a) {
  __shared__ u64 shared[kThreads];
  __shared__ Probabilities made[kWalkers][2];
  __shared__ Kept edges[kWalkers][2][kAhead], no_edge[kAhead];  // a stripe's for the next warp
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, walker = warp % kWalkers;
  const bool walks = warp < kWalkers;
  if (threadIdx.x < kAhead) no_edge[threadIdx.x] = kept(none());
  for (i64 turn = blockIdx.x; turn < (a.order >= 1 ? 2 : 1) * a.samples; turn += gridDim.x) {
    const bool back = turn >= a.samples;
    const i64 n = back ? turn - a.samples : turn;
    const Sample s = sample_of(a, n, shared);
    if (back) sort_labels(a, s);
    const Way way{a, s, n, back, lane};
    Maker maker(way);
    Walker walk(way);
    Kept* const column = a.edges + turn * a.steps;  // from the last warp to the first, for its next stripe
    const i64 stripes = s.length / 32 + 1, chunks = s.steps < s.length ? 0 : (s.steps + kAhead - 1) / kAhead;
    // Every warp begins a chunk after the one that it waits for. Where there are more stripes than warps there are more
    // chunks, too, since every label takes a step: the first warp is done with a stripe when the last has begun its
    // own.
    i64 stripe = walker, chunk = -walker - (walks ? 1 : 0);
    const i64 end = chunks == 0 ? 0 : (stripes + kWalkers - 1) / kWalkers * chunks + kWalkers;
    for (i64 i = 0, side = 0; i < end; ++i) {
      const i64 step = chunk * kAhead;
      if (chunk >= 0 && stripe < stripes) {
        Probabilities& y = made[walker][side];
        if (walks) {
          if (chunk == 0) walk.begin(stripe);
          const Kept* const in = stripe == 0 ? no_edge : walker == 0 ? column + step : edges[walker - 1][side];
          Kept* const out = walker == kWalkers - 1 ? column + step : edges[walker][side];
          const int live = way.live(step);
          live == kAhead ? walk.walk<true>(live, y, in, out) : walk.walk<false>(live, y, in, out);
        } else {
          if (chunk == 0) maker.begin(stripe);
          maker.make(step, y);
        }
        side ^= 1;
      }
      __syncthreads();
      if (++chunk == chunks) chunk = 0, stripe += kWalkers;
    }
    if (back || warp != (stripes - 1) % kWalkers) continue;
    Wide total = s.length == 0 ? one() : none();  // of no steps
    if (chunks > 0) total = plus(walk.blank, walk.left());
    if (lane != s.length % 32) continue;
    a.losses[n] = (L)loss_of(a, total);
    if (a.order >= 1)
      a.outcomes[n] = {total, is_possible(total) ? s.steps : 0, s.length, s.before};  // -log 0 has no slope
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) gradient(const Args a) {
  const int lane = threadIdx.x & 31;
  for (i64 r = (i64)blockIdx.x * kCtcRows + (threadIdx.x >> 5); r < a.steps * a.samples;
       r += (i64)gridDim.x * kCtcRows) {
    const i64 t = quotient(r, a.samples), n = r - t * a.samples;
    T* const row = a.gradient + r * a.classes;
    for (i64 c = lane; c < a.classes; c += 32) row[c] = (T)0;
    const CtcOutcome o = a.outcomes[n];
    if (t >= o.steps) continue;
    __syncwarp();
    const f64 g = (f64)a.cotangent[n * a.cotangent_step];
    const Share share(o.total);
    const Pair* const alpha = a.alpha + (o.before + n) * a.steps + t * (o.length + 1);
    const Pair* const beta = a.beta + (o.before + n) * a.steps + (o.steps - 1 - t) * (o.length + 1) + o.length;
    f64 blanks = 0;
    for (i64 i = lane; i <= o.length; i += 32) blanks += share.of(wide(alpha[i].blank), wide(beta[-i].blank));
    blanks = over_lanes<Plus>(blanks);
    if (lane == 0 && blanks != 0) row[a.blank] = narrow(-g * blanks);
    // Labels of one class are neighbours, so their sum is made as a running one is. It goes on in the next 32.
    f64 last = 0;
    for (i64 first = 0; first < o.length; first += 32) {
      const i64 i = first + lane;
      const CtcPlace p = i < o.length ? a.places[o.before + i] : CtcPlace{0, 0, (i32)i, (i32)i};
      f64 x = i < o.length ? share.of(wide(alpha[p.at].label), wide(beta[-1 - p.at].label)) : 0.0;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const f64 other = from_lane(x, (lane - distance) & 31);
        if (distance <= lane && i - distance >= p.begin) x += other;
      }
      if (p.begin < first) x += last;
      last = from_lane(x, 31);
      if (i == p.end - 1 && x != 0) row[p.label] = narrow(-g * x);
    }
  }
}

}  // namespace ebb::cuda
