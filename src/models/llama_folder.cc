// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>

#include "core/format_error.h"
#include "ebb/device.h"
#include "ebb/models/llama.h"
#include "ebb/ops.h"
#include "io/json.h"
#include "io/new_file.h"
#include "io/weight_files.h"

namespace ebb::models {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Reads a setting of config.json into `value`, which stays unchanged if there is none.
template <class T>
void take(const json& all, const char* name, T& value, const std::string& where) {
  const auto found = all.find(name);
  if (found == all.end() || found->is_null()) return;
  const bool fits = std::is_same_v<T, bool>           ? found->is_boolean()
                    : std::is_same_v<T, std::string>  ? found->is_string()
                    : std::is_same_v<T, std::int64_t> ? found->is_number_integer()
                                                      : found->is_number();
  require(fits, Error::Kind::io, "{}: '{}' cannot be {}", where, name, found->dump());
  value = found->get<T>();
}

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      fail(Error::Kind::type, "save_llama: weights are written as f32, bf16 or f16, not as {}", dtype);
  }
}

// rope_parameters of transformers 5; before it rope_theta and rope_scaling.
void take_rope(const json& all, LlamaConfig& c, const std::string& where) {
  take(all, "rope_theta", c.rope_theta, where);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto found = all.find(name);
    if (found == all.end() || found->is_null()) continue;
    require(found->is_object(), Error::Kind::io, "{}: '{}' cannot be {}", where, name, found->dump());
    RopeScaling& r = c.rope_scaling;
    take(*found, "type", r.rope_type, where);
    take(*found, "rope_type", r.rope_type, where);
    take(*found, "rope_theta", c.rope_theta, where);
    take(*found, "factor", r.factor, where);
    take(*found, "low_freq_factor", r.low_freq_factor, where);
    take(*found, "high_freq_factor", r.high_freq_factor, where);
    take(*found, "original_max_position_embeddings", r.original_max_position_embeddings, where);
  }
}

json written(const LlamaConfig& c, DType dtype) {
  json all{{"architectures", {"LlamaForCausalLM"}},
           {"model_type", "llama"},
           {"vocab_size", c.vocab_size},
           {"hidden_size", c.hidden_size},
           {"intermediate_size", c.intermediate_size},
           {"num_hidden_layers", c.num_hidden_layers},
           {"num_attention_heads", c.num_attention_heads},
           {"num_key_value_heads", c.key_value_heads()},
           {"head_dim", c.head_width()},
           {"max_position_embeddings", c.max_position_embeddings},
           {"rms_norm_eps", c.rms_norm_eps},
           {"rope_theta", c.rope_theta},
           {"rope_scaling", nullptr},
           {"tie_word_embeddings", c.tie_word_embeddings},
           {"attention_bias", c.attention_bias},
           {"mlp_bias", c.mlp_bias},
           {"attention_dropout", 0.0},
           {"hidden_act", "silu"},
           {"initializer_range", c.initializer_range},
           {"bos_token_id", nullptr},
           {"eos_token_id", nullptr},
           {"use_cache", true},
           {"torch_dtype", torch_name(dtype)}};
  if (c.bos_token_id >= 0) all["bos_token_id"] = c.bos_token_id;
  if (c.eos_token_ids.size() == 1) all["eos_token_id"] = c.eos_token_ids[0];
  if (c.eos_token_ids.size() > 1) all["eos_token_id"] = c.eos_token_ids;
  const RopeScaling& r = c.rope_scaling;
  if (r.rope_type == "linear") all["rope_scaling"] = {{"rope_type", r.rope_type}, {"factor", r.factor}};
  if (r.rope_type == "llama3") {
    all["rope_scaling"] = {{"rope_type", r.rope_type},
                           {"factor", r.factor},
                           {"low_freq_factor", r.low_freq_factor},
                           {"high_freq_factor", r.high_freq_factor},
                           {"original_max_position_embeddings", r.original_max_position_embeddings}};
  }
  return all;
}

}  // namespace

LlamaConfig load_llama_config(const std::string& folder) {
  const std::string file = (fs::path(folder) / "config.json").string();
  return llama_config_from_json(io::text_of_file(file), file);
}

std::string llama_config_to_json(const LlamaConfig& c, DType dtype) { return written(c, dtype).dump(2) + "\n"; }

LlamaConfig llama_config_from_json(const std::string& text, const std::string& where) {
  const json all = io::parse_json(text, 6, where);
  require(all.is_object(), Error::Kind::io, "{}: expected an object of settings", where);
  const json kind = all.value("model_type", json());
  require(kind == "llama", Error::Kind::io, "{}: model_type is {}; only llama is supported", where, kind.dump());
  LlamaConfig c;
  const auto number = [&](const char* name, std::int64_t& value) { take(all, name, value, where); };
  number("vocab_size", c.vocab_size);
  number("hidden_size", c.hidden_size);
  number("intermediate_size", c.intermediate_size);
  number("num_hidden_layers", c.num_hidden_layers);
  number("num_attention_heads", c.num_attention_heads);
  number("num_key_value_heads", c.num_key_value_heads);
  number("head_dim", c.head_dim);
  number("max_position_embeddings", c.max_position_embeddings);
  number("bos_token_id", c.bos_token_id);
  take(all, "rms_norm_eps", c.rms_norm_eps, where);
  take(all, "initializer_range", c.initializer_range, where);
  take(all, "tie_word_embeddings", c.tie_word_embeddings, where);
  take(all, "attention_bias", c.attention_bias, where);
  take(all, "mlp_bias", c.mlp_bias, where);
  take_rope(all, c, where);
  std::string activation = "silu";
  take(all, "hidden_act", activation, where);
  require(activation == "silu", Error::Kind::io, "{}: hidden_act is '{}'; only silu is supported", where, activation);
  if (const json ends = all.value("eos_token_id", json()); ends.is_array()) {
    for (const json& end : ends) {
      require(end.is_number_integer(), Error::Kind::io, "{}: 'eos_token_id' cannot be {}", where, ends.dump());
      c.eos_token_ids.push_back(end.get<std::int64_t>());
    }
  } else if (!ends.is_null()) {
    take(all, "eos_token_id", c.eos_token_ids.emplace_back(), where);
  }
  return c;
}

Llama load_llama(const std::string& folder, DType dtype) {
  const io::WeightFiles files(folder);
  Llama llama(load_llama_config(folder));
  std::vector<std::string> used;
  for (const Parameter& p : parameters(llama)) {
    require(files.contains(p.name), Error::Kind::io, "{}: '{}' of the model is missing in the weights", folder, p.name);
    const Tensor value = files.tensor(p.name);
    require(value.shape() == p.tensor->shape() && is_floating(value.dtype()), Error::Kind::io,
            "{}: '{}' is {} {}, config.json says {}", folder, p.name, value.dtype(), value.shape(), p.tensor->shape());
    *p.tensor = variable(cast(value.to(default_device()), dtype));
    used.push_back(p.name);
  }
  std::sort(used.begin(), used.end());
  for (const std::string& name : files.names()) {
    // Older files hold the frequencies, and some the head of a model without one of its own.
    const bool known = std::binary_search(used.begin(), used.end(), name) || name.ends_with("rotary_emb.inv_freq") ||
                       (name == "lm_head.weight" && llama.config.tie_word_embeddings);
    require(known, Error::Kind::io, "{}: '{}' is in the weights, but not in a Llama of this config.json", folder, name);
  }
  return llama;
}

void save_llama(const std::string& folder, Llama llama, const SaveLlamaOptions& o) {
  const std::string config = llama_config_to_json(llama.config, o.dtype);
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, Error::Kind::io, "{}: the folder cannot be made ({})", folder, error.message());
  io::TensorMap weights;
  for (const Parameter& p : parameters(llama)) weights.emplace(p.name, cast(stop_gradient(*p.tensor), o.dtype));
  io::save_weight_files(folder, weights, o.shard_bytes);
  io::NewFile file((fs::path(folder) / "config.json").string());
  file.write(config);
  file.commit();
}

}  // namespace ebb::models
