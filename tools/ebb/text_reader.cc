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

TextReader::TextReader(Gpt gpt, std::int64_t context) : gpt_(std::move(gpt)), context_(context) {
  set_training(gpt_, false);
  for (const Parameter& p : parameters(gpt_)) *p.tensor = stop_gradient(*p.tensor).eval();
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

// The blocks of the network as models.cc and TransformerBlock have them, but for where keys and values come from.
std::vector<double> TextReader::read(const Tensor& tokens, const Tensor& positions, std::int64_t last) {
  const bool first = keys_.empty();
  const Tensor all = arange(context_);
  const Tensor seen = all <= positions, here = reshape(all == positions, {1, 1, -1, 1});  // used for one position
  Tensor h = gpt_.tokens(tokens) + gpt_.positions(positions);
  std::vector<Tensor> computed;
  for (std::size_t k = 0; k < gpt_.blocks.size(); ++k) {
    const nn::TransformerBlock& block = gpt_.blocks[k];
    const nn::MultiheadAttention& attention = block.self_attn;
    const auto parts = chunk(matmul(block.norm1(h), t(attention.in_proj_weight)) + attention.in_proj_bias, 3, 2);
    const Tensor query = apart(parts[0], attention.heads), key = apart(parts[1], attention.heads),
                 value = apart(parts[2], attention.heads);
    if (first) {
      keys_.push_back(contiguous(key));
      values_.push_back(contiguous(value));
    } else {
      keys_[k] = where(here, key, keys_[k]);
      values_[k] = where(here, value, values_[k]);
    }
    computed.insert(computed.end(), {keys_[k], values_[k]});
    AttentionOptions options;
    if (first) {
      options.causal = true;
    } else {
      options.mask = seen;
    }
    h = h + attention.out_proj(together(scaled_dot_product_attention(query, keys_[k], values_[k], options)));
    h = h + block.linear2(gelu(block.linear1(block.norm2(h))));
  }
  const Tensor row = index_select(reshape(gpt_.norm(h), {-1, gpt_.head.weight.size(1)}), 0, tensor({last}));
  computed.push_back(matmul(row, t(gpt_.head.weight)));
  eval(computed);
  return computed.back().to_vector();
}

}  // namespace ebb::program
