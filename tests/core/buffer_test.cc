// SPDX-License-Identifier: MIT
#include "core/buffer.h"

#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/size_class.h"
#include "ebb/memory.h"
#include "expect_error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ebb {
namespace {

// Each test starts with an empty cache and leaves no limit behind.
class Pool : public testing::Test {
 protected:
  void SetUp() override {
    set_memory_limit(0);
    release_cached_memory();
    reset_peak_memory();
    before_ = memory_stats();
  }
  void TearDown() override {
    set_memory_limit(0);
    EXPECT_EQ(memory_stats().live, before_.live);
    release_cached_memory();
    EXPECT_EQ(memory_stats().cached, 0u);
  }
  std::size_t live() const { return memory_stats().live - before_.live; }
  std::size_t peak() const { return memory_stats().peak - before_.live; }

 private:
  MemoryStats before_;
};

TEST(SizeClass, HoldsTheRequestAndWastesAtMostAnEighth) {
  std::vector<std::size_t> sizes;
  for (std::size_t n = 0; n < 5000; ++n) sizes.push_back(n);
  for (int e = 10; e <= 46; ++e) {
    for (std::size_t step = 0; step < 8; ++step) {
      const std::size_t edge = (std::size_t{1} << e) + (step << (e - 3));
      for (std::size_t n : {edge - 1, edge, edge + 1}) {
        if (n <= kLargestBlock) sizes.push_back(n);
      }
    }
  }
  for (std::size_t n : sizes) {
    const SizeClass c = size_class_of(n);
    ASSERT_GE(c.bytes, n);
    ASSERT_EQ(c.bytes % kBlockAlignment, 0u);
    ASSERT_GE(c.index, 0);
    ASSERT_LT(c.index, kSizeClassCount);
    ASSERT_LE(c.bytes - n, std::max(kBlockAlignment, n / 8)) << n;
    ASSERT_EQ(size_class_of(c.bytes).index, c.index) << n;  // a class is its own class
  }
}

TEST(SizeClass, HasASizeOfItsOwn) {
  std::size_t bytes = 0;
  for (int i = 0; i < kSizeClassCount; ++i) {
    const SizeClass c = size_class_of(bytes + 1);
    ASSERT_EQ(c.index, i);
    ASSERT_GT(c.bytes, bytes);
    bytes = c.bytes;
  }
  EXPECT_EQ(bytes, kLargestBlock);
}

TEST_F(Pool, GivesAlignedMemoryThatCanBeWritten) {
  for (std::size_t bytes : {0, 1, 127, 128, 129, 4096, 100'000, 4 << 20, 9'000'001}) {
    const BufferPtr p = BufferPtr::allocate(bytes);
    ASSERT_NE(p.data(), nullptr);
    EXPECT_EQ(p.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.data()) % 128, 0u);
    if (bytes >= std::size_t{4} << 20) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.data()) % (2 << 20), 0u);
    }
    std::memset(p.data(), 1, bytes);
  }
}

TEST_F(Pool, ReusesABlockOfTheSameClass) {
  std::byte* const first = BufferPtr::allocate(5000).data();
  EXPECT_EQ(BufferPtr::allocate(5010).data(), first);
  EXPECT_EQ(memory_stats().cached, 5120u);
  EXPECT_NE(BufferPtr::allocate(10'000).data(), first);
}

TEST_F(Pool, CountsLiveAndPeakAndCachedBytes) {
  {
    const BufferPtr a = BufferPtr::allocate(1000), b = BufferPtr::allocate(100'000);
    EXPECT_EQ(live(), 1024u + size_class_of(100'000).bytes);
    EXPECT_EQ(memory_stats().cached, 0u);
  }
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(memory_stats().cached, 1024u + size_class_of(100'000).bytes);
  EXPECT_EQ(peak(), 1024u + size_class_of(100'000).bytes);
  reset_peak_memory();
  EXPECT_EQ(peak(), 0u);
  const BufferPtr c = BufferPtr::allocate(1000);
  EXPECT_EQ(peak(), 1024u);
  EXPECT_EQ(memory_stats().cached, size_class_of(100'000).bytes);
  release_cached_memory();
  EXPECT_EQ(memory_stats().cached, 0u);
  EXPECT_EQ(live(), 1024u);
}

TEST_F(Pool, CountsReferences) {
  BufferPtr a = BufferPtr::allocate(64);
  EXPECT_TRUE(a.unique());
  BufferPtr b = a;
  EXPECT_FALSE(a.unique());
  EXPECT_EQ(a.data(), b.data());
  BufferPtr c = std::move(b);
  EXPECT_FALSE(b);
  c = BufferPtr();
  EXPECT_TRUE(a.unique());
  a = *&a;
  EXPECT_TRUE(a.unique());
  EXPECT_EQ(live(), 128u);
}

TEST_F(Pool, RefusesWhatTheLimitDoesNotAllowAndNamesTheFigures) {
  const std::size_t others = memory_stats().live;
  const BufferPtr a = BufferPtr::allocate(1024);
  set_memory_limit(others + 4096);
  EXPECT_EQ(memory_stats().limit, others + 4096);
  EXPECT_THROW_KIND(BufferPtr::allocate(4000, "matmul"), memory,
                    "evaluating matmul: needs 4096 bytes, " + std::to_string(others + 1024) +
                        " are live of the limit " + std::to_string(others + 4096));
  EXPECT_EQ(live(), 1024u);
  EXPECT_EQ(peak(), 1024u);  // rejected requests never count as live
  const BufferPtr b = BufferPtr::allocate(3072);
  EXPECT_EQ(live(), 4096u);
  EXPECT_THROW(BufferPtr::allocate(1), Error);
  set_memory_limit(0);
  EXPECT_NO_THROW(BufferPtr::allocate(1));
}

TEST_F(Pool, GivesUpCachedBlocksBeforeItRefuses) {
  const std::size_t others = memory_stats().live;
  set_memory_limit(others + 8192);
  { const BufferPtr a = BufferPtr::allocate(4096), b = BufferPtr::allocate(2048); }
  EXPECT_EQ(memory_stats().cached, 6144u);
  const BufferPtr c = BufferPtr::allocate(8192);  // fits only without the cached ones
  EXPECT_EQ(memory_stats().cached, 0u);
  EXPECT_EQ(live(), 8192u);
}

TEST_F(Pool, ALowerLimitTakesCachedBlocksAtOnceAndHoldsForReusedOnes) {
  const std::size_t others = memory_stats().live;
  { const BufferPtr a = BufferPtr::allocate(8192); }
  set_memory_limit(others + 4096);
  EXPECT_EQ(memory_stats().cached, 0u);
  EXPECT_THROW(BufferPtr::allocate(8192), Error);
}

TEST_F(Pool, SaysSoWhenTheSystemHasNoMore) {
  EXPECT_THROW_KIND(BufferPtr::allocate(std::size_t{1} << 62, "zeros"), memory,
                    "evaluating zeros: needs 4611686018427387904 bytes");
  EXPECT_THROW_KIND(BufferPtr::allocate(SIZE_MAX), memory, "the system has no more memory");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose allocators end the program instead
  // Some systems promise any amount; a process limit makes this one refuse reliably.
  rlimit before{}, small{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  small = before;
  small.rlim_cur = rlim_t{1} << 36;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  EXPECT_THROW_KIND(BufferPtr::allocate(kLargestBlock), memory, "the system has no more memory");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
#endif
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(peak(), 0u);
  EXPECT_EQ(memory_stats().cached, 0u);
}

TEST_F(Pool, ReleasesForeignMemoryOnceWithTheLastReference) {
  int released = 0;
  float numbers[4] = {};
  {
    const BufferPtr a = BufferPtr::wrap(numbers, sizeof numbers, [&] { ++released; });
    const BufferPtr b = a;
    EXPECT_EQ(static_cast<void*>(b.data()), numbers);
    EXPECT_EQ(b.bytes(), sizeof numbers);
    EXPECT_EQ(live(), 0u);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  { const BufferPtr c = BufferPtr::wrap(numbers, sizeof numbers, {}); }  // nothing to call is fine
  EXPECT_EQ(memory_stats().cached, 0u);
}

// Sizes that keep changing must not leave a heap of blocks that are never requested again.
TEST_F(Pool, DoesNotKeepFarMoreThanWasEverLive) {
  for (std::size_t mb = 16; mb <= 512; mb += 16) BufferPtr::allocate(mb << 20);
  EXPECT_LE(memory_stats().cached, 2 * memory_stats().peak + (std::size_t{1} << 30));
  EXPECT_LE(memory_stats().cached, std::size_t{1536} << 20);
}

TEST_F(Pool, StaysRightUnderManyThreads) {
  auto work = [](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<BufferPtr> held(16);
    for (int i = 0; i < 4000; ++i) {
      BufferPtr& slot = held[random() % held.size()];
      slot = BufferPtr::allocate(1 + random() % 3000);
      std::memset(slot.data(), static_cast<int>(seed), slot.bytes());
      const BufferPtr& other = held[random() % held.size()];
      if (other) {
        EXPECT_EQ(static_cast<unsigned>(other.data()[other.bytes() - 1]), seed);  // not overwritten by others
      }
      if (i % 1000 == 999) release_cached_memory();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(live(), 0u);
}

TEST_F(Pool, MovesBlocksBetweenThreads) {
  BufferPtr p;
  std::thread([&] { p = BufferPtr::allocate(777); }).join();
  std::byte* const data = p.data();
  p = BufferPtr();
  EXPECT_EQ(BufferPtr::allocate(777).data(), data);
}

#if defined(__SANITIZE_ADDRESS__)
TEST_F(Pool, PoisonsCachedBlocksAndTheSlackOfLiveOnes) {
  BufferPtr p = BufferPtr::allocate(1000);
  std::byte* const data = p.data();
  EXPECT_FALSE(__asan_address_is_poisoned(data + 999));
  EXPECT_TRUE(__asan_address_is_poisoned(data + 1000));
  p = BufferPtr();
  EXPECT_TRUE(__asan_address_is_poisoned(data));
}
#endif

// A buffer that outlives main returns its memory to a pool that still exists.
BufferPtr outlives_main = BufferPtr::allocate(100);

}  // namespace
}  // namespace ebb
