// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

namespace ebb {

// triangular_solve (a, b) -> x with op(A)·X = B, where A is a triangle of a.
struct TriangularSolveCall {
  bool upper = false, transposed = false, unit_diagonal = false;

  bool operator==(const TriangularSolveCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("upper", upper);
    visit("transposed", transposed);
    visit("unit_diagonal", unit_diagonal);
  }
};

}  // namespace ebb
