// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "graph/node.h"

namespace ebb {

// −log Σ over alignments, for ctc and transducer, and the derivatives requested along with it.
//   inputs    log-probabilities (ctc [T, N, C], transducer [N, T, U + 1, C]), labels [N, S] i64, input lengths [N] i64,
//             label lengths [N] i64, then those that are named: cotangent [N], tangent (as the log-probabilities)
//   outputs   order 0: losses [N]
//             order 1: losses [N], the gradient of Σ cotangent·losses
//             order 2: d losses [N] and d gradient in the direction of the tangent
struct AlignmentCall {
  std::int64_t order = 0, blank = 0;
  bool zero_infinity = false;

  bool operator==(const AlignmentCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("order", order);
    visit("blank", blank);
    visit("zero_infinity", zero_infinity);
  }
  std::optional<FirstOutputCall> first_output(std::size_t) const {
    if (order != 1) return {};
    return FirstOutputCall{make_options(AlignmentCall{0, blank, zero_infinity}), {0, 1, 2, 3}};
  }
};

}  // namespace ebb
