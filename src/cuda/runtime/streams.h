// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "cuda/runtime/driver.h"

namespace ebb::cuda {

class Gpu;
class RunMark;

// The streams of one GPU: its own, and those of other libraries that threads have entered.
//
// Memory of the pool may be reused as soon as the host has released it because all work is in one order. That stays so:
// a stream that is entered waits for the own stream's work, unless that is known to be done, and the own stream, before
// it is given new work, waits for the last run on every other stream.
class GpuStreams final : public Streams {
 public:
  explicit GpuStreams(Gpu& gpu) : gpu_(gpu) {}
  void make_own();

  Stream now() const;  // the calling thread's
  Stream own() const { return own_; }
  bool is_own(Stream stream) const { return stream == own_; }
  bool is_entered() const;  // the calling thread's is one that it entered
  void before_work();       // before the calling thread submits work to its stream
  void gave_own_work() { own_work_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t own_work() const { return own_work_.load(std::memory_order_relaxed); }
  void ran(std::shared_ptr<RunMark> mark);  // on another stream; with the mutex of the Gpu
  void require_no_capture(const char* what) const;

  // For copies from the host concurrent with the own stream's work: it waits for nothing but memory, and only readers
  // of the copies wait for it.
  Stream copies();
  void wait_for_copies();  // on the host

  void* current() const override { return now(); }
  void enter(void* stream) override;
  void leave() noexcept override;
  bool capturing() const override;
  std::shared_ptr<StreamMemory> memory(void* stream, std::shared_ptr<StreamMemory> given) override;
  void let_wait(void* stream) override;
  void wait_for(void* stream) override;
  std::function<void()> after_use(std::function<void()> release) override;

 private:
  struct Entered;
  class OrderedMemory;
  Entered* entered() const;
  void wait_for_others();  // the own stream does
  // While it stays the same, all work is in the order of one stream.
  std::uint64_t changes_of_order() const { return own_work_ + times_entered_; }
  // With the mutex of the Gpu.
  void connect(Stream earlier, Stream later);
  void wait_for_own_work(Stream stream);

  Gpu& gpu_;
  Stream own_ = nullptr;
  std::atomic<Stream> copies_{nullptr};  // null: none yet (null as a stream would be the default one)
  bool is_of_copies(Stream stream) const {
    const Stream copies = copies_.load(std::memory_order_relaxed);
    return copies && stream == copies;
  }
  // Incremented before and after work is submitted to the own stream: work counted when an event is recorded was
  // submitted before it, and a submission in progress counts as work.
  std::atomic<std::uint64_t> own_work_{0};
  std::atomic<std::uint64_t> times_entered_{0};                                     // another stream than before
  std::atomic<Stream> last_entered_{reinterpret_cast<Stream>(~std::uintptr_t{0})};  // none: null is a stream
  std::atomic<bool> elsewhere_{false};  // runs exist that it has not waited for

  // Guarded by the Gpu's mutex.
  Event crossing_ = nullptr;  // recorded and waited for immediately: one is enough
  std::map<Stream, std::shared_ptr<RunMark>> last_on_;
};

}  // namespace ebb::cuda
