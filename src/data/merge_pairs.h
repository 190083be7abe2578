// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <queue>
#include <vector>

namespace ebb {

// Both tokens of a pair in one number.
inline std::uint64_t packed_pair(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

struct PairMerge {
  std::int32_t rank, token;  // lower ranks are merged first; the token that replaces the pair
};

// Merges neighbouring pairs in order of rank, from the left among equals. find(left, right) returns the merge of a
// pair, with a rank of −1 if there is none. Candidates are kept in a heap, so a long word does not take quadratic
// time.
template <class Find>
void merge_pairs(std::vector<std::int32_t>& tokens, const Find& find) {
  struct Candidate {
    PairMerge merge;
    std::size_t at;
    std::int32_t left, right;
    bool operator<(const Candidate& o) const {
      return merge.rank != o.merge.rank ? merge.rank > o.merge.rank : at > o.at;
    }
  };
  const std::size_t n = tokens.size();
  std::vector<std::size_t> next(n), before(n);
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    before[i] = i - 1;  // of the first one: past the end, like the next of the last
  }
  std::priority_queue<Candidate> heap;
  const auto consider = [&](std::size_t i) {
    if (i >= n || next[i] >= n) return;
    const PairMerge merge = find(tokens[i], tokens[next[i]]);
    if (merge.rank >= 0) heap.push({merge, i, tokens[i], tokens[next[i]]});
  };
  for (std::size_t i = 0; i < n; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate c = heap.top();
    heap.pop();
    if (tokens[c.at] != c.left || next[c.at] >= n || tokens[next[c.at]] != c.right) continue;  // merged meanwhile
    const std::size_t gone = next[c.at];
    tokens[c.at] = c.merge.token;
    tokens[gone] = -1;
    next[c.at] = next[gone];
    if (next[c.at] < n) before[next[c.at]] = c.at;
    consider(c.at);
    consider(before[c.at]);
  }
  std::erase(tokens, -1);
}

}  // namespace ebb
