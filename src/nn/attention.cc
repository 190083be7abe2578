// SPDX-License-Identifier: MIT
#include "ebb/nn/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::nn {
namespace {

constexpr double neg_inf = -std::numeric_limits<double>::infinity();

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

// Combines the two masks of a call into one that broadcasts to [batch, heads, time, keys].
Tensor whole_mask(const AttentionCall& call, std::int64_t batch, std::int64_t keys) {
  const Tensor& padding = call.key_padding_mask;
  if (!padding.defined()) return call.mask;
  require(padding.dtype() == DType::bool_ && padding.shape() == Shape({batch, keys}),
          "MultiheadAttention: key_padding_mask must be bool of shape [{}, {}], got {} of shape {}", batch, keys,
          padding.dtype(), padding.shape());
  Tensor there = reshape(logical_not(padding), {batch, 1, 1, keys});
  if (!call.mask.defined()) return there;
  if (call.mask.dtype() == DType::bool_) return logical_and(call.mask, there);
  return where(there, call.mask, neg_inf);
}

// [time, keys]: whether a key is no later than a query.
Tensor earlier(std::int64_t time, std::int64_t keys) { return unsqueeze(arange(time), 1) >= arange(keys); }

// Operands of the heads: [batch, heads, time, width/heads] each, and the mask of what a query may see.
struct Heads {
  Tensor q, k, v, mask;
  bool causal;
};

Heads heads_of(const MultiheadAttention& m, const Tensor& query, const Tensor& key, const Tensor& value,
               const AttentionCall& call) {
  const bool stacked = m.in_proj_weight.defined();
  const std::int64_t width = m.out_proj.weight.size(1);
  const auto fits = [](const Tensor& x, std::int64_t columns) {
    require(x.rank() == 3 && x.size(2) == columns,
            "MultiheadAttention: inputs must have shape [batch, time, {}], got {}", columns, x.shape());
  };
  fits(query, width);
  fits(key, stacked ? width : m.k_proj_weight.size(1));
  fits(value, stacked ? width : m.v_proj_weight.size(1));
  std::vector<Tensor> parts;
  if (stacked && query.node() == key.node() && key.node() == value.node()) {  // one product is faster than three
    parts = chunk(projected(query, m.in_proj_weight, m.in_proj_bias), 3, 2);
  } else {
    const auto weights =
        stacked ? chunk(m.in_proj_weight, 3) : std::vector<Tensor>{m.q_proj_weight, m.k_proj_weight, m.v_proj_weight};
    const auto biases = m.in_proj_bias.defined() ? chunk(m.in_proj_bias, 3) : std::vector<Tensor>(3);
    parts = {projected(query, weights[0], biases[0]), projected(key, weights[1], biases[1]),
             projected(value, weights[2], biases[2])};
  }
  const std::int64_t batch = key.size(0), keys = key.size(1);
  const std::int64_t further = (m.bias_k.defined() ? 1 : 0) + (m.add_zero_attn ? 1 : 0);
  Heads h{.q = {}, .k = {}, .v = {}, .mask = whole_mask(call, batch, keys), .causal = call.causal};
  if (further > 0) {  // keys that no mask covers
    const auto longer = [&](const Tensor& x, const Tensor& learned) {
      std::vector<Tensor> rows{x};
      if (learned.defined()) rows.push_back(broadcast_to(learned, {batch, 1, width}));
      if (m.add_zero_attn) rows.push_back(zeros({batch, 1, width}, x.dtype()));
      return cat(rows, 1);
    };
    parts[1] = longer(parts[1], m.bias_k);
    parts[2] = longer(parts[2], m.bias_v);
    if (h.causal) {
      const Tensor seen = earlier(query.size(1), keys);
      h.mask = !h.mask.defined()                ? seen
               : h.mask.dtype() == DType::bool_ ? logical_and(h.mask, seen)
                                                : where(seen, h.mask, neg_inf);
      h.causal = false;
    }
    if (h.mask.defined()) {
      const Shape before = h.mask.shape().with(h.mask.rank() - 1, keys),
                  after = before.with(before.rank() - 1, further);
      const Tensor open = h.mask.dtype() == DType::bool_ ? ones(after, DType::bool_) : zeros(after, h.mask.dtype());
      h.mask = cat({broadcast_to(h.mask, before), open}, -1);
    }
  }
  h.q = apart(parts[0], m.heads), h.k = apart(parts[1], m.heads), h.v = apart(parts[2], m.heads);
  return h;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t n, const MultiheadAttentionOptions& o)
    : heads(n),
      out_proj(width, width, {.bias = o.bias, .dtype = o.dtype}),
      dropout(o.dropout),
      add_zero_attn(o.add_zero_attn) {
  require(n > 0 && width % n == 0, "MultiheadAttention: a width of {} is not divisible by {} heads", width, n);
  const std::int64_t key_width = o.kdim > 0 ? o.kdim : width, value_width = o.vdim > 0 ? o.vdim : width;
  const auto uniform = [&](const Shape& shape) { return variable(xavier_uniform(shape, {.dtype = o.dtype})); };
  if (key_width == width && value_width == width) {
    in_proj_weight = uniform({3 * width, width});
  } else {
    q_proj_weight = uniform({width, width});
    k_proj_weight = uniform({width, key_width});
    v_proj_weight = uniform({width, value_width});
  }
  if (o.bias) {
    in_proj_bias = variable(zeros({3 * width}, o.dtype));
    out_proj.bias = variable(zeros({width}, o.dtype));
  }
  if (o.add_bias_kv) {
    bias_k = variable(xavier_normal({1, 1, width}, {.dtype = o.dtype}));
    bias_v = variable(xavier_normal({1, 1, width}, {.dtype = o.dtype}));
  }
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionCall& call) const {
  const Heads h = heads_of(*this, query, key, value, call);
  const double drops = dropout.training.on ? dropout.p : 0;
  return out_proj(
      together(scaled_dot_product_attention(h.q, h.k, h.v, {.mask = h.mask, .causal = h.causal, .dropout = drops})));
}

std::pair<Tensor, Tensor> MultiheadAttention::with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const AttentionCall& call, bool average) const {
  const Heads h = heads_of(*this, query, key, value, call);
  Tensor scores = matmul(h.q / std::sqrt(static_cast<double>(h.q.size(3))), transpose(h.k, -2, -1));
  Tensor blind;  // queries that see no key: their weights are 0
  for (const Tensor& mask : {h.mask, h.causal ? earlier(query.size(1), h.k.size(2)) : Tensor()}) {
    if (!mask.defined()) continue;
    scores = mask.dtype() == DType::bool_ ? where(mask, scores, neg_inf) : scores + mask;
    blind = max(scores, -1, true) == neg_inf;
  }
  if (blind.defined()) scores = where(blind, 0.0, scores);
  Tensor weights = softmax(scores, -1);
  if (blind.defined()) weights = where(blind, 0.0, weights);
  weights = dropout(weights);
  const Tensor y = out_proj(together(matmul(weights, h.v)));
  return {y, average ? mean(weights, 1) : weights};
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
      use_relu(o.relu),
      recompute_activation(o.recompute_activation) {}

Tensor TransformerBlock::network(const Tensor& x) const {
  // A copy: the backward pass may run after the layer is gone.
  const Function rest = [relus = use_relu, drop = dropout, last = linear2](const Tensor& h) {
    return drop(last(drop(relus ? relu(h) : gelu(h))));
  };
  return recompute_activation ? checkpoint(rest, linear1(x)) : rest(linear1(x));
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
