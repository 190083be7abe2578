// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "graph/node.h"

namespace ebb {

// The hinges of multilabel_margin_loss. Inputs: x, lists of classes, and for the gradient cotangents of the sums.
struct MultilabelHingesCall {
  bool operator==(const MultilabelHingesCall&) const = default;
  template <class Visit>
  void each_field(Visit&&) const {}
  std::optional<FirstOutputCall> first_output(std::size_t inputs) const {
    if (inputs != 3) return {};
    return FirstOutputCall{make_options(*this), {0, 1}};
  }
};

}  // namespace ebb
