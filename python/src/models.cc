// SPDX-License-Identifier: MIT
#include "ebb/models.h"

#include "nn_layers.h"
#include "paths.h"

// Whole models. Their settings are keyword arguments and dicts, by the names that Hugging Face's config.json has.
namespace ebb::python {
namespace {

using models::Llama;
using models::LlamaConfig;
using models::RopeScaling;

// Calls f(name, member) for every setting.
template <class Scaling, class F>
void each_rope_setting(Scaling& r, F&& f) {
  f("rope_type", r.rope_type);
  f("factor", r.factor);
  f("low_freq_factor", r.low_freq_factor);
  f("high_freq_factor", r.high_freq_factor);
  f("original_max_position_embeddings", r.original_max_position_embeddings);
}
template <class Config, class F>
void each_setting(Config& c, F&& f) {
  f("vocab_size", c.vocab_size);
  f("hidden_size", c.hidden_size);
  f("intermediate_size", c.intermediate_size);
  f("num_hidden_layers", c.num_hidden_layers);
  f("num_attention_heads", c.num_attention_heads);
  f("num_key_value_heads", c.num_key_value_heads);
  f("head_dim", c.head_dim);
  f("max_position_embeddings", c.max_position_embeddings);
  f("rms_norm_eps", c.rms_norm_eps);
  f("rope_theta", c.rope_theta);
  f("rope_scaling", c.rope_scaling);
  f("tie_word_embeddings", c.tie_word_embeddings);
  f("attention_bias", c.attention_bias);
  f("mlp_bias", c.mlp_bias);
  f("initializer_range", c.initializer_range);
  f("bos_token_id", c.bos_token_id);
  f("eos_token_ids", c.eos_token_ids);
}

nb::dict dict_of(const LlamaConfig& c) {
  nb::dict all;
  each_setting(c, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, RopeScaling>) {
      nb::dict rope;
      each_rope_setting(value, [&](const char* inner, const auto& member) { rope[inner] = nb::cast(member); });
      all[name] = rope;
    } else {
      all[name] = nb::cast(value);
    }
  });
  return all;
}

// Takes the settings that `given` has and complains of names that are none.
template <class Each>
void take_settings(const nb::dict& given, const char* what, const Each& each) {
  std::size_t used = 0;
  std::string names;
  each([&](const char* name, auto& member) {
    names += (names.empty() ? "" : ", ") + std::string(name);
    if (!given.contains(name)) return;
    ++used;
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, RopeScaling>) {
      if (given[name].is_none()) return;
      take_settings(nb::cast<nb::dict>(given[name]), "rope_scaling",
                    [&](const auto& f) { each_rope_setting(member, f); });
    } else {
      member = nb::cast<Member>(given[name]);
    }
  });
  if (used == given.size()) return;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if ((", " + names + ",").find(", " + name + ",") == std::string::npos)
      throw Error(std::string(what) + " has no setting '" + name + "', only " + names);
  }
}

LlamaConfig config_of(const nb::dict& given) {
  LlamaConfig config;
  take_settings(given, "Llama", [&](const auto& f) { each_setting(config, f); });
  return config;
}

}  // namespace

void bind_models(const Api& api) {
  nb::module_ m = api.module.def_submodule("_models", "Whole models.");
  auto llama = layer_class<Llama>(m, "Llama",
                                  "A Llama by the settings and with the weights' names of Hugging Face's transformers. "
                                  "Called with tokens [batch, time] it gives what the head is applied to.");
  llama.def("__init__", [](Llama* self, const nb::kwargs& settings) {
    new (self) Llama(config_of(nb::borrow<nb::dict>(settings)));
  });
  llama.def(
      "__call__", [](Llama& l, const Tensor& tokens, const Tensor* positions) { return l(tokens, or_none(positions)); },
      "tokens"_a, "positions"_a.none() = nb::none());
  llama.def(
      "logits",
      [](Llama& l, const Tensor& tokens, const Tensor* positions) { return l.logits(tokens, or_none(positions)); },
      "tokens"_a, "positions"_a.none() = nb::none(), "Logits [batch, time, vocabulary] of the tokens that follow.");
  llama.def(
      "loss",
      [](Llama& l, const Tensor& tokens, const Tensor& next, const Tensor* positions) {
        return l.loss(tokens, next, or_none(positions));
      },
      "tokens"_a, "next"_a, "positions"_a.none() = nb::none(),
      "Mean cross-entropy of the tokens that follow, -100 where there is none; the logits are never materialised. "
      "Positions are those of packed rows: each 0 begins another sequence.");
  llama.def_prop_rw(
      "fp8", [](const Llama& l) { return l.fp8; }, [](Llama& l, bool on) { l.set_fp8(on); },
      "Whether the products of feed-forward networks and of the head in the loss are those of fp8_linear.");
  llama.def_prop_ro(
      "config", [](const Llama& l) { return dict_of(l.config); }, "The settings by name.");
  llama.def_prop_ro("head", &Llama::head, "The head's weight, which may be that of the embedding.");
  m.def(
      "load_llama_config", [](const Path& folder) { return dict_of(models::load_llama_config(folder.string())); },
      "folder"_a, "The settings in the config.json of a folder, by name.");
  m.def("load_llama", of_path(models::load_llama), doc("load_llama"), "folder"_a, "dtype"_a = DTypeObject{DType::f32});
  m.def(
      "save_llama",
      [](const Path& folder, const Llama& model, DType dtype, std::int64_t shard_bytes) {
        models::save_llama(folder.string(), model, {.dtype = dtype, .shard_bytes = shard_bytes});
      },
      "folder"_a, "model"_a, nb::kw_only(), "dtype"_a = DTypeObject{DType::f32},
      "shard_bytes"_a = models::SaveLlamaOptions{}.shard_bytes,
      "Writes a folder that from_pretrained of transformers reads.");
  nb::module_ layers = nb::borrow<nb::module_>(api.module.attr("_nn"));
  layers.def("_arguments", [](const Llama& l) { return dict_of(l.config); });
}

}  // namespace ebb::python
