// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "ebb/tensor.h"

namespace ebb {

struct AttentionOptions {
  Tensor mask = {};  // bool: true where attention is allowed; floating: added to the scores. Broadcasts to [.., T, S]
  bool causal = false;               // position i attends to positions 0..i
  double dropout = 0;                // of the attention weights (which are then materialised)
  std::optional<double> scale = {};  // 1/√D unless given
  // Sequences side by side in one row: whole numbers [.., T], one per position and the same for all heads. A position
  // attends to its own document alone, which is the run of equal numbers around it; T = S. What lies in other documents
  // costs nothing but for the blocks at their ends.
  Tensor documents = {};
};
// softmax(scale·q·kᵀ + mask)·v with q [.., T, D], k [.., S, D], v [.., S, E]; leading axes broadcast, and where q has n
// times the heads (axis −3) of k and v, n in a row share one (grouped queries). The scores exist only in blocks: memory
// beyond the result is one number per row. (A learned mask, dropout and second derivatives do materialise the scores.)
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace ebb
