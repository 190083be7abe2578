// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ebb/device.h"
#include "ebb/stream.h"

namespace ebb {

// The state of a run of steps on a device that computes asynchronously.
class Mark {
 public:
  virtual ~Mark() = default;
  // Returns when this step is done; throws the error, every time, if it or one before it failed.
  virtual void wait(std::uint32_t step) = 0;
};
using MarkPtr = std::shared_ptr<Mark>;

// Which step of which run fills a buffer. No mark: its elements are ready.
struct FilledBy {
  MarkPtr mark;
  std::uint32_t step = 0;
  void wait() const {
    if (mark) mark->wait(step);
  }
};

// A block of a device's memory, 128-byte aligned, from its caching pool; or external memory that `release` returns.
struct Buffer {
  std::atomic<std::uint32_t> refs{1};
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Device device;
  FilledBy filled_by;
  std::function<void()> release;  // set only for external memory
  bool lent = false;              // external memory that its owner may still be reading
};

// Counts references to a Buffer; the last one returns it to the pool.
class BufferPtr {
 public:
  BufferPtr() = default;
  BufferPtr(const BufferPtr& o) : buffer_(o.buffer_) {
    if (buffer_) buffer_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  BufferPtr(BufferPtr&& o) noexcept : buffer_(std::exchange(o.buffer_, nullptr)) {}
  BufferPtr& operator=(BufferPtr o) noexcept {
    std::swap(buffer_, o.buffer_);
    return *this;
  }
  ~BufferPtr() {
    // The only reference needs no atomic subtraction: no one else has one to copy.
    if (buffer_ && (unique() || buffer_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)) give_back(buffer_);
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* get() const { return buffer_; }
  std::byte* data() const { return buffer_ ? buffer_->data : nullptr; }
  std::size_t bytes() const { return buffer_ ? buffer_->bytes : 0; }
  bool unique() const { return buffer_ && buffer_->refs.load(std::memory_order_acquire) == 1; }

  Device device() const { return buffer_ ? buffer_->device : Device{}; }

  // Memory for `bytes` bytes, uninitialised. `what` is named in the error when the limit is reached.
  static BufferPtr allocate(std::size_t bytes, const char* what = "a tensor", Device device = {});
  // Wraps external memory; `release` is called when the last reference is dropped, or before std::bad_alloc is thrown.
  static BufferPtr wrap(void* data, std::size_t bytes, std::function<void()> release, Device device = {});

 private:
  friend class ThreadMemory;
  static void give_back(Buffer* buffer) noexcept;
  Buffer* buffer_ = nullptr;
};

// Blocks of a device's memory that stay together: what a thread allocates within the scope of a Use comes from the
// arena first, and what it frees stays there until the arena is destroyed. Used by one thread at a time.
class Arena {
 public:
  explicit Arena(Device device) : device_(device) {}
  ~Arena();
  Arena(const Arena&) = delete;
  std::size_t bytes() const;  // of the blocks not in use

  class Use {
   public:
    explicit Use(Arena& arena);
    ~Use();
    Use(const Use&) = delete;

   private:
    Arena* before_;
  };

 private:
  friend class BufferPtr;
  Buffer* take(std::size_t bytes);  // null: it has none of this size
  void keep(Buffer* block) { free_.push_back(block); }

  Device device_;
  std::vector<Buffer*> free_;
};

// Source of the calling thread's allocations on a device, within the scope. Blocks of the device's pool that the thread
// frees meanwhile are held until the scope ends: the pool only knows the order of the device's own stream.
class ThreadMemory {
 public:
  ThreadMemory(Device device, std::shared_ptr<StreamMemory> memory);
  ~ThreadMemory();
  ThreadMemory(const ThreadMemory&) = delete;

 private:
  friend class BufferPtr;
  BufferPtr allocate(std::size_t bytes, const char* what) const;

  Device device_;
  std::shared_ptr<StreamMemory> memory_;
  Buffer* waiting_ = nullptr;
  ThreadMemory* outer_;
};

}  // namespace ebb
