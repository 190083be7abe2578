// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/error_slot.h"

namespace ebb::cuda {

// ctc_loss and rnnt_loss: T of the log-probabilities, L of the losses.
template <class T, class L>
struct AlignmentArgs {
  const T* x;
  const T* tangent;
  const i64* labels;
  const i64* input_lengths;
  const i64* label_lengths;
  const L* cotangent;
  L* losses;
  T* gradient;
  i64 steps, samples, classes, room, total_labels, joined, order, blank, zero_infinity;
  i64 x_t, x_n, x_c, tangent_t, tangent_n, tangent_c, x_u, tangent_u, label_n, label_i, input_step, length_step;
  i64 cotangent_step;
  Complaints complaints;
};
EBB_ARGS(32, AlignmentArgs<u8, u8>);

// Numbers of checks. Lengths come before labels, as positions.
enum AlignmentCheck : i32 { kStepsCheck, kLengthCheck, kSumCheck, kAllCheck, kClassCheck, kBlankCheck };

// m·2^(512·k), and its derivative.
struct WideNumber {
  f64 m;
  i32 k;
  f64 d;
};
// As it waits in memory: without the derivative where nobody asks for it.
template <bool dual>
struct alignas(dual ? 8 : 16) KeptNumber {
  u64 of[dual ? 3 : 2];
};

// A sample, as the second kernel of CTC sees it.
struct CtcOutcome {
  WideNumber total;
  i64 steps, length, before;  // no steps where there is no gradient
};
// A label in the order of classes: its place among the sample's labels, and where those of its class begin and end.
struct CtcPlace {
  i64 label;
  i32 at, begin, end;
};
constexpr int kCtcRows = kThreads / 32;  // of the gradient that a block makes

template <class T, class L, class Kept, class Pair>
struct CtcArgs : AlignmentArgs<T, L> {
  Pair* alpha;  // per sample: rows of length + 1 pairs
  Pair* beta;   // the same, in reverse; without the probability of their own step
  Kept* edges;  // per direction and sample: the last label of the fourth stripe at every step, later of the eighth...
  CtcPlace* places;
  CtcOutcome* outcomes;
};
EBB_ARGS(37, CtcArgs<u8, u8, u8, u8>);

template <class T, class L, class Kept>
struct TransducerArgs : AlignmentArgs<T, L> {
  Kept* alpha;  // per sample: steps rows of room + 1
  Kept* beta;
};
EBB_ARGS(34, TransducerArgs<u8, u8, u8>);

}  // namespace ebb::cuda
