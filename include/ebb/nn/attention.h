#pragma once
#include "ebb/nn/layers.h"

namespace ebb::nn {

// torch.nn.MultiheadAttention on [batch, time, width]: heads attend in parallel, each in width/heads dimensions, by
// scaled_dot_product_attention: the scores are never materialised, unless dropout is used. A query that attends to no
// key gives the output projection of 0, where PyTorch gives NaN.
struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;  // of the attention weights
  DType dtype = DType::f32;
};
struct AttentionCall {
  Tensor mask = {};  // bool, true: may attend; or numbers to add to the scores. Broadcast to [batch, heads, time, keys]
  bool causal = false;           // a query does not attend to later keys
  Tensor key_padding_mask = {};  // bool [batch, keys], true: the key is padding and is ignored
};
struct MultiheadAttention {
  std::int64_t heads;
  Tensor in_proj_weight, in_proj_bias;  // [3·width, width], [3·width]: query, key, value stacked
  Linear out_proj;
  Dropout dropout;
  MultiheadAttention(std::int64_t width, std::int64_t heads, const MultiheadAttentionOptions& options = {});
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call = {}) const;
  Tensor operator()(const Tensor& x, const AttentionCall& call = {}) const;  // self-attention
  template <class V>
  void visit(V&& v) {
    v("in_proj_weight", in_proj_weight);
    v("in_proj_bias", in_proj_bias);
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
  double eps = 1e-5;
  DType dtype = DType::f32;
};
struct TransformerBlock {
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout;
  bool norm_first, use_relu;
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
