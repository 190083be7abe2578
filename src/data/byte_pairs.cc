// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "core/format_error.h"
#include "data/merge_pairs.h"
#include "ebb/data/text.h"
#include "ebb/ops/create.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/new_file.h"

namespace ebb {
namespace {

constexpr std::size_t kLongestToken = 1 << 16;  // merges of merges double: without a limit 64 of them fill any memory
constexpr const char* kType = "byte-level BPE";

// Words: a run of letters, of digits or of other characters, with the space before it, or a run of blanks. Bytes above
// 127 count as letters, so that no UTF-8 character is divided.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  bool next(std::string_view& word) {
    if (at_ >= text_.size()) return false;
    const std::size_t start = at_;
    if (kind(at_) == blank) {
      while (at_ < text_.size() && kind(at_) == blank) ++at_;
      // The last space belongs to the word that follows.
      if (at_ < text_.size() && text_[at_ - 1] == ' ') --at_;
      if (at_ > start) {
        word = text_.substr(start, at_ - start);
        return true;
      }
      ++at_;
    }
    const Kind run = kind(at_);
    while (at_ < text_.size() && kind(at_) == run) ++at_;
    word = text_.substr(start, at_ - start);
    return true;
  }

 private:
  enum Kind { blank, letter, digit, sign };
  Kind kind(std::size_t i) const {
    const auto c = static_cast<unsigned char>(text_[i]);
    if (c == ' ' || (c >= '\t' && c <= '\r')) return blank;
    if (c >= 128 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return letter;
    return c >= '0' && c <= '9' ? digit : sign;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

std::vector<std::int32_t> bytes_as_tokens(std::string_view word) {
  std::vector<std::int32_t> tokens;
  for (char c : word) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

// Counts pairs in the distinct words and keeps the counts while pairs are merged.
class Trainer {
 public:
  explicit Trainer(std::string_view text) {
    std::map<std::string_view, std::int64_t> counts;
    Words words(text);
    for (std::string_view word; words.next(word);) ++counts[word];
    for (const auto& [word, count] : counts) {
      words_.push_back({bytes_as_tokens(word), count});
      change_pairs(words_.size() - 1, +1);
    }
    for (const auto& [pair, use] : pairs_) heap_.push({use.count, pair});
    touched_.clear();
  }

  // Merges the most frequent pair, if any occurs twice, into `token`.
  bool merge(std::int32_t token, BytePairs::Merge& merged) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      if (pairs_[best.pair].count != best.count) continue;  // counted again since; the heap has a newer entry
      if (best.count < 2) return false;
      merged = {static_cast<std::int32_t>(best.pair >> 32), static_cast<std::int32_t>(best.pair & 0xFFFFFFFF)};
      std::vector<std::size_t> where = std::move(pairs_[best.pair].words);
      std::sort(where.begin(), where.end());
      where.erase(std::unique(where.begin(), where.end()), where.end());
      for (std::size_t word : where) {
        change_pairs(word, -1);
        replace(words_[word].tokens, merged, token);
        change_pairs(word, +1);
      }
      std::sort(touched_.begin(), touched_.end());
      touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
      for (std::uint64_t pair : touched_) {
        const std::int64_t count = pairs_[pair].count;
        if (count > 0) {
          heap_.push({count, pair});
        } else {
          pairs_.erase(pair);
        }
      }
      touched_.clear();
      return true;
    }
    return false;
  }

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t count;
  };
  struct Use {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // all that contain it, possibly some that did
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t pair;
    bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
  };

  void change_pairs(std::size_t index, int sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      const std::uint64_t pair = packed_pair(word.tokens[i], word.tokens[i + 1]);
      Use& use = pairs_[pair];
      use.count += sign * word.count;
      if (sign > 0 && (use.words.empty() || use.words.back() != index)) use.words.push_back(index);
      touched_.push_back(pair);
    }
  }

  static void replace(std::vector<std::int32_t>& tokens, BytePairs::Merge pair, std::int32_t by) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < tokens.size(); ++out) {
      const bool both = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      tokens[out] = both ? by : tokens[i];
      i += both ? 2 : 1;
    }
    tokens.resize(out);
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Use> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<std::uint64_t> touched_;
};

}  // namespace

Tensor read_text(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  return from_bytes(file->bytes().data(), DType::u8, {static_cast<std::int64_t>(file->bytes().size())});
}

BytePairs::BytePairs(std::vector<Merge> merges) : merges_(std::move(merges)) {
  require(merges_.size() <= (std::size_t{1} << 30), "BytePairs: {} merges are too many", merges_.size());
  const auto length = [&](std::int32_t token) {
    return token < 256 ? std::size_t{1} : spelling_[static_cast<std::size_t>(token) - 256].size();
  };
  const auto spelled = [&](std::int32_t token) {
    return token < 256 ? std::string(1, static_cast<char>(token)) : spelling_[static_cast<std::size_t>(token) - 256];
  };
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right] = merges_[i];
    const auto token = static_cast<std::int32_t>(256 + i);
    require(left >= 0 && right >= 0 && left < token && right < token,
            "BytePairs: merge {} of {} and {} makes token {}, which must be made from earlier ones", i, left, right,
            token);
    require(length(left) + length(right) <= kLongestToken, "BytePairs: token {} would have more than {} bytes", token,
            kLongestToken);
    spelling_.push_back(spelled(left) + spelled(right));
    by_pair_.emplace_back(packed_pair(left, right), token);
  }
  std::sort(by_pair_.begin(), by_pair_.end());
  const auto twice = std::adjacent_find(by_pair_.begin(), by_pair_.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  require(twice == by_pair_.end(), "BytePairs: two merges are of the same pair");
}

BytePairs BytePairs::train(std::string_view text, std::int64_t tokens) {
  require(tokens >= 256 && tokens <= (std::int64_t{1} << 30),
          "BytePairs::train: the number of tokens must lie in [256, 2^30], got {}", tokens);
  Trainer trainer(text);
  std::vector<Merge> merges;
  std::vector<std::size_t> lengths(256, 1);
  Merge merge;
  while (static_cast<std::int64_t>(256 + merges.size()) < tokens &&
         trainer.merge(static_cast<std::int32_t>(256 + merges.size()), merge)) {
    const std::size_t length =
        lengths[static_cast<std::size_t>(merge.first)] + lengths[static_cast<std::size_t>(merge.second)];
    if (length > kLongestToken) break;
    lengths.push_back(length);
    merges.push_back(merge);
  }
  return BytePairs(std::move(merges));
}

// Merges in the order they were learnt.
std::vector<std::int64_t> BytePairs::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
  const auto find = [&](std::int32_t left, std::int32_t right) {
    const std::uint64_t pair = packed_pair(left, right);
    const auto found = std::lower_bound(by_pair_.begin(), by_pair_.end(), std::pair(pair, std::int32_t{0}));
    const bool there = found != by_pair_.end() && found->first == pair;
    return there ? PairMerge{found->second, found->second} : PairMerge{-1, -1};
  };
  const auto encode_word = [&](std::string_view word) {
    std::vector<std::int32_t> tokens = bytes_as_tokens(word);
    merge_pairs(tokens, find);
    return tokens;
  };
  Words words(text);
  for (std::string_view word; words.next(word);) {
    auto found = known.find(word);
    if (found == known.end()) found = known.emplace(word, encode_word(word)).first;
    out.insert(out.end(), found->second.begin(), found->second.end());
  }
  return out;
}

std::string BytePairs::decode(const std::vector<std::int64_t>& tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t token = tokens[i];
    require(token >= 0 && token < this->tokens(), Error::Kind::index,
            "BytePairs::decode: token[{}] = {} is outside [0, {})", i, token, this->tokens());
    if (token < 256) {
      text += static_cast<char>(token);
    } else {
      text += spelling_[static_cast<std::size_t>(token - 256)];
    }
  }
  return text;
}

void BytePairs::save(const std::string& path) const {
  const nlohmann::ordered_json json = {{"type", kType}, {"version", 1}, {"merges", merges_}};
  io::NewFile file(path);
  file.write(json.dump() + "\n");
  file.commit();
}

BytePairs BytePairs::load(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const nlohmann::json json = io::parse_json(text, 3, path);
  require(json.is_object() && json.value("type", nlohmann::json()) == kType &&
              json.value("version", nlohmann::json()) == 1 && json.contains("merges") && json["merges"].is_array(),
          Error::Kind::io, "{}: this is not a {} of version 1", path, kType);
  std::vector<Merge> merges;
  for (const auto& item : json["merges"]) {
    const auto token = [&](std::size_t k) {
      const bool fits = item.is_array() && item.size() == 2 && item[k].is_number_unsigned() && item[k] < INT32_MAX;
      require(fits, Error::Kind::io, "{}: merge {} is not a pair of tokens", path, merges.size());
      return item[k].get<std::int32_t>();
    };
    const std::int32_t left = token(0);
    merges.emplace_back(left, token(1));
  }
  try {
    return BytePairs(std::move(merges));
  } catch (const Error& error) {
    fail(Error::Kind::io, "{}: {}", path, error.what());
  }
}

}  // namespace ebb
