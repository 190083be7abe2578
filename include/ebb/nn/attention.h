// SPDX-License-Identifier: MIT
#pragma once
#include <utility>

#include "ebb/nn/layers.h"

namespace ebb::nn {

// torch.nn.MultiheadAttention on [batch, time, width]: heads attend in parallel, each in width/heads dimensions, by
// scaled_dot_product_attention: the scores are never materialised, unless dropout is used or the weights are asked for.
// A query that attends to no key gives the output projection of 0, where PyTorch gives NaN.
struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;               // of the attention weights
  bool add_bias_kv = false;         // one more key and value, which are learned; no mask covers them
  bool add_zero_attn = false;       // one more key and value of zeros, so that a query can attend to nothing
  std::int64_t kdim = 0, vdim = 0;  // widths of keys and values; 0: that of the queries
  DType dtype = DType::f32;
};
struct AttentionCall {
  Tensor mask = {};  // bool, true: may attend; or numbers to add to the scores. Broadcast to [batch, heads, time, keys]
  bool causal = false;           // a query does not attend to later keys
  Tensor key_padding_mask = {};  // bool [batch, keys], true: the key is padding and is ignored
};
struct MultiheadAttention {
  std::int64_t heads;
  Tensor in_proj_weight;                               // [3·width, width]: query, key and value stacked
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // instead of it where keys or values have another width
  Tensor in_proj_bias;                                 // [3·width]
  Tensor bias_k, bias_v;                               // [1, 1, width] with add_bias_kv
  Linear out_proj;
  Dropout dropout;
  bool add_zero_attn;
  MultiheadAttention(std::int64_t width, std::int64_t heads, const MultiheadAttentionOptions& options = {});
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call = {}) const;
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;  // self-attention
  // The output and the attention weights, a mean over the heads [batch, time, keys] or those of each one, [batch,
  // heads, time, keys].
  std::pair<Tensor, Tensor> with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                         const AttentionCall& call = {}, bool average = true) const;
  template <class V>
  void visit(V&& v) {
    v("in_proj_weight", in_proj_weight);
    v("q_proj_weight", q_proj_weight);
    v("k_proj_weight", k_proj_weight);
    v("v_proj_weight", v_proj_weight);
    v("in_proj_bias", in_proj_bias);
    v("bias_k", bias_k);
    v("bias_v", bias_v);
    v("out_proj", out_proj);
    v("dropout", dropout);
  }
};

// A transformer layer on [batch, time, width], torch.nn.TransformerEncoderLayer with batch_first: attention and a
// two-layer feed-forward network, each with a residual connection. Pre-norm by default (GPT-2 and later); PyTorch's
// default is post-norm.
struct TransformerBlockOptions {
  std::int64_t hidden = 0;  // of the feed-forward network; 0: 4·width
  double dropout = 0;
  bool norm_first = true;
  bool relu = false;  // instead of gelu
  // The activation is not kept for the backward pass but made again, in the sweep that makes its gradient: the same
  // bits with 2·batch·time·hidden bytes less in bf16.
  bool recompute_activation = false;
  double eps = 1e-5;
  DType dtype = DType::f32;
};
struct TransformerBlock {
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout;
  bool norm_first, use_relu, recompute_activation;
  TransformerBlock(std::int64_t width, std::int64_t heads, const TransformerBlockOptions& options = {});
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;
  template <class V>
  void visit(V&& v) {
    v("self_attn", self_attn);
    v("linear1", linear1);
    v("linear2", linear2);
    v("norm1", norm1);
    v("norm2", norm2);
    v("dropout", dropout);
  }

 private:
  Tensor network(const Tensor& x) const;
};

}  // namespace ebb::nn
