// SPDX-License-Identifier: MIT
#include "ebb/models/llama.h"

#include <cmath>
#include <numbers>

#include "core/format_error.h"
#include "ebb/losses/classification.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/nn/init.h"
#include "ebb/ops.h"

namespace ebb::models {
namespace {

constexpr std::int64_t kNone = -100;  // replaces a token that is not to be predicted

void check(const LlamaConfig& c) {
  for (const auto& [name, value] :
       {std::pair{"vocab_size", c.vocab_size}, std::pair{"hidden_size", c.hidden_size},
        std::pair{"intermediate_size", c.intermediate_size}, std::pair{"num_hidden_layers", c.num_hidden_layers},
        std::pair{"num_attention_heads", c.num_attention_heads}}) {
    require(value > 0 && value < (std::int64_t{1} << 31), "Llama: {} must lie in [1, 2^31), got {}", name, value);
  }
  constexpr std::int64_t kMostLayers = 10'000, kWidestHead = 1 << 16;
  require(c.num_hidden_layers <= kMostLayers, "Llama: {} layers are more than {}", c.num_hidden_layers, kMostLayers);
  require(c.head_dim > 0 || c.hidden_size % c.num_attention_heads == 0,
          "Llama: a hidden_size of {} is not divisible by {} heads; give head_dim", c.hidden_size,
          c.num_attention_heads);
  require(c.head_width() > 0 && c.head_width() <= kWidestHead, "Llama: the width of a head must lie in [1, {}], got {}",
          kWidestHead, c.head_width());
  require(c.rope_theta > 0, "Llama: rope_theta must be positive, got {}", c.rope_theta);
  require(c.num_attention_heads % c.key_value_heads() == 0,
          "Llama: {} query heads cannot share {} key and value heads evenly", c.num_attention_heads,
          c.key_value_heads());
  require(c.head_width() % 2 == 0, "Llama: rotary embeddings need heads of even width, got {}", c.head_width());
  const std::string& type = c.rope_scaling.rope_type;
  require(type == "default" || type == "linear" || type == "llama3",
          "Llama: rope_type '{}' is not supported; it may be default, linear or llama3", type);
  require(type == "default" || c.rope_scaling.factor > 0, "Llama: the factor of rope_scaling must be positive, got {}",
          c.rope_scaling.factor);
  require(type != "llama3" ||
              (c.rope_scaling.low_freq_factor > 0 && c.rope_scaling.low_freq_factor < c.rope_scaling.high_freq_factor),
          "Llama: rope_scaling needs 0 < low_freq_factor < high_freq_factor, got {} and {}",
          c.rope_scaling.low_freq_factor, c.rope_scaling.high_freq_factor);
}

const LlamaConfig& checked(const LlamaConfig& c) {
  check(c);
  return c;
}

nn::Linear linear(std::int64_t in, std::int64_t out, bool bias, const LlamaConfig& c) {
  nn::Linear layer(in, out, {.bias = bias});
  layer.weight = variable(nn::normal({out, in}, 0, c.initializer_range));
  if (bias) layer.bias = variable(zeros({out}));
  return layer;
}

// theta^(−2i/D), in the precision of transformers' tables. llama3 divides frequencies of wavelengths beyond
// original/low_freq_factor by the factor, leaves those below original/high_freq_factor and interpolates in between.
std::vector<float> frequencies(const LlamaConfig& c) {
  const RopeScaling& r = c.rope_scaling;
  const std::int64_t width = c.head_width();
  std::vector<float> all;
  for (std::int64_t i = 0; i < width; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(width);
    double f = 1.0F / static_cast<float>(std::pow(c.rope_theta, exponent));
    if (r.rope_type == "linear") f /= r.factor;
    if (r.rope_type == "llama3") {
      const double original = static_cast<double>(r.original_max_position_embeddings);
      const double wavelength = 2 * std::numbers::pi / f;
      if (wavelength > original / r.low_freq_factor) {
        f /= r.factor;
      } else if (wavelength >= original / r.high_freq_factor) {
        const double smooth = (original / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
        f = (1 - smooth) * f / r.factor + smooth * f;
      }
    }
    all.push_back(static_cast<float>(f));
  }
  return all;
}

// [B, T, heads·D] to [B, T, heads, D], and that to [B, heads, T, D] or back.
Tensor apart(const Tensor& x, std::int64_t heads) {
  return reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads});
}
Tensor heads_exchanged(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

}  // namespace

RotaryEmbedding::RotaryEmbedding(const LlamaConfig& c) {
  const std::vector<float> all = frequencies(c);
  inv_freq.value = from_data(all, {static_cast<std::int64_t>(all.size())});
}

RotaryEmbedding::Table RotaryEmbedding::operator()(const Tensor& positions) const {
  const Tensor angles = unsqueeze(unsqueeze(cast(positions, DType::f32), -1) * inv_freq.value, -2);
  const Tensor signs = reshape(2.0 * arange(2) - 1.0, {2, 1});
  return {cos(angles), sin(angles) * signs};
}

// y = x∘cos + swapped(x)∘sin, where swapped exchanges the halves of a head and sin is negative for the first. The
// transpose of a rotation is the one by the opposite angle, so a gradient is again one pass over its operand.
Tensor RotaryEmbedding::rotate(const Tensor& x, const Table& table) {
  const std::int64_t width = x.size(-1);
  require(width == 2 * table.cos.size(-1), "RotaryEmbedding: the last size of x must be {}, got shape {}",
          2 * table.cos.size(-1), x.shape());
  const auto turned = [](const Tensor& v, const Tensor& cosines, const Tensor& sines) {
    const Shape halves = v.shape().with(v.rank() - 1, 2).inserted(v.rank(), v.size(-1) / 2);
    const Tensor h = reshape(v, halves);
    return reshape(cast(h * cosines + flip(h, -2) * sines, v.dtype()), v.shape());
  };
  return custom_function([&](const std::vector<Tensor>& in) { return turned(in[0], table.cos, table.sin); },
                         [turned, t = table](const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
                           return std::vector<Tensor>{turned(g, t.cos, -t.sin)};
                         },
                         {x});
}

LlamaAttention::LlamaAttention(const LlamaConfig& c)
    : heads(c.num_attention_heads),
      key_value_heads(c.key_value_heads()),
      head_width(c.head_width()),
      q_proj(linear(c.hidden_size, heads * head_width, c.attention_bias, c)),
      k_proj(linear(c.hidden_size, key_value_heads * head_width, c.attention_bias, c)),
      v_proj(linear(c.hidden_size, key_value_heads * head_width, c.attention_bias, c)),
      o_proj(linear(heads * head_width, c.hidden_size, c.attention_bias, c)) {}

Tensor LlamaAttention::operator()(const Tensor& x, const RotaryEmbedding::Table& rotary,
                                  const Tensor& documents) const {
  // Rotated in the layout of products and their gradients, [B, T, heads, D]: attention reads heads with any strides.
  const RotaryEmbedding::Table of_all_heads{unsqueeze(rotary.cos, -3), unsqueeze(rotary.sin, -3)};
  const Tensor q = RotaryEmbedding::rotate(apart(q_proj(x), heads), of_all_heads);
  const Tensor k = RotaryEmbedding::rotate(apart(k_proj(x), key_value_heads), of_all_heads);
  const Tensor v = apart(v_proj(x), key_value_heads);
  const Tensor y = scaled_dot_product_attention(heads_exchanged(q), heads_exchanged(k), heads_exchanged(v),
                                                {.causal = true, .documents = documents});
  return o_proj(flatten(heads_exchanged(y), 2));
}

LlamaMlp::LlamaMlp(const LlamaConfig& c)
    : gate_proj(linear(c.hidden_size, c.intermediate_size, c.mlp_bias, c)),
      up_proj(linear(c.hidden_size, c.intermediate_size, c.mlp_bias, c)),
      down_proj(linear(c.intermediate_size, c.hidden_size, c.mlp_bias, c)) {}

Tensor LlamaMlp::operator()(const Tensor& x) const {
  // A copy: the backward pass may run after the layer is gone.
  const FunctionOfMany rest = [last = down_proj](const std::vector<Tensor>& h) { return last(silu(h[0]) * h[1]); };
  const std::vector<Tensor> hidden{gate_proj(x), up_proj(x)};
  return recompute_activation ? checkpoint(rest, hidden) : rest(hidden);
}

LlamaBlock::LlamaBlock(const LlamaConfig& c)
    : self_attn(c),
      mlp(c),
      input_layernorm(c.hidden_size, {.eps = c.rms_norm_eps}),
      post_attention_layernorm(c.hidden_size, {.eps = c.rms_norm_eps}) {}

Tensor LlamaBlock::operator()(const Tensor& x, const RotaryEmbedding::Table& rotary, const Tensor& documents) const {
  const Tensor h = x + self_attn(input_layernorm(x), rotary, documents);
  return h + mlp(post_attention_layernorm(h));
}

LlamaDecoder::LlamaDecoder(const LlamaConfig& c)
    : embed_tokens(c.vocab_size, c.hidden_size), norm(c.hidden_size, {.eps = c.rms_norm_eps}), rotary_emb(c) {
  embed_tokens.weight = variable(nn::normal({c.vocab_size, c.hidden_size}, 0, c.initializer_range));
  for (std::int64_t k = 0; k < c.num_hidden_layers; ++k) layers.emplace_back(c);
}

Llama::Llama(const LlamaConfig& c) : config(checked(c)), model(c) {
  if (!c.tie_word_embeddings) lm_head = variable(nn::normal({c.vocab_size, c.hidden_size}, 0, c.initializer_range));
}

void Llama::set_fp8(bool on) {
  fp8 = on;
  for (LlamaBlock& block : model.layers) {
    for (nn::Linear* layer : {&block.mlp.gate_proj, &block.mlp.up_proj, &block.mlp.down_proj}) layer->fp8 = on;
  }
}

Tensor Llama::operator()(const Tensor& tokens, const Tensor& positions) const {
  require(tokens.rank() == 2, "Llama: tokens must have shape [batch, time], got {}", tokens.shape());
  Tensor documents, at = arange(tokens.size(1));
  if (positions.defined()) {
    require(positions.shape() == tokens.shape(), "Llama: positions must have the tokens' shape {}, got {}",
            tokens.shape(), positions.shape());
    documents = cumsum(cast(positions == 0, DType::i64), 1);
    at = positions;
  }
  const RotaryEmbedding::Table rotary = model.rotary_emb(at);
  Tensor h = model.embed_tokens(tokens);
  for (const LlamaBlock& block : model.layers) h = block(h, rotary, documents);
  return model.norm(h);
}

Tensor Llama::logits(const Tensor& tokens, const Tensor& positions) const {
  return matmul((*this)(tokens, positions), t(head()));
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& next, const Tensor& positions) const {
  require(next.shape() == tokens.shape(), "Llama: the tokens that follow must have the tokens' shape {}, got {}",
          tokens.shape(), next.shape());
  const Tensor hidden = (*this)(tokens, positions);
  if (fp8) {
    const Tensor logits = cast(fp8_linear(reshape(hidden, {-1, hidden.size(-1)}), head()), DType::f32);
    return cross_entropy(logits, reshape(next, {-1}), {.ignore_index = kNone});
  }
  // linear_cross_entropy, except for its last rounding to the dtype of halves.
  const Tensor log_probs = linear_log_probs(hidden, head(), next);
  return -sum(log_probs) / sum(cast(next != kNone, log_probs.dtype()));
}

}  // namespace ebb::models
