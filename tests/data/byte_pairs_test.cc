// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

using Numbers = std::vector<std::int64_t>;

const std::string kText =
    "low low low low low lower lower newest newest newest newest newest newest widest widest widest. "
    "Größe und Größe: 2024, 2025; 你好 你好\n\n  indented\ttabs\r\n";

TEST(BytePairs, AnyTextComesBackByteForByte) {
  const BytePairs bytes, pairs = BytePairs::train(kText, 300);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& text : {kText, all, std::string(), std::string("   "), std::string(5000, 'w'), all + all}) {
    EXPECT_EQ(bytes.decode(bytes.encode(text)), text);
    EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
    EXPECT_EQ(bytes.encode(text).size(), text.size());
  }
  EXPECT_LT(pairs.encode(kText).size(), kText.size() / 2);
}

TEST(BytePairs, LearnsTheMostFrequentPairsFirst) {
  // "aab" four times, each with its space: the pairs a·a, a·b and space·a occur 4, 4 and 3 times.
  const BytePairs pairs = BytePairs::train("aab aab aab aab", 258);
  EXPECT_EQ(pairs.merges(), (std::vector<BytePairs::Merge>{{'a', 'a'}, {256, 'b'}}));
  EXPECT_EQ(pairs.tokens(), 258);
  EXPECT_EQ(pairs.encode("aab aaab"), (Numbers{257, ' ', 256, 'a', 'b'}));
}

TEST(BytePairs, StopsWhenNoPairOccursTwice) {
  EXPECT_EQ(BytePairs::train("abc", 1000).tokens(), 256);
  EXPECT_EQ(BytePairs::train("", 1000).tokens(), 256);
}

TEST(BytePairs, TrainingCountsAsCountingAgainWould) {
  // After each merge: is the pair that was taken really the most frequent of the text encoded so far?
  const std::string text = "banana bandana ananas banana cabana bandana band an ana nana aaaa aaa aa";
  const BytePairs pairs = BytePairs::train(text, 280);
  ASSERT_GT(pairs.merges().size(), 5u);
  std::vector<BytePairs::Merge> so_far;
  for (const BytePairs::Merge& taken : pairs.merges()) {
    const BytePairs before(so_far);
    std::map<BytePairs::Merge, int> counts;
    for (std::size_t start = 0; start < text.size();) {  // words with the space before them
      const std::size_t end = std::min(text.find(' ', start + 1), text.size());
      const Numbers word = before.encode(text.substr(start, end - start));
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
      start = end;
    }
    int most = 0;
    for (const auto& [pair, count] : counts) most = std::max(most, count);
    EXPECT_EQ(counts[taken], most);
    so_far.push_back(taken);
  }
}

TEST(BytePairs, SavedAndLoadedAreTheSame) {
  const ScratchFolder folder;
  const BytePairs pairs = BytePairs::train(kText, 290);
  pairs.save(folder / "tokens.json");
  const BytePairs back = BytePairs::load(folder / "tokens.json");
  EXPECT_EQ(back.merges(), pairs.merges());
  EXPECT_EQ(back.encode(kText), pairs.encode(kText));
}

TEST(BytePairs, ErrorsSayWhatIsWrong) {
  const ScratchFolder folder;
  const std::string path = folder / "tokens.json";
  const auto with = [&](const std::string& merges) {
    write_whole(path, R"({"type":"byte-level BPE","version":1,"merges":)" + merges + "}");
  };
  with("[[1,2],[1,2]]");
  EXPECT_THROW_KIND(BytePairs::load(path), io, path + ": BytePairs: two merges are of the same pair");
  with("[[1,256]]");
  EXPECT_THROW_KIND(BytePairs::load(path), io,
                    "merge 0 of 1 and 256 makes token 256, which must be made from earlier ones");
  with("[[1,-2]]");
  EXPECT_THROW_KIND(BytePairs::load(path), io, "merge 0 is not a pair of tokens");
  std::string doubling = "[[1,1]";
  for (int i = 256; i < 320; ++i) doubling += ",[" + std::to_string(i) + "," + std::to_string(i) + "]";
  with(doubling + "]");
  EXPECT_THROW_KIND(BytePairs::load(path), io, "would have more than 65536 bytes");
  write_whole(path, "{}");
  EXPECT_THROW_KIND(BytePairs::load(path), io, "this is not a byte-level BPE of version 1");
  EXPECT_THROW_KIND(BytePairs().decode({65, 256}), index, "token[1] = 256 is outside [0, 256)");
  EXPECT_THROW_MESSAGE(BytePairs::train("", 255), "must lie in [256, 2^30], got 255");
}

TEST(Text, IsItsBytes) {
  const ScratchFolder folder;
  write_whole(folder / "a.txt", "h\xc3\xa9");
  EXPECT_EQ(read_text(folder / "a.txt").to_vector<std::int64_t>(), (Numbers{'h', 0xc3, 0xa9}));
  write_whole(folder / "a.txt", "");
  EXPECT_EQ(read_text(folder / "a.txt").shape(), Shape({0}));
}

}  // namespace
}  // namespace ebb
