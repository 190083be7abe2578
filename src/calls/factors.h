// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

namespace ebb {

// det (a) with this option -> P·A = L·U of matrices [..., n, n] as [..., n + 1, n], for all that is made of them: see
// autograd/factors.h.
struct FactorsCall {
  bool packed = true;

  bool operator==(const FactorsCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("packed", packed);
  }
};
inline bool wants_factors(const Attrs& attrs) { return attrs.options != nullptr; }

}  // namespace ebb
