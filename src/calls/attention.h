// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

// softmax(scale·q·kᵀ + mask)·v without the matrix of scores.
//   attention            q [B, H, T, D], k [B, H, S, D], v [B, H, S, E], mask [B, H, T, S] (where named, in the compute
//                        dtype)
//                        -> o [B, T, H, E], lse [B, H, T] in the compute dtype: log Σ exp of a row's scores
//   attention_gradient   cotangent of o, q, k, v, o, lse, mask, all with H second
//                        -> dq [B, T, H, D], dk [B, S, H, D], dv [B, S, H, E]; where S = T, side by side in the rows
//                        of one result [B, T, H·D + H·D + H·E], as a projection of one input to all three has them
// Results have the heads H beside their elements, as the projections around attention have them: nothing is copied to
// take heads apart and to join them. Where every score of a row is −inf, its output and its gradients are 0.
namespace ebb {

struct AttentionCall {
  double scale = 1;
  bool causal = false;  // position i attends to positions up to i
  bool mask = false;

  bool operator==(const AttentionCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("scale", scale);
    visit("causal", causal);
    visit("mask", mask);
  }
};

}  // namespace ebb
