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
};
// softmax(scale·q·kᵀ + mask)·v with q [.., T, D], k [.., S, D], v [.., S, E]; leading axes broadcast. The scores exist
// only in blocks: memory beyond the result is one number per row, forward and backward. A row that attends to nothing
// gives 0. (A floating mask that is itself differentiated, dropout, and second derivatives do materialise the scores.)
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace ebb
