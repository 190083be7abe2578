// SPDX-License-Identifier: MIT
// Shared by ctc_loss and rnnt_loss: numbers m·2^(512·k), as on the CPU (cpu/fused/wide_range.h says why), and the
// checks of a sample's lengths and labels. k is an i32 here: what is below e^-3e11 is 0.
#pragma once
#include "cuda/kernels/args/alignment.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/reductions.cuh"
#include "cuda/kernels/parts/round_to_odd.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef f32 L;                // of losses
constexpr bool kDual = true;  // derivatives, too
constexpr bool kHalf = true;  // T
#endif

EBB T narrow(f64 x) { return store(kHalf ? (A)to_odd(x) : (A)x); }

using Wide = WideNumber;
using Kept = KeptNumber<kDual>;
constexpr i32 kZero = -1000000000;                                                     // k of 0
constexpr f64 kScaleDown = 7.458340731200207e-155, kScaleUp = 1.3407807929942597e154;  // 2^-512, 2^512
EBB Wide none() { return {0, kZero, 0}; }
EBB Wide one() { return {1, 0, 0}; }
// Recursions wait for these two, so that they have neither branches nor conditions. 0x3ff00000 is the high word of 1.
EBB i32 at_least(i32 a, i32 b) { return a > b ? a : b; }
EBB f64 scale(i32 k) {
  return from_bits(0.0, (u64)(u32)at_least(0x3ff00000 + at_least(k, -2) * (1 << 29), 0) << 32);
}  // 0 below -1
EBB Wide plus(const Wide& a, const Wide& b) {
  const i32 k = at_least(a.k, b.k);
  const f64 fa = scale(a.k - k), fb = scale(b.k - k);
  return {a.m * fa + b.m * fb, k, kDual ? a.d * fa + b.d * fb : 0};
}
// y.d is the derivative of log y.
EBB Wide times(const Wide& a, const Wide& y) {
  const f64 p = a.m * y.m;
  // By how many times 2^512 it is out of [2^-256, 2^256): it is 0, or within 2^±600.
  const i32 out = at_least((((i32)(bits_of(p) >> 32) - (255 << 20)) >> 29) - 1, -1);
  const f64 factor = from_bits(0.0, (u64)(u32)(0x3ff00000 - out * (1 << 29)) << 32), m = p * factor;
  const i32 k = a.k + y.k + out;
  return {m, at_least(k < -kZero ? k : -kZero, kZero), kDual ? a.d * y.m * factor + m * y.d : 0};
}
// e^x of several x at a time: each is a long chain. e^x = 2^(512·k)·2^n·e^r with |r| <= ln 2 / 2; what is added to find
// the nearest whole number leaves it in the low word.
template <int count>
EBB void wide_exp(const A* x, const A* tangent, Wide* y) {
  constexpr f64 kRound = 6755399441055744.0;
  constexpr f64 kTaylor[] = {2.08767569878681e-09,
                             2.505210838544172e-08,
                             2.755731922398589e-07,
                             2.7557319223985893e-06,
                             2.48015873015873e-05,
                             0.0001984126984126984,
                             0.001388888888888889,
                             0.008333333333333333,
                             0.041666666666666664,
                             0.16666666666666666,
                             0.5,
                             1.0,
                             1.0};
  f64 r[count], n[count], e[count];
#pragma unroll
  for (int q = 0; q < count; ++q) {
    const f64 bounded = (f64)larger(smaller(x[q], (A)4e11), (A)-4e11);  // NaN stays
    const f64 k = fma(bounded, 0.0028177637517362566, kRound), rest = bounded - (k - kRound) * 354.89135644669197;
    y[q].k = (i32)bits_of(k);
    n[q] = fma(rest, 1.4426950408889634, kRound);
    r[q] = fma(n[q] - kRound, -2.3190468138462996e-17, fma(n[q] - kRound, -0.6931471805599453, rest));
    e[q] = 1.6059043836821613e-10;
  }
#pragma unroll
  for (int i = 0; i < 13; ++i) {
#pragma unroll
    for (int q = 0; q < count; ++q) e[q] = fma(e[q], r[q], kTaylor[i]);
  }
#pragma unroll
  for (int q = 0; q < count; ++q) {
    y[q].m = e[q] * (x[q] < (A)-3e11 ? 0.0 : from_bits(0.0, (bits_of(n[q]) + 1023) << 52));
    y[q].d = kDual ? (f64)tangent[q] : 0;
  }
}
EBB Kept kept(const Wide& x) {
  Kept y;
  y.of[0] = bits_of(x.m);
  y.of[1] = (u32)x.k;
  if (kDual) y.of[kDual ? 2 : 0] = bits_of(x.d);
  return y;
}
EBB Wide wide(const Kept& x) {
  return {from_bits(0.0, x.of[0]), (i32)x.of[1], kDual ? from_bits(0.0, x.of[kDual ? 2 : 0]) : 0.0};
}

// The share x·y/total of the paths through a place, or its derivative.
struct Share {
  i64 k;
  f64 inverse, slope;
  __device__ __forceinline__ Share(const Wide& total) : k(total.k), inverse(1 / total.m), slope(total.d / total.m) {}
  __device__ __forceinline__ f64 of(const Wide& x, const Wide& y) const {
    const i64 apart = (i64)x.k + y.k - k;
    const f64 factor = (apart == 0 ? 1.0 : apart == -1 ? kScaleDown : apart == 1 ? kScaleUp : 0.0) * inverse;
    const f64 m = x.m * y.m * factor;
    return kDual ? (x.d * y.m + x.m * y.d) * factor - m * slope : m;
  }
};

using Call = AlignmentArgs<T, L>;
EBB bool is_possible(const Wide& total) { return total.m != 0 && total.k > kZero; }
EBB f64 loss_of(const Call& a, const Wide& total) {
  const bool possible = is_possible(total);
  if (kDual) return possible ? -(total.d / total.m) : 0;
  return possible ? -(log(total.m) + total.k * 354.89135644669197) : a.zero_infinity ? 0 : infinity();
}

struct Sample {
  i64 steps, length;
  i64 before;  // where its labels begin, in an array of those of all samples
  const i64* labels;
};
// For all threads. A sample with something wrong has no steps and no labels.
EBB Sample sample_of(const Call& a, i64 n, u64* shared) {
  const i64 steps = a.input_lengths[n * a.input_step], length = a.label_lengths[n * a.length_step];
  i64 before = n * a.room;
  if (a.joined) {
    before = 0;
    for (i64 i = threadIdx.x; i < n; i += kThreads) before = sum(before, a.label_lengths[i * a.length_step]);
    before = over_block<Plus>(before, shared);
  }
  const i64 behind = before + length;
  int check = -1;
  i64 number = 0;
  if (steps < 0 || steps > a.steps) {
    check = kStepsCheck, number = steps;
  } else if (length < 0 || length > a.room) {
    check = kLengthCheck, number = length;
  } else if (a.joined && (before < 0 || behind > a.total_labels)) {
    check = kSumCheck, number = behind;
  } else if (a.joined && n == a.samples - 1 && behind != a.total_labels) {
    check = kAllCheck, number = behind;
  }
  if (check >= 0 && threadIdx.x == 0) complain(a.complaints, n, check, bits_of(number));
  const i64* const labels = a.labels + (a.joined ? before * a.label_i : n * a.label_n);
  bool wrong = check >= 0;
  for (i64 i = threadIdx.x; check < 0 && i < length; i += kThreads) {
    const i64 c = labels[i * a.label_i], at = a.samples + n * a.room + i;
    if ((u64)c < (u64)a.classes && c != a.blank) continue;
    complain(a.complaints, at, c == a.blank ? kBlankCheck : kClassCheck, bits_of(c));
    wrong = true;
  }
  if (__syncthreads_or(wrong)) return {0, 0, check < 0 ? before : 0, labels};
  return {steps, length, before, labels};
}

}  // namespace ebb::cuda
