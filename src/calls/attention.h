// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

// softmax(scale·q·kᵀ + mask)·v without the matrix of scores.
//   attention            q [B, H, T, D], k [B, K, S, D], v [B, K, S, E], mask [B, H, T, S] (where named, in the compute
//                        dtype); H is a multiple of K, and head h of q has head h·K/H of k and v
//                        -> o [B, T, H, E], lse [B, H, T] in the compute dtype: log Σ exp of a row's scores
//                        documents [B, 2, T] i32 (where named; T = S): the first position of a position's document, and
//                        the first after it; documents are contiguous, so neither decreases
//   attention_gradient   cotangent of o, q, k, v, o, lse, mask, documents, all with H second
//                        -> dq [B, T, H, D], dk [B, S, K, D], dv [B, S, K, E]; where S = T, side by side in the rows
//                        of one result [B, T, H·D + K·D + K·E], as one projection to all three has them
// Results have the heads H next to their elements, like the projections around attention: no copies are needed to split
// and join heads. Where every score of a row is −inf, its output and its gradients are 0.
namespace ebb {

struct AttentionCall {
  double scale = 1;
  bool causal = false;  // position i attends to positions up to i
  bool mask = false;
  bool documents = false;

  bool operator==(const AttentionCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("scale", scale);
    visit("causal", causal);
    visit("mask", mask);
    visit("documents", documents);
  }
};

}  // namespace ebb
