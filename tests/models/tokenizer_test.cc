// SPDX-License-Identifier: MIT
#include "ebb/data/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/pre_tokens.h"
#include "expect_error.h"
#include "golden_file.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

using nlohmann::json;
using Words = std::vector<std::string_view>;

TEST(Tokenizer, EncodesAndDecodesAsHuggingFaceDoes) {
  const json all = json::parse(read_whole(testing::golden_file("tokenized.json")));
  for (const std::string kind : {"gpt2", "llama3"}) {
    const Tokenizer tokenizer = Tokenizer::load(testing::golden_file("tokenizer_" + kind + ".json"));
    EXPECT_EQ(tokenizer.tokens(), 300);
    for (std::size_t k = 0; k < all["texts"].size(); ++k) {
      const auto text = all["texts"][k].get<std::string>();
      const auto expected = all[kind][k].get<std::vector<std::int64_t>>();
      EXPECT_EQ(tokenizer.encode(text, true), expected) << kind << ": " << text;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), true), text);
      EXPECT_EQ(tokenizer.decode(expected, true), "<|begin|>" + text);
    }
    EXPECT_EQ(tokenizer.token("<|end|>"), 1);
    EXPECT_EQ(tokenizer.token("tide"), std::nullopt);
    EXPECT_EQ(tokenizer.decode({0, tokenizer.encode("a")[0], 1}), "a");
    EXPECT_THROW_MESSAGE(tokenizer.decode({5, 300}), "Tokenizer::decode: token[1] = 300 is outside [0, 300)");
  }
}

TEST(Tokenizer, BytesThatAreNotUtf8ComeBack) {
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  bytes += "\xE4\xBD\xF0\x9F\x8C \xC0\xAF\xED\xA0\x80 end\xE4";
  for (const char* kind : {"tokenizer_gpt2.json", "tokenizer_llama3.json"}) {
    const Tokenizer tokenizer = Tokenizer::load(testing::golden_file(kind));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
}

TEST(Tokenizer, SavesTheFileItWasReadFrom) {
  const ScratchFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(testing::golden_file("tokenizer_llama3.json"));
  tokenizer.save(folder / "tokenizer.json");
  EXPECT_EQ(read_whole(folder / "tokenizer.json"), read_whole(testing::golden_file("tokenizer_llama3.json")));
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("the tide"), tokenizer.encode("the tide"));
}

TEST(PreTokens, AreTheMatchesOfTheirPatterns) {
  EXPECT_EQ(pre_tokens("it's 1234  ok!\n\n x", SplitPattern::gpt2),
            (Words{"it", "'s", " 1234", " ", " ok", "!", "\n\n", " x"}));
  EXPECT_EQ(pre_tokens("it'S 1234  ok!\n\n x", SplitPattern::llama3),
            (Words{"it", "'S", " ", "123", "4", " ", " ok", "!\n\n", " x"}));
  EXPECT_EQ(pre_tokens("12(ok", SplitPattern::one_digit), (Words{"1", "2", "(ok"}));
  EXPECT_EQ(pre_tokens(" \n \n  x", SplitPattern::llama3), (Words{" \n \n", " ", " x"}));
  EXPECT_EQ(pre_tokens(" \n \n  x", SplitPattern::gpt2), (Words{" \n \n ", " x"}));
  EXPECT_EQ(pre_tokens("a b", SplitPattern::whole), (Words{"a b"}));
  EXPECT_EQ(pattern_of("[a-z]+"), std::nullopt);
}

TEST(Tokenizer, NeedsOnlyWhatItUses) {
  json all = json::parse(read_whole(testing::golden_file("tokenizer_gpt2.json")));
  const std::vector<std::int64_t> expected = Tokenizer::from_json(all.dump(), "t.json").encode("the tide");
  for (const char* name : {"normalizer", "decoder", "post_processor", "added_tokens"}) all.erase(name);
  EXPECT_EQ(Tokenizer::from_json(all.dump(), "t.json").encode("the tide"), expected);
}

// One message for all features of other kinds of tokenizers.
TEST(Tokenizer, NamesWhatIsNotSupported) {
  const json whole = json::parse(read_whole(testing::golden_file("tokenizer_gpt2.json")));
  const auto changed = [&](const char* pointer, const json& value) {
    json other = whole;
    other[json::json_pointer(pointer)] = value;
    return other.dump();
  };
  const auto expect = [&](const char* pointer, const json& value, const char* message) {
    EXPECT_THROW_MESSAGE(Tokenizer::from_json(changed(pointer, value), "t.json"), message);
  };
  expect("/model/type", "Unigram", "t.json: the model is Unigram; only BPE is supported");
  expect("/model/byte_fallback", true, "t.json: the model has byte_fallback; only byte-level BPE is supported");
  expect("/model/end_of_word_suffix", "</w>", "t.json: the model has end_of_word_suffix \"</w>\", not supported");
  expect("/model/merges/0", "a", "t.json: merge 0 is \"a\", which is not a pair of tokens that make another");
  expect("/model/vocab/zz", -1, "t.json: the number of token 'zz' cannot be -1");
  expect("/model/vocab/zz", 5, "t.json: token 5 is both '");
  expect("/added_tokens/0/id", 1, "t.json: token 1 is both '<|end|>' and '<|begin|>'");
  expect("/normalizer", {{"type", "NFC"}}, "t.json: the normalizer NFC is not supported");
  expect("/pre_tokenizer", {{"type", "Metaspace"}}, "t.json: the pre-tokenizer Metaspace is not supported");
  expect("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "x+"}}}, {"behavior", "Isolated"}},
         "t.json: the pre-tokenizer splits by {\"Regex\":\"x+\"}; only");
  expect("/pre_tokenizer", nullptr, "t.json: there is no pre-tokenizer");
  expect("/post_processor", {{"type", "BertProcessing"}}, "t.json: the post-processor BertProcessing is not supported");
  expect("/decoder", {{"type", "WordPiece"}}, "t.json: the decoder WordPiece is not supported; only ByteLevel is");
  expect("/added_tokens/0/lstrip", true, "t.json: the added token \"<|begin|>\" has lstrip, not supported");
  EXPECT_THROW_MESSAGE(Tokenizer::from_json("{}", "t.json"), "t.json: this is not a tokenizer.json");
  EXPECT_THROW_MESSAGE(Tokenizer::from_json("{", "t.json"), "t.json: its JSON cannot be read");
}

}  // namespace
}  // namespace ebb
