// SPDX-License-Identifier: MIT
#include "data/pre_tokens.h"

#include <array>
#include <cstddef>

#include "data/unicode_classes.h"

namespace ebb {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Kind { space, letter, number, sign, end };

struct Character {
  char32_t code;
  std::size_t end;  // of its bytes
  Kind kind;
};

constexpr char32_t kNotUtf8 = 0xFFFFFFFF;

// The character at `at`. Overlong forms, surrogates and truncated sequences are single bytes without a meaning.
Character decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[at + k]); };
  char32_t code = byte(0);
  std::size_t more = code < 0x80 ? 0 : code >= 0xC2 && code < 0xE0 ? 1 : code >= 0xE0 && code < 0xF0 ? 2 : 3;
  if (more == 3 && (code < 0xF0 || code > 0xF4)) return {kNotUtf8, at + 1, Kind::sign};
  if (at + more >= text.size()) return {kNotUtf8, at + 1, Kind::sign};
  if (more > 0) code &= 0x3FU >> more;
  for (std::size_t k = 1; k <= more; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return {kNotUtf8, at + 1, Kind::sign};
    code = code << 6 | (byte(k) & 0x3F);
  }
  constexpr std::array<char32_t, 4> least{0, 0x80, 0x800, 0x10000};
  if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {kNotUtf8, at + 1, Kind::sign};
  const Kind kind = is_letter(code)   ? Kind::letter
                    : is_number(code) ? Kind::number
                    : is_space(code)  ? Kind::space
                                      : Kind::sign;
  return {code, at + more + 1, kind};
}

class Splitter {
 public:
  Splitter(std::string_view text, SplitPattern pattern) : text_(text), pattern_(pattern) {}

  // End of the match that begins at this byte.
  std::size_t match(std::size_t at) const {
    const bool gpt2 = pattern_ == SplitPattern::gpt2;
    const Character first = here(at);
    if (const std::size_t end = contraction(at)) return end;
    const std::size_t after = first.code == U' ' ? first.end : at;  // the space belongs to the word
    const std::size_t word = gpt2 ? after : joins_word(first) ? first.end : at;
    if (here(word).kind == Kind::letter) return run(word, Kind::letter);
    if (gpt2 && here(after).kind == Kind::number) return run(after, Kind::number);
    if (first.kind == Kind::number) return run(at, Kind::number, pattern_ == SplitPattern::one_digit ? 1 : 3);
    if (here(after).kind == Kind::sign) {
      std::size_t end = run(after, Kind::sign);
      while (!gpt2 && is_line_end(here(end))) ++end;
      return end;
    }
    std::size_t end = at, last = at, line = at;  // of the blanks; start of the last one; after the last line end
    for (Character c = first; c.kind == Kind::space; c = here(end)) {
      last = end;
      end = c.end;
      if (is_line_end(c)) line = end;
    }
    if (!gpt2 && line > at) return line;
    return end < text_.size() && last > at ? last : end;  // the last blank before a word belongs to it
  }

 private:
  Character here(std::size_t at) const {
    return at < text_.size() ? decode(text_, at) : Character{kNotUtf8, at, Kind::end};
  }
  static bool is_line_end(const Character& c) { return c.code == U'\r' || c.code == U'\n'; }
  static bool joins_word(const Character& c) {
    return (c.kind == Kind::space || c.kind == Kind::sign) && !is_line_end(c);
  }

  std::size_t run(std::size_t at, Kind kind, int most = -1) const {
    for (Character c = here(at); c.kind == kind && most != 0; c = here(at), --most) at = c.end;
    return at;
  }

  // 's 't 're 've 'm 'll 'd: its end, or 0. Case is ignored except for GPT-2; ſ is an s.
  std::size_t contraction(std::size_t at) const {
    if (text_[at] != '\'') return 0;
    const auto letter = [&](const Character& c) -> char32_t {
      if (pattern_ == SplitPattern::gpt2) return c.code;
      return c.code >= U'A' && c.code <= U'Z' ? c.code + 32 : c.code == 0x17F ? U's' : c.code;
    };
    const Character first = here(at + 1), second = here(first.end);
    const char32_t a = letter(first), b = letter(second);
    if (a == U's' || a == U't' || a == U'm' || a == U'd') return first.end;
    return (a == U'r' && b == U'e') || (a == U'v' && b == U'e') || (a == U'l' && b == U'l') ? second.end : 0;
  }

  std::string_view text_;
  SplitPattern pattern_;
};

}  // namespace

std::optional<SplitPattern> pattern_of(std::string_view regex) {
  if (regex == kGpt2) return SplitPattern::gpt2;
  if (regex == kLlama3) return SplitPattern::llama3;
  if (regex == kOneDigit) return SplitPattern::one_digit;
  return {};
}

std::vector<std::string_view> pre_tokens(std::string_view text, SplitPattern pattern) {
  if (pattern == SplitPattern::whole) return text.empty() ? std::vector<std::string_view>() : std::vector{text};
  const Splitter splitter(text, pattern);
  std::vector<std::string_view> words;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = splitter.match(at);
    words.push_back(text.substr(at, end - at));
  }
  return words;
}

}  // namespace ebb
