#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace ebb {

// A block of memory, 128-byte aligned, from the caching pool; or memory of somebody else that `release` gives back.
struct Buffer {
  std::atomic<std::uint32_t> refs{1};
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::function<void()> release;  // set for foreign memory only
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
    // The only reference needs no atomic subtraction: nobody else has one to copy.
    if (buffer_ && (unique() || buffer_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)) give_back(buffer_);
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* get() const { return buffer_; }
  std::byte* data() const { return buffer_ ? buffer_->data : nullptr; }
  std::size_t bytes() const { return buffer_ ? buffer_->bytes : 0; }
  bool unique() const { return buffer_ && buffer_->refs.load(std::memory_order_acquire) == 1; }

  // Memory for `bytes` bytes, uninitialised. `what` is named in the error when the limit is reached.
  static BufferPtr allocate(std::size_t bytes, const char* what = "a tensor");
  // Wraps memory that belongs to somebody else; `release` is called when the last reference goes.
  static BufferPtr wrap(void* data, std::size_t bytes, std::function<void()> release);

 private:
  static void give_back(Buffer* buffer) noexcept;
  Buffer* buffer_ = nullptr;
};

}  // namespace ebb
