// SPDX-License-Identifier: MIT
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ebb/data/text.h"
#include "ebb/data/tokenizer.h"
#include "ebb/tensor.h"
#include "run_config.h"

namespace ebb::program {

// The tokens of a text: byte pairs learned from it, or a Hugging Face tokenizer.
struct Vocabulary {
  BytePairs pairs;
  std::optional<Tokenizer> tokenizer;
  std::int64_t tokens() const { return tokenizer ? tokenizer->tokens() : pairs.tokens(); }
  // `whole`: with special tokens before a text, such as <|begin_of_text|>.
  std::vector<std::int64_t> encode(std::string_view text, bool whole = false) const {
    return tokenizer ? tokenizer->encode(text, whole) : pairs.encode(text);
  }
  std::string decode(const std::vector<std::int64_t>& tokens) const {
    return tokenizer ? tokenizer->decode(tokens) : pairs.decode(tokens);
  }
};
nlohmann::json to_json(const Vocabulary& vocabulary);
Vocabulary vocabulary_from_json(const nlohmann::json& json, const std::string& where);

bool is_text(const RunConfig& config);  // whether the network reads text

struct Dataset;
struct DataFacts;
struct Examples;

// The text that `config` names, its end being test data. A model that continues training passes the facts it `knows`.
Dataset load_text_dataset(const RunConfig& config, const DataFacts* known);
Examples load_test_text(const RunConfig& config, const DataFacts& facts);

// Consecutive windows of `context` tokens, and the same one token later.
Examples windows(const std::vector<std::int64_t>& tokens, std::int64_t context, const std::string& what);

// Tokens and positions of inputs [n, T], which have none, or [n, 2, T], which are packed.
struct TextInputs {
  Tensor tokens, positions;
  explicit TextInputs(const Tensor& inputs);
};

}  // namespace ebb::program
