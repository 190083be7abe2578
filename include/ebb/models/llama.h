// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/nn/layers.h"

// Llama (Touvron et al., 2023): a decoder with RMS norms, rotary embeddings, grouped-query attention and SwiGLU. Names
// of settings and weights are those of Hugging Face's transformers, whose folders are read and written: config.json and
// model.safetensors, or several files with model.safetensors.index.json.
namespace ebb::models {

// How rotary frequencies are stretched for contexts longer than those trained on.
struct RopeScaling {
  std::string rope_type = "default";  // default, linear (divided by the factor) or llama3 (only the low frequencies)
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;      // llama3: wavelengths per original context
  std::int64_t original_max_position_embeddings = 8192;  // llama3
};

struct LlamaConfig {
  std::int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32, num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  // shared by groups of query heads; 0: one per query head
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  bool tie_word_embeddings = false;  // the embedding is the head, too
  bool attention_bias = false, mlp_bias = false;
  double initializer_range = 0.02;               // standard deviation of first values
  std::int64_t bos_token_id = -1;                // -1: none
  std::vector<std::int64_t> eos_token_ids = {};  // tokens that end a text
  std::int64_t key_value_heads() const { return num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads; }
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : hidden_size / num_attention_heads; }
};

// Rotation of pairs (x[i], x[i + D/2]) by the angle position · inv_freq[i].
struct RotaryEmbedding {
  nn::Buffer inv_freq;  // [D/2], f32
  explicit RotaryEmbedding(const LlamaConfig& config);
  // Cosines [.., T, 1, D/2] and sines, negative for the first half, [.., T, 2, D/2], of positions [.., T].
  struct Table {
    Tensor cos, sin;
  };
  Table operator()(const Tensor& positions) const;
  static Tensor rotate(const Tensor& x, const Table& table);  // x [.., T, D], table broadcast to it
  template <class V>
  void visit(V&& v) {
    v("inv_freq", inv_freq);
  }
};

struct LlamaAttention {
  std::int64_t heads, key_value_heads, head_width;
  nn::Linear q_proj, k_proj, v_proj, o_proj;
  explicit LlamaAttention(const LlamaConfig& config);
  // [B, T, width], rotary of positions [T] or [B, T]; a token attends to itself and earlier ones of its document
  // (numbers [B, T], see AttentionOptions).
  Tensor operator()(const Tensor& x, const RotaryEmbedding::Table& rotary, const Tensor& documents = {}) const;
  template <class V>
  void visit(V&& v) {
    v("q_proj", q_proj);
    v("k_proj", k_proj);
    v("v_proj", v_proj);
    v("o_proj", o_proj);
  }
};

// down(silu(gate(x)) · up(x))
struct LlamaMlp {
  nn::Linear gate_proj, up_proj, down_proj;
  // The product is not kept for the backward pass but made again: the same bits with less memory.
  bool recompute_activation = false;
  explicit LlamaMlp(const LlamaConfig& config);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("gate_proj", gate_proj);
    v("up_proj", up_proj);
    v("down_proj", down_proj);
  }
};

struct LlamaBlock {
  LlamaAttention self_attn;
  LlamaMlp mlp;
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  explicit LlamaBlock(const LlamaConfig& config);
  Tensor operator()(const Tensor& x, const RotaryEmbedding::Table& rotary, const Tensor& documents = {}) const;
  template <class V>
  void visit(V&& v) {
    v("self_attn", self_attn);
    v("mlp", mlp);
    v("input_layernorm", input_layernorm);
    v("post_attention_layernorm", post_attention_layernorm);
  }
};

struct LlamaDecoder {
  nn::Embedding embed_tokens;
  std::vector<LlamaBlock> layers;
  nn::RMSNorm norm;
  RotaryEmbedding rotary_emb;
  explicit LlamaDecoder(const LlamaConfig& config);
  template <class V>
  void visit(V&& v) {
    v("embed_tokens", embed_tokens);
    v("layers", layers);
    v("norm", norm);
    v("rotary_emb", rotary_emb);
  }
};

struct Llama {
  LlamaConfig config;
  LlamaDecoder model;
  Tensor lm_head;                             // [V, width]; undefined where the embedding is the head
  bool fp8 = false;                           // set_fp8()
  explicit Llama(const LlamaConfig& config);  // first values from the calling thread's random numbers

  // The hidden states that the head is applied to, [B, T, width], for tokens [B, T]. Positions [B, T] describe packed
  // rows: each 0 begins another sequence, and attention stays inside each. Without them a row is one sequence.
  Tensor operator()(const Tensor& tokens, const Tensor& positions = {}) const;
  // Whether the products of feed-forward networks and of the head in the loss are those of fp8_linear (ebb/ops/fp8.h).
  void set_fp8(bool on);
  const Tensor& head() const { return lm_head.defined() ? lm_head : model.embed_tokens.weight; }
  Tensor logits(const Tensor& tokens, const Tensor& positions = {}) const;  // [B, T, V]
  // Mean cross-entropy of the tokens that follow, [B, T]; −100 where there is none. The logits are never materialised.
  Tensor loss(const Tensor& tokens, const Tensor& next, const Tensor& positions = {}) const;
  template <class V>
  void visit(V&& v) {
    v("model", model);
    v("lm_head.weight", lm_head);
  }
};

// A folder that transformers' save_pretrained wrote. Weights become variables of this dtype on the default device.
LlamaConfig load_llama_config(const std::string& folder);
LlamaConfig llama_config_from_json(const std::string& json, const std::string& where);  // the text of a config.json
std::string llama_config_to_json(const LlamaConfig& config, DType dtype = DType::f32);
Llama load_llama(const std::string& folder, DType dtype = DType::f32);

// Writes a folder that from_pretrained of transformers reads.
struct SaveLlamaOptions {
  DType dtype = DType::f32;
  std::int64_t shard_bytes = 5'000'000'000;  // more than that goes into several files
};
void save_llama(const std::string& folder, Llama model, const SaveLlamaOptions& options = {});

}  // namespace ebb::models
