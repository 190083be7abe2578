// SPDX-License-Identifier: MIT
// The usual rows of bf16: no bias, cap or smoothing. L is how the logits are stored, f32 or bf16; a row has room for a
// multiple of eight, and those behind the last class count as -inf. The gradient may take the place of its row of
// logits, from the front. Maximum and sum are made in one pass: a thread scales its sum when its maximum grows. All
// that is exponentiated here becomes bf16 or a sum whose error is a part in 2^22: see the quick functions.
#pragma once
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/parts/chunk_rows.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 L;
#endif

using Args = UsualRowsArgs<L>;

EBB f32 logit(f32 x) { return x; }
EBB f32 logit(u16 x) { return from_bf16(x); }
EBB Pack<f32, 8> widened(const Pack<f32, 8>& x) { return x; }
EBB Pack<f32, 8> widened(const Pack<u16, 8>& x) {
  Pack<f32, 8> z;
#pragma unroll
  for (int j = 0; j < 8; ++j) z.set(j, logit(x.at(j)));
  return z;
}
// Eight logits, of which `live` are there.
template <class T>
EBB Pack<f32, 8> logits_of(const Pack<T, 8>& x, int live) {
  Pack<f32, 8> z = widened(x);
  if (live < 8) {
#pragma unroll
    for (int j = 0; j < 8; ++j) z.set(j, j < live ? z.at(j) : -(f32)infinity());
  }
  return z;
}
EBB bool is_number(f32 x) { return fabsf(x) < (f32)infinity(); }
// Maximum and sum of exponentials of what a thread has seen, the sum relative to `base`.
struct Seen {
  f32 top, base, part;
  __device__ __forceinline__ Seen() : top(-(f32)infinity()), base(-(f32)infinity()), part(0) {}
  __device__ __forceinline__ void add(const Pack<f32, 8>& q) {
#pragma unroll
    for (int j = 0; j < 8; ++j) top = larger(top, q.at(j));
    const f32 next = is_number(top) ? top : 0.0f;
    f32 sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += quick_exp(q.at(j) - next);
    part = part * quick_exp(base - next) + sum;
    base = next;
  }
};
EBB void put_loss(const Args& a, i64 r, const Target& t, f64 peak, f64 total, f32 own) {
  const f64 w = t.weight(a), lse = peak + log(total);
  f64 loss = w * (lse - (f64)own);
  if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
  a.losses[t.row] = (f32)loss;
  a.seen[2 * r] = peak;
  a.seen[2 * r + 1] = total;
}
// The gradient of eight logits from column c on.
struct Gradient {
  f32 scale, drop, from;
  int hit;
  __device__ __forceinline__ Gradient(const Args& a, i64 r, const Target& t, f64 peak, f64 total) {
    const f64 g =
        a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : t.row) * a.cotangent_step] : 1.0;
    const f64 w = t.weight(a);
    f64 factor = w;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    scale = (f32)(g * factor / total), drop = (f32)(g * w), from = (f32)peak;
    hit = (int)t.y;
  }
  __device__ __forceinline__ void put(u16* narrow, int c, const Pack<f32, 8>& q) const {
    Pack<u16, 8> d;
#pragma unroll
    for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale);
    if ((unsigned)(hit - c) < 8) {
#pragma unroll
      for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale - (c + j == hit ? drop : 0.0f));
    }
    store_pack<8>(narrow + c, d, true, 8, false);
  }
};

// Rows that do not fit on smem are read twice. A gradient of f32 logits overwrites what was read half as far on, which
// a barrier a round makes sure of.
extern "C" __global__ void __launch_bounds__(kThreads) usual_rows(const Args a) {
  constexpr int kStep = kThreads * 8;
  __shared__ u64 shared[kThreads];
  const int classes = (int)a.classes;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const Target t(a, r);
    const L* const z = a.logits + r * a.step;
    u16* const narrow = a.narrow + r * a.narrow_step;
    t.check(a);
    if (!t.counts) {
      if (a.look && threadIdx.x == 0) a.losses[t.row] = 0;
      for (int c = threadIdx.x * 8; a.differentiate && c < classes; c += kStep)
        store_pack<8>(narrow + c, all_of((u16)0), true, 8, false);
      continue;
    }
    f64 peak = 0, total = 0;
    if (a.look) {
      const f32 own = logit(z[t.y]);  // before anybody writes
      Seen seen;
#pragma unroll 2
      for (int c = threadIdx.x * 8; c < classes; c += kStep)
        seen.add(logits_of(load_pack<8>(z + c, true, 8), classes - c));
      const f64 highest = over_block<Most>((f64)seen.top, shared);
      peak = is_finite(highest) ? highest : 0;
      total = over_block<Plus>((f64)seen.part * (f64)quick_exp(seen.base - (f32)peak), shared);
      if (threadIdx.x == 0) put_loss(a, r, t, peak, total, own);
    } else {
      peak = a.seen[2 * r];
      total = a.seen[2 * r + 1];
    }
    if (!a.differentiate) continue;
    const Gradient gradient(a, r, t, peak, total);
    int c = threadIdx.x * 8;
    Pack<f32, 8> next = logits_of(load_pack<8>(z + (c < classes ? c : 0), true, 8), classes - c);
    for (int first = 0; first < classes; first += kStep, c += kStep) {
      const Pack<f32, 8> q = next;
      next = logits_of(load_pack<8>(z + (c + kStep < classes ? c + kStep : 0), true, 8), classes - c - kStep);
      __syncthreads();  // the logits that this round writes over are read
      if (c < classes) gradient.put(narrow, c, q);
    }
    __syncthreads();
  }
}

template <class T>
EBB void copy_own(char* base, int slot, const T* from) {
  constexpr int kChunks = (int)sizeof(T) / 2;
  must_be_aligned(from, 16);
  Words4* const at = own(base, slot, kChunks);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) copy16<kChunks == 1>(at + i * blockDim.x, (const Words4*)from + i);
}
// Rows that fit are read once, and memory never waits for arithmetic: as soon as a thread has read eight logits for the
// last time, it sends for those of the block's next row that take their place. Of a long row each thread has the first
// `held` eights in registers. A thread reads only what it has copied itself; the one barrier per row is that of its
// sum.
template <int threads, int held>
EBB void staged_rows(const Args& a, char* smem) {
  constexpr int kStep = threads * 8, kWarps = threads / 32, kGroups = 4;
  __shared__ f32 tops[2][kWarps];  // a warp may be a row ahead of another
  __shared__ f64 sums[2][kWarps];
  const int classes = (int)a.classes, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int first = threadIdx.x * 8, slots = (classes + kStep - 1) / kStep - held;
  const int per_group = slots > 0 ? (slots + kGroups - 1) / kGroups : 0;
  const auto copy = [&](i64 r, int slot) {
    const int c = first + (held + slot) * kStep;
    if (r < a.count && c < classes) copy_own(smem, slot, (const L*)a.logits + r * a.step + c);
  };
  const auto load = [&](i64 r, int k) {
    const int c = first + k * kStep;
    const bool there = r < a.count && c < classes;
    return load_pack<8>((const L*)a.logits + (there ? r * a.step + c : 0), true, 8);
  };
  Pack<L, 8> kept[held + 1];
#pragma unroll
  for (int k = 0; k < held; ++k) kept[k] = load(blockIdx.x, k);
  for (int group = 0; group < kGroups; ++group) {
    for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) copy(blockIdx.x, slot);
    copies_begun();
  }
  int side = 0;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x, side ^= 1) {
    const Target t(a, r);
    const i64 next = r + gridDim.x;
    u16* const narrow = a.narrow + r * a.narrow_step;
    t.check(a);
    const f32 own = t.counts ? logit(a.logits[r * a.step + t.y]) : 0.0f;  // before anybody writes
    Seen seen;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (first + k * kStep < classes) seen.add(logits_of(kept[k], classes - first - k * kStep));
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      group == 0   ? wait_for_copies<3>()
      : group == 1 ? wait_for_copies<2>()
      : group == 2 ? wait_for_copies<1>()
                   : wait_for_copies<0>();
      for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) {
        const int c = first + (held + slot) * kStep;
        if (c < classes) seen.add(logits_of(read_own<L>(smem, slot), classes - c));
      }
    }
    const f32 top = over_lanes<Most>(seen.top), base = is_number(top) ? top : 0.0f;
    const f64 sum = over_lanes<Plus>((f64)(seen.part * quick_exp(seen.base - base)));
    if (lane == 0) tops[side][warp] = top, sums[side][warp] = sum;
    __syncthreads();
    const f32 of_warp = lane < kWarps ? tops[side][lane] : -(f32)infinity(), highest = over_lanes<Most>(of_warp);
    const f32 peak = is_number(highest) ? highest : 0.0f;
    const f32 further = (is_number(of_warp) ? of_warp : 0.0f) - peak;
    const f64 total = over_lanes<Plus>(lane < kWarps ? sums[side][lane] * (f64)quick_exp(further) : 0.0);
    if (threadIdx.x == 0) {
      if (t.counts) {
        put_loss(a, r, t, peak, total, own);
      } else {
        a.losses[t.row] = 0;
      }
    }
    const Gradient gradient(a, r, t, peak, total);
    const auto put = [&](int c, const Pack<L, 8>& given) {
      if (!a.differentiate || c >= classes) return;
      if (t.counts) {
        gradient.put(narrow, c, logits_of(given, classes - c));
      } else {
        store_pack<8>(narrow + c, all_of((u16)0), true, 8, false);
      }
    };
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const Pack<L, 8> given = kept[k];
      kept[k] = load(next, k);
      put(first + k * kStep, given);
    }
    for (int group = 0; group < kGroups; ++group) {
      for (int slot = group * per_group; slot < (group + 1) * per_group; ++slot) {
        const int c = first + (held + slot) * kStep;
        if (c >= classes) break;
        put(c, read_own<L>(smem, slot));
        copy(next, slot);
      }
      copies_begun();
    }
  }
}
extern "C" __global__ void __launch_bounds__(kShortRowsThreads, 2) short_rows(const Args a) {
  DYNAMIC_SHARED(smem);
  staged_rows<kShortRowsThreads, 0>(a, smem);
}
extern "C" __global__ void __launch_bounds__(kLongRowsThreads) long_rows(const Args a) {
  DYNAMIC_SHARED(smem);
  staged_rows<kLongRowsThreads, 0>(a, smem);
}
extern "C" __global__ void __launch_bounds__(kLongRowsThreads) longest_rows(const Args a) {
  DYNAMIC_SHARED(smem);
  staged_rows<kLongRowsThreads, kLongRowsHeld>(a, smem);
}

}  // namespace ebb::cuda
