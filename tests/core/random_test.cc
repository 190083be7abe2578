// SPDX-License-Identifier: MIT
#include "core/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>

#include "ebb/random.h"

namespace ebb {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words block_of(std::uint64_t seed, std::uint64_t operation, std::uint64_t block) {
  Words words{};
  philox_block(seed, operation, block, words.data());
  return words;
}

// The known answers published by Random123 for philox4x32-10: they fix the numbers on every machine, forever.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(block_of(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(block_of(ones, ones, ones), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: the digits of pi
  EXPECT_EQ(block_of(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DependsOnEveryBitOfItsThreeNumbers) {
  std::set<Words> seen{block_of(0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    EXPECT_TRUE(seen.insert(block_of(one, 0, 0)).second);
    EXPECT_TRUE(seen.insert(block_of(0, one, 0)).second);
    EXPECT_TRUE(seen.insert(block_of(0, 0, one)).second);
  }
}

TEST(RandomState, IsSetByManualSeed) {
  random_state().next_operation = 17;
  manual_seed(42);
  EXPECT_EQ(random_state().seed, 42u);
  EXPECT_EQ(random_state().next_operation, 0u);
}

TEST(RandomState, BelongsToTheThread) {
  manual_seed(42);
  std::uint64_t first = 42, second = 42;
  std::thread([&] { first = random_state().seed; }).join();
  std::thread([&] {
    second = random_state().seed;
    manual_seed(7);
  }).join();
  EXPECT_NE(first, second);  // unseeded threads do not repeat each other
  EXPECT_EQ(random_state().seed, 42u);
}

}  // namespace
}  // namespace ebb
