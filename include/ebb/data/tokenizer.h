// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

// A byte-level byte-pair tokenizer from Hugging Face's tokenizer.json, as GPT-2, Llama 3 and their kin have it. A text
// is divided at the added tokens it contains, each part into words by the pre-tokenizer's pattern, and inside a word
// pairs are merged in the order of their ranks. Other kinds of tokenizers are an Error that names what is not
// supported.
class Tokenizer {
 public:
  static Tokenizer load(const std::string& path);  // tokenizer.json, or a folder that holds it
  static Tokenizer from_json(std::string_view json, const std::string& where);
  void save(const std::string& path) const;  // the file it was read from
  const std::string& json() const;

  std::int64_t tokens() const;  // all are below this number
  // Tokens that the tokenizer adds around a text, such as <|begin_of_text|>, are left out unless asked for.
  std::vector<std::int64_t> encode(std::string_view text, bool special_tokens = false) const;
  // The bytes of tokens; a character may be divided between two. Special tokens are left out unless asked for.
  std::string decode(const std::vector<std::int64_t>& tokens, bool special_tokens = false) const;
  std::optional<std::int64_t> token(const std::string& content) const;  // the number of an added token

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace ebb
