// SPDX-License-Identifier: MIT
#include "comm/tree.h"

#include <gtest/gtest.h>

#include <string>

namespace ebb::comm {
namespace {

const auto in_words = [](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; };
using WordTree = Tree<std::string, decltype(in_words)>;

std::string sum_by(int shards, int ranks) {
  WordTree all(in_words);
  for (int r = 0; r < ranks; ++r) {
    const int first = first_shard(shards, ranks, r), last = first_shard(shards, ranks, r + 1);
    WordTree own(in_words);
    for (int s = first; s < last; ++s) own.put({s, 1}, std::to_string(s));
    const std::vector<Block> expected = blocks_of(first, last);
    EXPECT_EQ(own.blocks().size(), expected.size());
    for (std::size_t b = 0; b < own.blocks().size(); ++b) {
      EXPECT_EQ(own.blocks()[b].first, expected[b]);
      all.put(own.blocks()[b].first, own.blocks()[b].second);
    }
  }
  return all.total();
}

TEST(Tree, AddsNeighboursInPairs) {
  EXPECT_EQ(sum_by(1, 1), "0");
  EXPECT_EQ(sum_by(4, 1), "((0+1)+(2+3))");
  EXPECT_EQ(sum_by(6, 1), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(sum_by(7, 1), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(Tree, TheNumberOfRanksChangesNoAddition) {
  for (int shards = 1; shards <= 33; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks)
      EXPECT_EQ(sum_by(shards, ranks), sum_by(shards, 1)) << shards << " by " << ranks;
  }
}

}  // namespace
}  // namespace ebb::comm
