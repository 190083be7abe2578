// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "golden_file.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;
using models::Llama;
using models::LlamaConfig;
using nlohmann::json;

json facts_of(const std::string& name) {
  std::ifstream file(testing::golden_file(name + ".json"));
  return json::parse(file);
}

Tensor rows(const json& lists) {
  std::vector<std::int64_t> all;
  for (const json& row : lists) {
    for (const json& token : row) all.push_back(token);
  }
  const auto n = static_cast<std::int64_t>(lists.size());
  return from_data(all, {n, static_cast<std::int64_t>(all.size()) / n});
}

// Tokens and their successors; the last one has none.
struct Sample {
  Tensor tokens, next;
  explicit Sample(const json& facts) : tokens(rows(facts["tokens"])) {
    const Tensor labels = rows(facts["labels"]);
    next = cat({labels.slice(1, 1, labels.size(1)), full({labels.size(0), 1}, std::int64_t{-100})}, 1);
  }
};

LlamaConfig tiny() {
  return {.vocab_size = 40,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 32};
}

class GoldenLlama : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenLlama, LossAndGradientsAreThoseOfTransformers) {
  const json facts = facts_of(GetParam());
  const Sample s(facts);
  Llama llama = models::load_llama(testing::golden_file(GetParam()));
  const Tensor loss = llama.loss(s.tokens, s.next);
  EXPECT_NEAR(loss.item() / facts["loss"].get<double>(), 1, 1e-6);
  const Gradients gradients = backward(loss);
  const Parameters all = parameters(llama);
  ASSERT_EQ(all.size(), facts["gradient_norms"].size());
  for (const Parameter& p : all) {
    const double norm = facts["gradient_norms"].at(p.name);
    EXPECT_NEAR(std::sqrt(sum(square(cast(gradients[*p.tensor], DType::f64))).item()), norm, 1e-5 * norm + 1e-7)
        << p.name;
  }
}

TEST_P(GoldenLlama, LossInHalfPrecisionIsClose) {
  const json facts = facts_of(GetParam());
  const Sample s(facts);
  const Llama half = cast_parameters(models::load_llama(testing::golden_file(GetParam())), DType::bf16);
  EXPECT_NEAR(half.loss(s.tokens, s.next).item() / facts["loss_bf16"].get<double>(), 1, 1e-3);
}

TEST_P(GoldenLlama, TwentyStepsOfAdamWGoTheSameWay) {
  const json facts = facts_of(GetParam());
  const Sample s(facts);
  Llama llama = models::load_llama(testing::golden_file(GetParam()));
  AdamW adamw({.lr = 1e-2, .weight_decay = 0.1, .decays = decay_matrices});
  for (const json& expected : facts["curve"]) {
    const Tensor loss = llama.loss(s.tokens, s.next);
    adamw.step(llama, backward(loss));
    EXPECT_NEAR(loss.item(), expected.get<double>(), 1e-4);
  }
}

TEST_P(GoldenLlama, ComesBackFromItsOwnFolder) {
  const Sample s(facts_of(GetParam()));
  const Llama before = models::load_llama(testing::golden_file(GetParam()));
  for (const std::int64_t shard : {std::int64_t{1} << 30, std::int64_t{6000}}) {
    const ScratchFolder folder;
    models::save_llama(folder / "out", before, {.shard_bytes = shard});
    EXPECT_EQ(fs::exists(folder / "out/model.safetensors.index.json"), shard == 6000);
    const Llama after = models::load_llama(folder / "out");
    EXPECT_EQ(after.loss(s.tokens, s.next).item(), before.loss(s.tokens, s.next).item());
  }
}

INSTANTIATE_TEST_SUITE_P(Llama, GoldenLlama, ::testing::Values("untied", "tied_grouped", "shards"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Llama, SequencesOfAPackedRowAreComputedOneByOne) {
  manual_seed(4);
  for (const std::int64_t shared : {4, 2}) {
    LlamaConfig config = tiny();
    config.num_key_value_heads = shared;
    Llama llama(config);
    const std::vector<std::int64_t> lengths{5, 1, 7, 3};
    Tensor packed = randint(0, 40, {1, 16}).eval(), following, positions;
    std::vector<Tensor> next, at;
    double sum_of_losses = 0, count = 0;
    std::vector<Tensor> sums;
    for (std::int64_t begin = 0; const std::int64_t n : lengths) {
      const Tensor own = packed.slice(1, begin, begin + n);
      const Tensor after = cat({own.slice(1, 1, n), full({1, 1}, std::int64_t{-100})}, 1);
      next.push_back(after);
      at.push_back(unsqueeze(arange(n), 0));
      if (n > 1) {
        sums.push_back(static_cast<double>(n - 1) * llama.loss(own, after));
        sum_of_losses += sums.back().item();
        count += static_cast<double>(n - 1);
      }
      begin += n;
    }
    following = cat(next, 1), positions = cat(at, 1);
    const Tensor loss = llama.loss(packed, following, positions);
    EXPECT_NEAR(loss.item(), sum_of_losses / count, 1e-6);
    // Gradients, too.
    Tensor alone = sums[0];
    for (std::size_t k = 1; k < sums.size(); ++k) alone = alone + sums[k];
    const Gradients a = backward(loss), b = backward(alone / count);
    for (const Parameter& p : parameters(llama)) {
      EXPECT_LT(max(abs(a[*p.tensor] - b[*p.tensor])).item(), 1e-6) << p.name;
    }
  }
}

TEST(Packing, FillsRowsAndEachSequenceKeepsToItself) {
  manual_seed(8);
  const Llama llama(tiny());
  std::vector<std::vector<std::int64_t>> sequences;
  double sum_of_losses = 0, places = 0;
  for (const std::int64_t n : {4, 30, 1, 9, 2, 0, 7, 12}) {  // 30 tokens are more than a row holds
    const Tensor t = randint(0, 40, {n}).eval();
    sequences.push_back(t.to_vector<std::int64_t>());
    for (std::int64_t at = 0; at + 1 < n; at += 16) {
      const std::int64_t end = std::min(at + 16, n - 1);
      const Tensor own = unsqueeze(t.slice(0, at, end), 0), next = unsqueeze(t.slice(0, at + 1, end + 1), 0);
      sum_of_losses += llama.loss(own, next).item() * static_cast<double>(end - at);
      places += static_cast<double>(end - at);
    }
  }
  const PackedSequences p = pack_sequences(sequences, 16);
  EXPECT_EQ(p.tokens.shape(), Shape({4, 16}));  // 58 places
  EXPECT_EQ(sum(p.next != -100).item(), places);
  EXPECT_NEAR(llama.loss(p.tokens, p.next, p.positions).item(), sum_of_losses / places, 1e-6);
  EXPECT_EQ(pack_sequences({{5}, {}}, 4).tokens.shape(), Shape({0, 4}));
  EXPECT_THROW_MESSAGE(pack_sequences({}, 0), "pack_sequences: the length of a row must be positive, got 0");
}

TEST(Llama, ALaterTokenChangesNothingBeforeIt) {
  manual_seed(5);
  const Llama llama(tiny());
  const Tensor tokens = randint(0, 40, {1, 9}).eval();
  const Tensor other = cat({tokens.slice(1, 0, 8), remainder(tokens.slice(1, 8, 9) + 1, 40)}, 1);
  const Tensor a = llama.logits(tokens).eval(), b = llama.logits(other).eval();
  EXPECT_EQ(max(abs(a.slice(1, 0, 8) - b.slice(1, 0, 8))).item(), 0);
  EXPECT_GT(max(abs(a.slice(1, 8, 9) - b.slice(1, 8, 9))).item(), 1e-4);
}

// Queries and keys are rotated in the layout of the products and their gradients: no sweep only moves them, forward or
// backward.
TEST(Llama, HeadsAreRotatedWhereTheyLie) {
  const models::LlamaAttention attention(tiny());
  const models::RotaryEmbedding rotary(tiny());
  const std::int64_t batch = 3, time = 7;
  const Tensor x = variable(randn({batch, time, 16}).eval());
  const Gradients g = backward(sum(square(attention(x, rotary(arange(time))))));
  const std::string text =
      print_schedule({g[x], g[attention.q_proj.weight], g[attention.k_proj.weight], g[attention.v_proj.weight]});
  for (std::size_t at = text.find("sweep ["); at != std::string::npos;) {
    const std::size_t next = text.find("sweep [", at + 1);
    std::istringstream sweep(text.substr(at, next - at));
    std::string line;
    bool computes = false;
    while (std::getline(sweep, line)) {
      const bool is_value = line.find("%") != std::string::npos && line.find("  store") != 0;
      computes |= is_value && line.find(" = load ") == std::string::npos && line.find(" = copy ") == std::string::npos;
    }
    EXPECT_TRUE(computes) << sweep.str();
    at = next;
  }
}

TEST(Llama, RecomputedActivationsGiveTheSameBits) {
  manual_seed(6);
  Llama llama(tiny());
  const Tensor tokens = randint(0, 40, {2, 9}).eval(), next = randint(0, 40, {2, 9}).eval();
  const Gradients plain = backward(llama.loss(tokens, next));
  Llama saving = llama;
  for (models::LlamaBlock& block : saving.model.layers) block.mlp.recompute_activation = true;
  const Gradients again = backward(saving.loss(tokens, next));
  for (const Parameter& p : parameters(llama))
    EXPECT_EQ(max(abs(plain[*p.tensor] - again[*p.tensor])).item(), 0) << p.name;
}

TEST(Llama, NamesSettingsThatMakeNoSense) {
  const auto expect = [](void (*change)(LlamaConfig&), const char* message) {
    LlamaConfig config = tiny();
    change(config);
    EXPECT_THROW_MESSAGE(Llama{config}, message);
  };
  expect([](LlamaConfig& c) { c.hidden_size = 18; }, "Llama: a hidden_size of 18 is not divisible by 4 heads");
  expect([](LlamaConfig& c) { c.hidden_size = 12; }, "Llama: rotary embeddings need heads of even width, got 3");
  expect([](LlamaConfig& c) { c.num_key_value_heads = 3; }, "Llama: 4 query heads cannot share 3 key and value heads");
  expect([](LlamaConfig& c) { c.vocab_size = 0; }, "Llama: vocab_size must lie in [1, 2^31), got 0");
  expect([](LlamaConfig& c) { c.num_hidden_layers = 1'000'000; }, "Llama: 1000000 layers are more than 10000");
  expect([](LlamaConfig& c) { c.head_dim = 1 << 20; }, "the width of a head must lie in [1, 65536], got 1048576");
  expect([](LlamaConfig& c) { c.rope_theta = 0; }, "Llama: rope_theta must be positive, got 0");
  expect([](LlamaConfig& c) { c.rope_scaling = {.rope_type = "linear", .factor = 0}; }, "factor of rope_scaling");
  expect([](LlamaConfig& c) { c.rope_scaling = {.rope_type = "llama3", .low_freq_factor = 4}; },
         "needs 0 < low_freq_factor < high_freq_factor, got 4 and 4");
  const Llama llama(tiny());
  EXPECT_THROW_MESSAGE(llama(zeros({4}, DType::i64)), "Llama: tokens must have shape [batch, time], got [4]");
  const Tensor tokens = zeros({2, 3}, DType::i64);
  EXPECT_THROW_MESSAGE(llama(tokens, arange(3)), "Llama: positions must have the tokens' shape [2, 3], got [3]");
  EXPECT_THROW_MESSAGE(llama.loss(tokens, arange(3)), "must have the tokens' shape [2, 3], got [3]");
}

TEST(Llama, NamesWhatAFolderLacks) {
  const ScratchFolder folder;
  fs::create_directories(folder / "m");
  const auto config = [&](const std::string& text) { std::ofstream(folder / "m/config.json") << text; };
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "there are no weights, neither model.safetensors nor");
  models::save_llama(folder / "m", Llama(tiny()));
  config(R"({"model_type": "mistral"})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "model_type is \"mistral\"; only llama is supported");
  config(R"({"model_type": "llama", "hidden_act": "gelu"})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "hidden_act is 'gelu'; only silu is supported");
  config(R"({"model_type": "llama", "hidden_size": "wide"})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "'hidden_size' cannot be \"wide\"");
  config(R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
             "num_hidden_layers": 2, "num_attention_heads": 4, "rope_scaling": {"rope_type": "yarn", "factor": 2}})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "rope_type 'yarn' is not supported");
  config(R"({"model_type": "llama", "vocab_size": 41, "hidden_size": 16, "intermediate_size": 24,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"),
                       "'model.embed_tokens.weight' is f32 [40, 16], config.json says [41, 16]");
  config(R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
             "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"), "'model.layers.1.input_layernorm.weight' is in the weights");
  config(R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
             "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2})");
  EXPECT_THROW_MESSAGE(models::load_llama(folder / "m"),
                       "'model.layers.2.self_attn.q_proj.weight' of the model is missing");
}

}  // namespace
}  // namespace ebb
