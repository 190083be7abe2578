#pragma once
#include <bit>
#include <cstdint>

#include "graph/node.h"

// softmax(scale·q·kᵀ + mask)·v without the matrix of scores.
//   attention            q [B, T, D], k [B, S, D], v [B, S, E], mask [B1, B2, T, S] (where named, in the compute
//                        dtype; B1·B2 = B)
//                        -> o [B, T, E], lse [B, T] in the compute dtype: log Σ exp of a row's scores
//   attention_gradient   cotangent of o, q, k, v, o, lse, mask -> dq, dk, dv
// Where every score of a row is −inf, its output and its gradients are 0.
namespace ebb {

struct AttentionCall {
  double scale = 1;
  bool causal = false;  // position i attends to positions up to i
  bool mask = false;

  Attrs attrs() const {
    Attrs a;
    a.i = {std::bit_cast<std::int64_t>(scale), causal, mask, 0};
    return a;
  }
  static AttentionCall from(const Attrs& a) { return {std::bit_cast<double>(a.i[0]), a.i[1] != 0, a.i[2] != 0}; }
};

}  // namespace ebb
