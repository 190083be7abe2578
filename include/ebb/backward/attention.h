// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops/attention.h"

// Gradient rule of attention.
namespace ebb {

struct AttentionGradients {
  Tensor q, k, v;
};
AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                                         const Tensor& v, const AttentionOptions& options = {});

}  // namespace ebb
