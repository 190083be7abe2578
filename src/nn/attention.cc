#include "ebb/nn/attention.h"

#include <limits>

#include "core/format_error.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::nn {
namespace {

// [batch, time, width] to [batch, heads, time, width/heads] and back.
Tensor apart(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}
Tensor together(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor projected(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = matmul(x, t(weight));
  return bias.defined() ? y + bias : y;
}

// The two masks of a call as one that broadcasts to [batch, heads, time, keys].
Tensor whole_mask(const AttentionCall& call, std::int64_t batch, std::int64_t keys) {
  const Tensor& padding = call.key_padding_mask;
  if (!padding.defined()) return call.mask;
  require(padding.dtype() == DType::bool_ && padding.shape() == Shape({batch, keys}),
          "MultiheadAttention: key_padding_mask must be bool of shape [{}, {}], got {} of shape {}", batch, keys,
          padding.dtype(), padding.shape());
  const Tensor there = reshape(logical_not(padding), {batch, 1, 1, keys});
  if (!call.mask.defined()) return there;
  if (call.mask.dtype() == DType::bool_) return logical_and(call.mask, there);
  return where(there, call.mask, -std::numeric_limits<double>::infinity());
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t n, const MultiheadAttentionOptions& o)
    : heads(n), out_proj(width, width, {.bias = o.bias, .dtype = o.dtype}), dropout(o.dropout) {
  require(n > 0 && width % n == 0, "MultiheadAttention: a width of {} is not divisible by {} heads", width, n);
  in_proj_weight = variable(xavier_uniform({3 * width, width}, {.dtype = o.dtype}));
  if (!o.bias) return;
  in_proj_bias = variable(zeros({3 * width}, o.dtype));
  out_proj.bias = variable(zeros({width}, o.dtype));
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionCall& call) const {
  const std::int64_t width = in_proj_weight.size(1);
  for (const Tensor* x : {&query, &key, &value}) {
    require(x->rank() == 3 && x->size(2) == width,
            "MultiheadAttention: inputs must have shape [batch, time, {}], got {}", width, x->shape());
  }
  Tensor q, k, v;
  if (query.node() == key.node() && key.node() == value.node()) {  // one product is faster than three
    const auto parts = chunk(projected(query, in_proj_weight, in_proj_bias), 3, 2);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    const auto weights = chunk(in_proj_weight, 3);
    const auto biases = in_proj_bias.defined() ? chunk(in_proj_bias, 3) : std::vector<Tensor>(3);
    q = projected(query, weights[0], biases[0]);
    k = projected(key, weights[1], biases[1]);
    v = projected(value, weights[2], biases[2]);
  }
  q = apart(q, heads), k = apart(k, heads), v = apart(v, heads);

  const Tensor mask = whole_mask(call, key.size(0), key.size(1));
  const double drops = dropout.training.on ? dropout.p : 0;
  return out_proj(
      together(scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = call.causal, .dropout = drops})));
}

Tensor MultiheadAttention::operator()(const Tensor& x, const AttentionCall& call) const {
  return (*this)(x, x, x, call);
}

TransformerBlock::TransformerBlock(std::int64_t width, std::int64_t heads, const TransformerBlockOptions& o)
    : self_attn(width, heads, {.dropout = o.dropout, .dtype = o.dtype}),
      linear1(width, o.hidden > 0 ? o.hidden : 4 * width, {.dtype = o.dtype}),
      linear2(o.hidden > 0 ? o.hidden : 4 * width, width, {.dtype = o.dtype}),
      norm1(width, {.eps = o.eps, .dtype = o.dtype}),
      norm2(width, {.eps = o.eps, .dtype = o.dtype}),
      dropout(o.dropout),
      norm_first(o.norm_first),
      use_relu(o.relu) {}

Tensor TransformerBlock::network(const Tensor& x) const {
  const Tensor h = linear1(x);
  return dropout(linear2(dropout(use_relu ? relu(h) : gelu(h))));
}

Tensor TransformerBlock::operator()(const Tensor& x, const AttentionCall& call) const {
  if (norm_first) {
    const Tensor h = x + dropout(self_attn(norm1(x), call));
    return h + network(norm2(h));
  }
  const Tensor h = norm1(x + dropout(self_attn(x, call)));
  return norm2(h + network(h));
}

}  // namespace ebb::nn
