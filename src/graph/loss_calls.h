// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/node.h"

// Parameters of the losses with their own kernels, and how they are packed into a node's Attrs: all of them determine
// what is computed, so all of them are part of the plan's key.
namespace ebb {

// Rows of cross_entropy(x·Wᵀ + bias, target) without the logits.
//   inputs    x [N, H], head W [V, H], target [N] i64, then those that are named: cotangent [N], bias [V], weight [V];
//             with RowUnits further ones that its function needs, [units or sides·units, ..] or one number each
//   outputs   losses [N] in the compute dtype, then those that are named: dx [N, H], dW [V, H], dbias [V],
//             the gradients of Σ cotangent·losses
struct LinearCrossEntropyCall {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, softcap = 0;  // 0: none
  std::int64_t chunk = 0;                               // rows whose logits exist at a time; 0: chosen by the kernel
  bool cotangent = false, bias = false, weight = false;
  bool input_gradient = false, head_gradient = false, bias_gradient = false;
  bool round_logits = false, round_sums = false;

  bool gradients() const { return input_gradient || head_gradient || bias_gradient; }
  static constexpr std::int64_t kMostRows = (1 << 24) - 1;  // of a chunk

  Attrs attrs() const {
    Attrs a;
    a.i = {ignore_index, std::bit_cast<std::int64_t>(label_smoothing), std::bit_cast<std::int64_t>(z_loss),
           std::bit_cast<std::int64_t>(softcap)};
    a.axes = static_cast<std::uint32_t>(cotangent | bias << 1 | weight << 2 | input_gradient << 3 | head_gradient << 4 |
                                        bias_gradient << 5 | round_logits << 6 | round_sums << 7) |
             static_cast<std::uint32_t>(chunk) << 8;
    return a;
  }
  static LinearCrossEntropyCall from(const Attrs& a) {
    LinearCrossEntropyCall c;
    c.ignore_index = a.i[0];
    c.label_smoothing = std::bit_cast<double>(a.i[1]);
    c.z_loss = std::bit_cast<double>(a.i[2]);
    c.softcap = std::bit_cast<double>(a.i[3]);
    c.chunk = a.axes >> 8;
    c.cotangent = a.axes & 1;
    c.bias = a.axes >> 1 & 1;
    c.weight = a.axes >> 2 & 1;
    c.input_gradient = a.axes >> 3 & 1;
    c.head_gradient = a.axes >> 4 & 1;
    c.bias_gradient = a.axes >> 5 & 1;
    c.round_logits = a.axes >> 6 & 1;
    c.round_sums = a.axes >> 7 & 1;
    return c;
  }
};

// Cotangents that are known only once the losses of some rows are: rows come in units, and the cotangents of a unit's
// rows depend only on that unit's losses (a pair of answers, one answer, one token). Row (s·units + u)·tokens + t, with
// s < sides, is one of unit u. A linear_cross_entropy call that carries this as its data takes no cotangents; it asks
// for them, units at a time, while the logits of these units are still in memory.
struct RowUnits {
  std::int64_t units = 0, sides = 1, tokens = 1;
  // From the losses [sides·n, tokens] of n units, and from the same units' part of the call's further inputs (scalars
  // are passed whole): the cotangents of the losses, in their shape and dtype.
  std::function<Tensor(const Tensor& losses, const std::vector<Tensor>& further)> cotangents;
};

// −log Σ over alignments, for ctc and transducer, and what is requested along with it.
//   inputs    log-probabilities (ctc [T, N, C], transducer [N, T, U + 1, C]), labels [N, S] i64, input lengths [N] i64,
//             label lengths [N] i64, then those that are named: cotangent [N], tangent (as the log-probabilities)
//   outputs   order 0: losses [N]
//             order 1: losses [N], the gradient of Σ cotangent·losses
//             order 2: d losses [N] and d gradient in the direction of the tangent
struct AlignmentCall {
  int order = 0;
  std::int64_t blank = 0;
  bool zero_infinity = false;

  Attrs attrs() const {
    Attrs a;
    a.i = {order, blank, zero_infinity, 0};
    return a;
  }
  static AlignmentCall from(const Attrs& a) { return {static_cast<int>(a.i[0]), a.i[1], a.i[2] != 0}; }
};

// The first output of a call that computes losses and their gradients is what a call for the losses alone computes: the
// one with these attributes and with these of its inputs. Nothing for a call that computes no gradients, or no losses.
struct LossesAlone {
  Attrs attrs;
  std::vector<std::size_t> inputs;
};
inline std::optional<LossesAlone> losses_alone(Op op, const Attrs& attrs, std::size_t inputs) {
  if (op == Op::multilabel_hinges && inputs == 3) return LossesAlone{attrs, {0, 1}};
  if (op == Op::ctc || op == Op::transducer) {
    AlignmentCall c = AlignmentCall::from(attrs);
    if (c.order != 1) return {};
    c.order = 0;
    return LossesAlone{c.attrs(), {0, 1, 2, 3}};
  }
  if (op == Op::linear_cross_entropy) {
    LinearCrossEntropyCall c = LinearCrossEntropyCall::from(attrs);
    if (!c.gradients()) return {};
    LossesAlone alone{{}, {0, 1, 2}};
    std::size_t next = c.cotangent ? 4 : 3;
    for (const bool given : {c.bias, c.weight}) {
      if (given) alone.inputs.push_back(next++);
    }
    c.cotangent = c.input_gradient = c.head_gradient = c.bias_gradient = false;
    alone.attrs = c.attrs();
    return alone;
  }
  return {};
}

}  // namespace ebb
