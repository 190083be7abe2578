// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string_view>
#include <vector>

// How byte-level tokenizers divide a text into words, within which pairs are merged. Each pattern yields the successive
// matches of its regular expression; together they cover the text.
namespace ebb {

enum class SplitPattern {
  gpt2,       // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama3,     // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
              // \s*[\r\n]+|\s+(?!\S)|\s+
  one_digit,  // the same with \p{N} instead of \p{N}{1,3}
  whole,      // no division
};
// The pattern with this regular expression.
std::optional<SplitPattern> pattern_of(std::string_view regex);

// The words of a text, in order. Bytes that are not UTF-8 are characters of their own.
std::vector<std::string_view> pre_tokens(std::string_view text, SplitPattern pattern);

}  // namespace ebb
