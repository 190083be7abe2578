// SPDX-License-Identifier: MIT
#include "core/buffer.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

#include "core/device_table.h"
#include "core/format_error.h"
#include "core/size_class.h"
#include "ebb/memory.h"

namespace ebb {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Freed blocks beyond this, and beyond twice the most that was ever live, have sizes that are no longer requested.
constexpr std::size_t kCacheAllowance = std::size_t{256} << 20;

struct Block : Buffer {
  SizeClass size_class;
  Block* next = nullptr;  // in the list of its class, while it is cached
};

class SpinLock {
 public:
  void lock() {
    while (flag_.exchange(true, std::memory_order_acquire)) {
      while (flag_.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

// Which of its class's blocks a thread reuses first.
constexpr std::size_t kThreadPlaces = 16;
std::size_t thread_place() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t place = threads.fetch_add(1, std::memory_order_relaxed) % kThreadPlaces;
  return place;
}

// The cached blocks of one class. A thread gets back the block that it freed last, which is in its core's cache, with
// one exchange: in a loop where each task needs memory, blocks would otherwise move from core to core. All others are
// in a list, with one lock per class that is held for a few instructions: threads contend only when they use the same
// size at the same moment.
class alignas(64) FreeList {
 public:
  void push(Block* block) {
    std::atomic<Block*>& mine = last_[thread_place()];
    Block* none = nullptr;
    block->next = nullptr;
    if (!mine.load(std::memory_order_relaxed) &&
        mine.compare_exchange_strong(none, block, std::memory_order_release, std::memory_order_relaxed)) {
      return;
    }
    std::lock_guard guard(lock_);
    block->next = head_;
    head_ = block;
  }
  Block* pop() {
    const std::size_t mine = thread_place();
    if (Block* block = take(mine)) return block;
    {
      std::lock_guard guard(lock_);
      if (Block* block = head_) {
        head_ = block->next;
        return block;
      }
    }
    for (std::size_t k = 1; k < kThreadPlaces; ++k) {
      if (Block* block = take((mine + k) % kThreadPlaces)) return block;
    }
    return nullptr;
  }
  Block* take_all() {
    Block* all;
    {
      std::lock_guard guard(lock_);
      all = std::exchange(head_, nullptr);
    }
    for (std::size_t k = 0; k < kThreadPlaces; ++k) {
      if (Block* block = take(k)) {
        block->next = all;
        all = block;
      }
    }
    return all;
  }

 private:
  Block* take(std::size_t place) {
    std::atomic<Block*>& last = last_[place];
    return last.load(std::memory_order_relaxed) ? last.exchange(nullptr, std::memory_order_acquire) : nullptr;
  }

  std::atomic<Block*> last_[kThreadPlaces] = {};
  SpinLock lock_;
  Block* head_ = nullptr;
};

// System memory. Large blocks are aligned to huge pages and request them: each fresh 4 KiB page has to be faulted in
// and zeroed, which makes elementwise work on large fresh memory slow.
class SystemMemory : public BlockSource {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* data = ::operator new(bytes, alignment(bytes), std::nothrow);
#if defined(__linux__)
    if (data && bytes >= 2 * kHugePage) madvise(data, bytes, MADV_HUGEPAGE);  // only advice: failure is harmless
#endif
    if (data) ASAN_POISON_MEMORY_REGION(data, bytes);
    return static_cast<std::byte*>(data);
  }
  void free(std::byte* data, std::size_t bytes) noexcept override {
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    ::operator delete(data, alignment(bytes));
  }

 private:
  static std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t(bytes >= 2 * kHugePage ? kHugePage : kBlockAlignment);
  }
};

class Pool {
 public:
  Pool(Device device, BlockSource& source) : device_(device), source_(source) {}
  Block* allocate(std::size_t bytes, const char* what);
  void give_back(Block* block) noexcept;
  void release_cached() noexcept;

  MemoryStats stats() const {
    const std::size_t live = live_.load(), owned = owned_.load(), limit = limit_.load();
    return {live, peak_.load(), owned > live ? owned - live : 0, limit == kNoLimit ? 0 : limit};
  }
  void reset_peak() { peak_.store(live_.load()); }
  void set_limit(std::size_t bytes) {
    limit_.store(bytes == 0 ? kNoLimit : bytes);
    if (owned_.load() > limit_.load()) release_cached();
  }

 private:
  std::size_t count_live(std::size_t bytes);
  std::byte* fresh(std::size_t bytes);
  [[noreturn]] void refuse(std::size_t bytes, const char* what, bool by_limit) const;

  const Device device_;
  BlockSource& source_;

  // Cached bytes are owned_ - live_: a block that is reused or returned changes one counter. The limit applies to both
  // counters; the cache is released first.
  alignas(64) std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> limit_{kNoLimit};
  std::atomic<std::size_t> owned_{0};
  std::atomic<std::size_t> most_live_{0};  // like peak_, never reset
  std::array<FreeList, kSizeClassCount> free_;
};

void raise(std::atomic<std::size_t>& most, std::size_t value) {
  std::size_t before = most.load(std::memory_order_relaxed);
  while (before < value && !most.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

// Adds to live_ and returns the sum, or returns 0 when that would exceed the limit.
std::size_t Pool::count_live(std::size_t bytes) {
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == kNoLimit) return live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t before = live_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || before > limit - bytes) return 0;
  } while (!live_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return before + bytes;
}

// New memory, counted as owned; if the limit or the system refuses it, the cached blocks are released for it.
std::byte* Pool::fresh(std::size_t bytes) {
  if (owned_.fetch_add(bytes) + bytes > limit_.load(std::memory_order_relaxed)) release_cached();
  std::byte* data = source_.allocate(bytes);
  if (!data) {
    release_cached();
    data = source_.allocate(bytes);
  }
  if (!data) owned_.fetch_sub(bytes);
  return data;
}

Block* Pool::allocate(std::size_t bytes, const char* what) {
  if (bytes > kLargestBlock) refuse(bytes, what, false);
  const SizeClass size_class = size_class_of(bytes);
  const std::size_t live = count_live(size_class.bytes);
  if (live == 0) refuse(size_class.bytes, what, true);
  Block* block = free_[static_cast<std::size_t>(size_class.index)].pop();
  if (!block) {
    std::unique_ptr<Block> made(new (std::nothrow) Block);
    std::byte* const data = made ? fresh(size_class.bytes) : nullptr;
    if (!data) {
      live_.fetch_sub(size_class.bytes);
      refuse(size_class.bytes, what, false);
    }
    block = made.release();
    block->data = data;
    block->size_class = size_class;
    block->device = device_;
  }
  if (live > peak_.load(std::memory_order_relaxed)) {
    raise(peak_, live);
    raise(most_live_, live);
  }
  // The slack after the requested bytes stays poisoned, as the whole block is while it is cached.
  if (device_ == Device{}) ASAN_UNPOISON_MEMORY_REGION(block->data, bytes);
  block->bytes = bytes;
  block->refs.store(1, std::memory_order_relaxed);
  return block;
}

void Pool::give_back(Block* block) noexcept {
  const SizeClass size_class = block->size_class;
  if (device_ == Device{}) ASAN_POISON_MEMORY_REGION(block->data, size_class.bytes);
  block->filled_by = {};
  const std::size_t live = live_.fetch_sub(size_class.bytes, std::memory_order_relaxed) - size_class.bytes;
  free_[static_cast<std::size_t>(size_class.index)].push(block);
  const std::size_t owned = owned_.load(std::memory_order_relaxed);
  if (owned > live + kCacheAllowance && owned - live > 2 * most_live_.load(std::memory_order_relaxed)) release_cached();
}

void Pool::release_cached() noexcept {
  for (FreeList& list : free_) {
    for (Block* block = list.take_all(); block;) {
      Block* const next = block->next;
      owned_.fetch_sub(block->size_class.bytes);
      source_.free(block->data, block->size_class.bytes);
      delete block;
      block = next;
    }
  }
}

void Pool::refuse(std::size_t bytes, const char* what, bool by_limit) const {
  const std::size_t live = live_.load(), limit = limit_.load();
  const std::string where = device_ == Device{} ? "" : " on " + name(device_);
  if (by_limit) {
    fail(Error::Kind::memory,
         "evaluating {}: needs {} bytes{}, {} are live of the limit {}; free tensors, use smaller batches or "
         "raise the limit with set_memory_limit",
         what, bytes, where, live, limit);
  }
  fail(Error::Kind::memory,
       "evaluating {}: needs {} bytes{}, {} are live and the system has no more memory; free tensors or use smaller "
       "batches",
       what, bytes, where, live);
}

thread_local ThreadMemory* of_this_thread = nullptr;

// Never destroyed: tensors in static objects return their memory after main.
struct Pools {
  struct Entry {
    std::atomic<Pool*> pool{nullptr};
    std::atomic<BlockSource*> source{nullptr};
  };
  PerDevice<Entry> of;
  Pool* cpu;  // direct access without a table lookup: it is used most
  std::mutex mutex;

  Pools() {
    auto* source = new SystemMemory;
    cpu = new Pool({}, *source);
    of[{}].pool.store(cpu);
    of[{}].source.store(source);
  }
};
Pools& pools() {
  static Pools* const instance = new Pools;
  return *instance;
}

Pool& pool(Device device) {
  if (device == Device{}) return *pools().cpu;
  const auto& place = pools().of[device].pool;
  // A request for its memory may be a GPU's first use.
  if (!place.load(std::memory_order_acquire)) require_available(device);
  Pool* const found = place.load(std::memory_order_acquire);
  require(found, "internal: {} has no memory", name(device));
  return *found;
}

thread_local Arena* arena_in_use = nullptr;

}  // namespace

Arena::Use::Use(Arena& arena) : before_(std::exchange(arena_in_use, &arena)) {}
Arena::Use::~Use() { arena_in_use = before_; }

Arena::~Arena() {
  for (Buffer* block : free_) pool(device_).give_back(static_cast<Block*>(block));
}

std::size_t Arena::bytes() const {
  std::size_t sum = 0;
  for (const Buffer* block : free_) sum += static_cast<const Block*>(block)->size_class.bytes;
  return sum;
}

// The one freed last comes first, as in the pool.
Buffer* Arena::take(std::size_t bytes) {
  if (bytes > kLargestBlock) return nullptr;
  const int index = size_class_of(bytes).index;
  for (std::size_t i = free_.size(); i-- > 0;) {
    Buffer* const block = free_[i];
    if (static_cast<Block*>(block)->size_class.index != index) continue;
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    block->bytes = bytes;
    block->refs.store(1, std::memory_order_relaxed);
    return block;
  }
  return nullptr;
}

BlockSource* block_source(Device device) { return pools().of[device].source; }

void set_block_source(Device device, BlockSource* source) {
  std::lock_guard guard(pools().mutex);
  Pools::Entry& entry = pools().of[device];
  require(!entry.pool.load(), "internal: {} has memory already", name(device));
  entry.source = source;
  entry.pool.store(new Pool(device, *source), std::memory_order_release);
}

BufferPtr BufferPtr::allocate(std::size_t bytes, const char* what, Device device) {
  BufferPtr p;
  if (device != Device{}) {
    for (const ThreadMemory* own = of_this_thread; own; own = own->outer_) {
      if (own->device_ == device) return own->allocate(bytes, what);
    }
    if (arena_in_use && arena_in_use->device_ == device) p.buffer_ = arena_in_use->take(bytes);
  }
  if (!p.buffer_) p.buffer_ = pool(device).allocate(bytes, what);
  return p;
}

BufferPtr BufferPtr::wrap(void* data, std::size_t bytes, std::function<void()> release, Device device) {
  BufferPtr p;
  p.buffer_ = new (std::nothrow) Buffer;
  if (!p.buffer_) {
    if (release) release();
    throw std::bad_alloc();
  }
  p.buffer_->data = static_cast<std::byte*>(data);
  p.buffer_->bytes = bytes;
  p.buffer_->device = device;
  // An empty function would mean memory of the pool.
  p.buffer_->release = release ? std::move(release) : [] {};
  p.buffer_->lent = true;
  return p;
}

void BufferPtr::give_back(Buffer* buffer) noexcept {
  if (buffer->release) {
    buffer->release();
    delete buffer;
    return;
  }
  auto* const block = static_cast<Block*>(buffer);
  if (block->device != Device{}) {
    for (ThreadMemory* own = of_this_thread; own; own = own->outer_) {
      if (own->device_ != block->device) continue;
      block->next = static_cast<Block*>(own->waiting_);
      own->waiting_ = block;
      return;
    }
    if (arena_in_use && arena_in_use->device_ == block->device) {
      block->filled_by = {};
      return arena_in_use->keep(block);
    }
  }
  pool(block->device).give_back(block);
}

ThreadMemory::ThreadMemory(Device device, std::shared_ptr<StreamMemory> memory)
    : device_(device), memory_(std::move(memory)), outer_(of_this_thread) {
  of_this_thread = this;
}

ThreadMemory::~ThreadMemory() {
  of_this_thread = outer_;
  while (waiting_) {
    auto* const block = static_cast<Block*>(waiting_);
    waiting_ = block->next;
    BufferPtr::give_back(block);
  }
}

namespace {

// A block of a stream's memory, freed by the destructor.
struct StreamBlock {
  explicit StreamBlock(std::shared_ptr<StreamMemory> memory) : memory(std::move(memory)) {}
  ~StreamBlock() {
    if (data) memory->free(data);
  }
  StreamBlock(const StreamBlock&) = delete;
  std::shared_ptr<StreamMemory> memory;
  void* data = nullptr;
};

}  // namespace

BufferPtr ThreadMemory::allocate(std::size_t bytes, const char* what) const {
  const auto block = std::make_shared<StreamBlock>(memory_);
  block->data = memory_->allocate(bytes);
  require(block->data != nullptr, Error::Kind::memory,
          "evaluating {}: needs {} bytes on {}, and the owner of the stream has no more memory; free tensors or use "
          "smaller batches",
          what, bytes, name(device_));
  BufferPtr p = BufferPtr::wrap(
      block->data, bytes, [block] {}, device_);
  p.get()->lent = false;
  return p;
}

MemoryStats memory_stats(Device device) { return pool(device).stats(); }
void reset_peak_memory(Device device) { pool(device).reset_peak(); }
void set_memory_limit(std::size_t bytes, Device device) { pool(device).set_limit(bytes); }

namespace {
PerDevice<std::atomic<std::size_t>> budgets;
}  // namespace

void set_memory_budget(std::size_t bytes, Device device) { budgets[device].store(bytes, std::memory_order_relaxed); }
std::size_t memory_budget(Device device) { return budgets[device].load(std::memory_order_relaxed); }
void release_cached_memory(Device device) { pool(device).release_cached(); }

}  // namespace ebb
