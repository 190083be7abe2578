// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

Tensor read_text(const std::string& path);  // a file's bytes, u8 [n]

// Byte-pair encoding (Sennrich, Haddow, Birch 2016) over bytes: tokens 0 to 255 are the bytes, each later one is the
// merge of two earlier ones. Any text can be encoded, and decoding restores it byte for byte. Merges do not cross word
// boundaries; a word includes the space before it.
class BytePairs {
 public:
  using Merge = std::pair<std::int32_t, std::int32_t>;

  BytePairs() = default;  // bytes only
  explicit BytePairs(std::vector<Merge> merges);
  // The most frequent pairs of the text, until there are `tokens` tokens or no pair occurs twice. Ties are broken in
  // favour of smaller token numbers, so training is reproducible.
  static BytePairs train(std::string_view text, std::int64_t tokens);
  static BytePairs load(const std::string& path);  // JSON
  void save(const std::string& path) const;

  std::int64_t tokens() const { return 256 + static_cast<std::int64_t>(merges_.size()); }
  const std::vector<Merge>& merges() const { return merges_; }
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(const std::vector<std::int64_t>& tokens) const;

 private:
  std::vector<Merge> merges_;
  std::vector<std::string> spelling_;                            // of the merged tokens
  std::vector<std::pair<std::uint64_t, std::int32_t>> by_pair_;  // sorted: both tokens in one number, what they become
};

}  // namespace ebb
