// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/buffer.h"
#include "core/device_table.h"
#include "core/size_class.h"
#include "ebb/memory.h"
#include "expect_error.h"

// The pool of a device other than the CPU: what its source refuses, and external memory for its blocks.
namespace ebb {
namespace {

constexpr Device kDevice{Device::Kind::cuda, 9}, kMissing{Device::Kind::cuda, 10};

// Host memory of limited size.
class SmallMemory : public BlockSource {
 public:
  std::byte* allocate(std::size_t bytes) override {
    ++asked;
    if (bytes > room) return nullptr;
    room -= bytes;
    return static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, bytes));
  }
  void free(std::byte* data, std::size_t bytes) noexcept override {
    room += bytes;
    std::free(data);
  }
  std::size_t room = 0;
  int asked = 0;
};

SmallMemory& source() {
  static SmallMemory* const instance = [] {
    auto* made = new SmallMemory;
    set_block_source(kDevice, made);
    return made;
  }();
  return *instance;
}

class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    source().room = 16384;
    source().asked = 0;
  }
  void TearDown() override {
    set_memory_limit(0, kDevice);
    EXPECT_EQ(memory_stats(kDevice).live, 0u);
    release_cached_memory(kDevice);
    EXPECT_EQ(source().room, 16384u);  // every byte was returned
  }
  static BufferPtr allocate(std::size_t bytes) { return BufferPtr::allocate(bytes, "matmul", kDevice); }
};

TEST_F(DeviceMemory, ReleasesCachedBlocksWhenTheSourceHasNoMore) {
  { const BufferPtr a = allocate(8192), b = allocate(4096); }
  EXPECT_EQ(memory_stats(kDevice).cached, 12288u);
  const BufferPtr c = allocate(16384);  // the source refuses it first
  EXPECT_EQ(source().asked, 4);
  EXPECT_EQ(memory_stats(kDevice).cached, 0u);
  EXPECT_EQ(memory_stats(kDevice).live, 16384u);
}

TEST_F(DeviceMemory, RefusalsNameTheDeviceAndLeaveThePoolUsable) {
  const BufferPtr a = allocate(8192);
  EXPECT_THROW_KIND(allocate(16384), memory,
                    "evaluating matmul: needs 16384 bytes on cuda:9, 8192 are live and the system has no more memory");
  EXPECT_EQ(memory_stats(kDevice).live, 8192u);
  EXPECT_EQ(memory_stats(kDevice).cached, 0u);
  const BufferPtr b = allocate(8192);
  set_memory_limit(16384, kDevice);
  EXPECT_THROW_KIND(allocate(1), memory, "needs 128 bytes on cuda:9, 16384 are live of the limit 16384");
  EXPECT_THROW_KIND(allocate(SIZE_MAX), memory, "on cuda:9");
}

TEST_F(DeviceMemory, DoesNotExistForADeviceWithoutASource) {
  EXPECT_EQ(block_source(kMissing), nullptr);
  EXPECT_THROW_KIND(BufferPtr::allocate(1, "zeros", kMissing), value, "there is no cuda:10 on this machine");
  EXPECT_THROW_KIND(memory_stats(kMissing), value, "there is no cuda:10");
  EXPECT_EQ(block_source(kDevice), &source());
  SmallMemory second;
  EXPECT_THROW_MESSAGE(set_block_source(kDevice, &second), "internal: cuda:9 has memory already");
}

TEST_F(DeviceMemory, OfAnArenaStaysThereUntilItIsDestroyed) {
  std::byte* first = nullptr;
  {
    Arena arena(kDevice);
    {
      const Arena::Use use(arena);
      BufferPtr a = allocate(5000), b = allocate(100);
      first = a.data();
      EXPECT_EQ(arena.bytes(), 0u);
      a = BufferPtr();
      b = BufferPtr();
      EXPECT_EQ(arena.bytes(), 5120u + 128u);
      EXPECT_EQ(memory_stats(kDevice).live, 5120u + 128u);  // unavailable to others
      EXPECT_EQ(allocate(5010).data(), first);
      EXPECT_THROW_KIND(allocate(SIZE_MAX), memory, "cuda:9");
      { const BufferPtr other = allocate(2000); }  // of a size that the arena does not have yet
      EXPECT_EQ(source().asked, 3);
    }
    EXPECT_NE(allocate(5000).data(), first);  // outside of the scope
  }
  EXPECT_EQ(memory_stats(kDevice).live, 0u);
}

TEST_F(DeviceMemory, OfTheHostHasNoPartInAnArena) {
  Arena arena(kDevice);
  const Arena::Use use(arena);
  { const BufferPtr host = BufferPtr::allocate(5000); }
  EXPECT_EQ(arena.bytes(), 0u);
}

// Memory that the owner of a stream supplies.
struct Supplied : StreamMemory {
  void* allocate(std::size_t bytes) override {
    if (bytes > 1000) return nullptr;
    given.push_back(std::malloc(bytes));
    return given.back();
  }
  void free(void* data) noexcept override {
    ++freed;
    std::free(data);
  }
  std::vector<void*> given;
  int freed = 0;
};

TEST_F(DeviceMemory, ComesFromTheOwnerOfTheThreadsStream) {
  const auto outer = std::make_shared<Supplied>(), inner = std::make_shared<Supplied>();
  BufferPtr pooled = allocate(700), kept;
  {
    const ThreadMemory scope(kDevice, outer);
    const BufferPtr a = allocate(700);
    EXPECT_EQ(static_cast<void*>(a.data()), outer->given.at(0));
    EXPECT_EQ(a.device(), kDevice);
    EXPECT_FALSE(a.get()->lent);
    {
      const ThreadMemory scope_within(kDevice, inner);
      kept = allocate(10);
      EXPECT_EQ(inner->given.size(), 1u);
    }
    EXPECT_THROW_KIND(allocate(1001), memory,
                      "evaluating matmul: needs 1001 bytes on cuda:9, and the owner of the stream has no more memory");
    EXPECT_EQ(memory_stats(kDevice).live, 768u);
    pooled = BufferPtr();  // waits for the end of the scope
    EXPECT_EQ(memory_stats(kDevice).live, 768u);
  }
  EXPECT_EQ(memory_stats(kDevice).live, 0u);
  EXPECT_EQ(outer->freed, 1);
  EXPECT_EQ(inner->freed, 0);
  kept = BufferPtr();
  EXPECT_EQ(inner->freed, 1);
}

}  // namespace
}  // namespace ebb
