// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

// Sums in one order, for any number of ranks.
//
// Shards 0 .. n−1 are the leaves of a binary tree: neighbours are added in pairs, pairs of pairs, and so on, wherever
// both halves are complete; what is left over at the end (n is not a power of two) is added from right to left. A
// *block* is a node of that tree: 2^k shards from a multiple of 2^k. A rank with shards [first, last) adds those inside
// each of its blocks; a rank that has the blocks of all ranks adds the rest. No addition depends on where ranks begin.
namespace ebb::comm {

struct Block {
  int first = 0, size = 1;
  bool operator==(const Block&) const = default;
};

// The largest blocks that make up [first, last).
inline std::vector<Block> blocks_of(int first, int last) {
  std::vector<Block> blocks;
  while (first < last) {
    int size = 1;
    while (first % (2 * size) == 0 && first + 2 * size <= last) size *= 2;
    blocks.push_back({first, size});
    first += size;
  }
  return blocks;
}

// Adds neighbouring blocks that are halves of a larger one, from left to right; `add` makes a sum of two.
template <class Value, class Add>
class Tree {
 public:
  explicit Tree(Add add) : add_(std::forward<Add>(add)) {}

  void put(Block block, Value value) {
    while (!done_.empty()) {
      const Block& before = done_.back().first;
      if (before.size != block.size || before.first % (2 * block.size) != 0) break;
      value = add_(done_.back().second, value);
      block = {before.first, 2 * block.size};
      done_.pop_back();
    }
    done_.emplace_back(block, std::move(value));
  }

  // The current blocks of a rank.
  std::vector<std::pair<Block, Value>>& blocks() { return done_; }

  // The sum of all shards, once the last one has been added.
  Value total() {
    Value sum = std::move(done_.back().second);
    for (std::size_t k = done_.size() - 1; k-- > 0;) sum = add_(done_[k].second, sum);
    done_.clear();
    return sum;
  }

 private:
  Add add_;
  std::vector<std::pair<Block, Value>> done_;
};

// The first shard of a rank; shards are distributed as evenly as possible.
constexpr int first_shard(int shards, int ranks, int rank) {
  return static_cast<int>(static_cast<long long>(shards) * rank / ranks);
}

}  // namespace ebb::comm
