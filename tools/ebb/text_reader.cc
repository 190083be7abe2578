// SPDX-License-Identifier: MIT
#include "text_reader.h"

#include "ebb/ops.h"

namespace ebb::program {
namespace {

// [1, time, width] to [1, heads, time, width/heads] and back.
Tensor apart(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {1, x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}
Tensor together(const Tensor& x) { return reshape(permute(x, {0, 2, 1, 3}), {1, x.size(2), x.size(1) * x.size(3)}); }

}  // namespace

TextReader::TextReader(Network network, std::int64_t context) : network_(std::move(network)), context_(context) {
  std::visit(
      [](auto& net) {
        set_training(net, false);
        for (const Parameter& p : parameters(net)) *p.tensor = stop_gradient(*p.tensor).eval();
      },
      network_);
}

std::vector<double> TextReader::begin(const std::vector<std::int64_t>& tokens) {
  const auto seen = std::min<std::size_t>(static_cast<std::size_t>(context_), tokens.size());
  window_.assign(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end());
  // Always a whole window, so that one plan serves every length: no position sees those after it.
  std::vector<std::int64_t> padded = window_;
  padded.resize(static_cast<std::size_t>(context_));
  keys_.clear();
  values_.clear();
  return read(from_data(padded, {1, context_}), arange(context_), static_cast<std::int64_t>(seen) - 1);
}

std::vector<double> TextReader::next(std::int64_t token) {
  window_.push_back(token);
  if (static_cast<std::int64_t>(window_.size()) > context_) {
    return begin({window_.end() - std::max<std::int64_t>(1, context_ / 2), window_.end()});
  }
  const auto at = static_cast<std::int64_t>(window_.size()) - 1;
  return read(from_data(std::vector{token}, {1, 1}), from_data(std::vector{at}, {1}), 0);
}

AttentionOptions TextReader::keep(std::size_t block, const Tensor& key, const Tensor& value, const Reading& r) {
  AttentionOptions options;
  if (r.first) {
    keys_.push_back(contiguous(key));
    values_.push_back(contiguous(value));
    options.causal = true;
  } else {
    keys_[block] = where(r.here, key, keys_[block]);
    values_[block] = where(r.here, value, values_[block]);
    options.mask = r.seen;
  }
  return options;
}

// The blocks of the networks, as in models.cc, TransformerBlock and LlamaBlock, except for the source of keys and
// values.
Tensor TextReader::hidden(const Gpt& gpt, const Reading& r) {
  Tensor h = gpt.tokens(r.tokens) + gpt.positions(r.positions);
  for (std::size_t k = 0; k < gpt.blocks.size(); ++k) {
    const nn::TransformerBlock& block = gpt.blocks[k];
    const nn::MultiheadAttention& attention = block.self_attn;
    const auto parts = chunk(matmul(block.norm1(h), t(attention.in_proj_weight)) + attention.in_proj_bias, 3, 2);
    const Tensor query = apart(parts[0], attention.heads);
    const auto options = keep(k, apart(parts[1], attention.heads), apart(parts[2], attention.heads), r);
    h = h + attention.out_proj(together(scaled_dot_product_attention(query, keys_[k], values_[k], options)));
    h = h + block.linear2(gelu(block.linear1(block.norm2(h))));
  }
  return gpt.norm(h);
}

Tensor TextReader::hidden(const models::Llama& llama, const Reading& r) {
  const models::RotaryEmbedding::Table rotary = llama.model.rotary_emb(r.positions);
  Tensor h = llama.model.embed_tokens(r.tokens);
  for (std::size_t k = 0; k < llama.model.layers.size(); ++k) {
    const models::LlamaBlock& block = llama.model.layers[k];
    const models::LlamaAttention& a = block.self_attn;
    const std::int64_t shared = a.key_value_heads, groups = a.heads / shared, width = a.head_width;
    const Tensor x = block.input_layernorm(h);
    const Tensor query = models::RotaryEmbedding::rotate(apart(a.q_proj(x), a.heads), rotary);
    const Tensor key = models::RotaryEmbedding::rotate(apart(a.k_proj(x), shared), rotary);
    const auto options = keep(k, key, apart(a.v_proj(x), shared), r);
    const Tensor y = scaled_dot_product_attention(reshape(query, {1, shared, groups, x.size(1), width}),
                                                  unsqueeze(keys_[k], 2), unsqueeze(values_[k], 2), options);
    h = h + a.o_proj(together(reshape(y, {1, a.heads, x.size(1), width})));
    h = h + block.mlp(block.post_attention_layernorm(h));
  }
  return llama.model.norm(h);
}

std::vector<double> TextReader::read(const Tensor& tokens, const Tensor& positions, std::int64_t last) {
  const Tensor all = arange(context_);
  const Reading reading{tokens, positions, keys_.empty(), all <= positions, reshape(all == positions, {1, 1, -1, 1})};
  const Tensor h = std::visit([&](const auto& net) { return hidden(net, reading); }, network_);
  const Tensor head = std::holds_alternative<Gpt>(network_) ? std::get<Gpt>(network_).head.weight
                                                            : std::get<models::Llama>(network_).head();
  std::vector<Tensor> computed = keys_;
  computed.insert(computed.end(), values_.begin(), values_.end());
  const Tensor row = index_select(reshape(h, {-1, head.size(1)}), 0, tensor({last}));
  computed.push_back(matmul(row, t(head)));
  eval(computed);
  return computed.back().to_vector();
}

}  // namespace ebb::program
