// SPDX-License-Identifier: MIT
#include "text_dataset.h"

#include <algorithm>
#include <filesystem>

#include "core/format_error.h"
#include "dataset.h"
#include "ebb/data/packing.h"
#include "ebb/models/llama.h"
#include "ebb/ops.h"
#include "io/text_file.h"
#include "io/weight_files.h"
#include "sample_text.h"

namespace ebb::program {
namespace {

constexpr std::int64_t kTalesLength = 300'000;

std::string text_of_file(const std::string& path) { return std::string(io::TextFile(path).text()); }

// The end of the text is test data.
struct Texts {
  std::string train, test;
};
Texts load_texts(const RunConfig& c) {
  Texts t;
  t.train = c.data == "tales" ? make_tales(kTalesLength, c.seed) : text_of_file(c.data);
  if (!c.test_data.empty()) {
    t.test = text_of_file(c.test_data);
  } else {
    const auto kept = static_cast<std::size_t>(static_cast<double>(t.train.size()) * (1 - c.test_fraction));
    t.test = t.train.substr(kept);
    t.train.resize(kept);
  }
  return t;
}

std::string name_of_text(const RunConfig& c, bool test) {
  if (!c.test_data.empty() && test) return "the test text " + c.test_data;
  return fmt::format("the {} text of {}", test ? "test" : "training", c.data);
}

// Expands \n and \t, as passed by a shell.
std::string unescaped(const std::string& given) {
  std::string text;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char next = given[i] == '\\' && i + 1 < given.size() ? given[i + 1] : '\0';
    text += next == 'n' ? '\n' : next == 't' ? '\t' : given[i];
    if (next == 'n' || next == 't') ++i;
  }
  return text;
}

// The parts between separators, each with the special tokens before and after a text, packed into rows.
Examples packed_documents(const std::string& text, const RunConfig& c, const DataFacts& facts,
                          const std::string& what) {
  const std::string separator = unescaped(c.documents);
  std::optional<std::int64_t> end;
  if (!facts.model_config.empty()) {
    const auto config = models::llama_config_from_json(facts.model_config, "config.json");
    if (!config.eos_token_ids.empty()) end = config.eos_token_ids[0];
  }
  std::vector<std::vector<std::int64_t>> sequences;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find(separator, at), text.size());
    if (next > at) {
      sequences.push_back(facts.vocabulary.encode(std::string_view(text).substr(at, next - at), true));
      if (end && sequences.back().back() != *end) sequences.back().push_back(*end);
    }
    at = next + separator.size();
  }
  const PackedSequences rows = pack_sequences(sequences, facts.example[0]);
  require(rows.tokens.size(0) >= 1, "{} has no document of two tokens between --documents '{}'", what, c.documents);
  return {stack({rows.tokens, rows.positions}, 1).eval(), rows.next};
}

Examples examples_of(const std::string& text, const RunConfig& c, const DataFacts& facts, const std::string& what) {
  if (!c.documents.empty()) return packed_documents(text, c, facts, what);
  return windows(facts.vocabulary.encode(text), facts.example[0], what);
}

Vocabulary vocabulary_of(const RunConfig& c, const std::string& text) {
  namespace fs = std::filesystem;
  Vocabulary v;
  const std::string folder = c.tokenizer.empty() ? c.init : c.tokenizer;
  if (!folder.empty()) {
    require(!c.tokenizer.empty() || fs::exists(fs::path(folder) / "tokenizer.json"), Error::Kind::io,
            "--init {}: the folder has no tokenizer.json; name one by --tokenizer", folder);
    v.tokenizer = Tokenizer::load(folder);
  } else if (c.tokens > 256) {
    v.pairs = BytePairs::train(text, c.tokens);
  }
  return v;
}

}  // namespace

nlohmann::json to_json(const Vocabulary& v) {
  return v.tokenizer ? nlohmann::json(v.tokenizer->json()) : nlohmann::json(v.pairs.merges());
}

Vocabulary vocabulary_from_json(const nlohmann::json& json, const std::string& where) {
  if (json.is_string()) return {{}, Tokenizer::from_json(json.get<std::string>(), where + ": its tokenizer")};
  return {BytePairs(json.get<std::vector<BytePairs::Merge>>()), {}};
}

bool is_text(const RunConfig& c) { return c.model == "gpt" || c.model == "llama"; }

TextInputs::TextInputs(const Tensor& inputs) : tokens(inputs) {
  if (inputs.rank() != 3) return;
  tokens = reshape(inputs.slice(1, 0, 1), {inputs.size(0), inputs.size(2)});
  positions = reshape(inputs.slice(1, 1, 2), {inputs.size(0), inputs.size(2)});
}

Examples windows(const std::vector<std::int64_t>& tokens, std::int64_t context, const std::string& what) {
  const std::int64_t n = (static_cast<std::int64_t>(tokens.size()) - 1) / context;
  require(n >= 1, "{} has {} tokens, at least --context {} and one more are needed", what, tokens.size(), context);
  return {from_data(tokens.data(), {n, context}), from_data(tokens.data() + 1, {n, context})};
}

Dataset load_text_dataset(const RunConfig& c, const DataFacts* known) {
  require(c.data != "digits", "--data digits: pictures are not for --model {}", c.model);
  Dataset all;
  const Texts texts = load_texts(c);
  DataFacts& facts = all.facts;
  if (known) {
    facts = *known;
  } else {
    facts.vocabulary = vocabulary_of(c, texts.train);
    facts.example = {c.context};
    if (!c.init.empty())
      facts.model_config = io::text_of_file((std::filesystem::path(c.init) / "config.json").string());
  }
  all.train = examples_of(texts.train, c, facts, name_of_text(c, false));
  all.test = examples_of(texts.test, c, facts, name_of_text(c, true));
  all.description =
      fmt::format("{} characters of {}", texts.train.size() + (c.test_data.empty() ? texts.test.size() : 0),
                  c.data == "tales" ? "generated tales" : c.data);
  if (!c.test_data.empty()) all.description += fmt::format(" and {} of {}", texts.test.size(), c.test_data);
  return all;
}

Examples load_test_text(const RunConfig& c, const DataFacts& facts) {
  return examples_of(load_texts(c).test, c, facts, name_of_text(c, true));
}

}  // namespace ebb::program
