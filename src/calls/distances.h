// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

// Distances of rows, (Σ_k |a_ik − b_jk|^p)^(1/p) for p = 1 and 2, of f32 and f64. Differences are never expanded into
// products, so rows close to each other lose no digits.
//   distances            a [B, m, k], b [B, n, k] -> [B, m, n]
//                        pairs: a [n, k] -> those of all rows i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...
//   distances_gradient   cotangent of the distances, the distances, a, b (of pairs a alone) -> the gradient to a; a
//                        distance of 0 has the gradient 0
namespace ebb {

struct DistanceCall {
  std::int64_t p = 2;
  bool pairs = false;

  bool operator==(const DistanceCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("p", p);
    visit("pairs", pairs);
  }
};

// Pairs i < j of n rows that come before those of row i.
constexpr std::int64_t pairs_before(std::int64_t i, std::int64_t n) { return i * (2 * n - 1 - i) / 2; }

}  // namespace ebb
