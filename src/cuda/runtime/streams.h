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
// Memory of the pool may be used again as soon as the host has let go of it because all work is in one order. That
// stays so: a stream that is entered waits for what the own stream was given, unless that is known to be done, and the
// own stream, before it is given work again, for the last run on every other stream.
class GpuStreams final : public Streams {
 public:
  explicit GpuStreams(Gpu& gpu) : gpu_(gpu) {}
  void make_own();

  Stream now() const;  // the calling thread's
  bool is_own(Stream stream) const { return stream == own_; }
  std::uint64_t before_work();              // that the calling thread is about to give its stream; a number of own work
  void is_done(std::uint64_t work);         // of own work
  void ran(std::shared_ptr<RunMark> mark);  // the calling thread has
  void require_no_capture(const char* what) const;

  // For copies from the host beside the own stream's work: it waits for nothing but memory, and nothing waits for it
  // but what reads the copies.
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
  // With the mutex of the Gpu.
  void connect(Stream earlier, Stream later);
  void wait_for_own_work(Stream stream);

  Gpu& gpu_;
  Stream own_ = nullptr;
  std::atomic<Stream> copies_{nullptr};
  // How often the own stream was given something, or another one entered than before: while it stays the same, all work
  // is in the order of one stream.
  std::atomic<std::uint64_t> own_work_{0};
  std::atomic<Stream> last_entered_{nullptr};
  std::atomic<bool> elsewhere_{false};  // there are runs that it has not waited for

  // Guarded by the Gpu's mutex.
  Event crossing_ = nullptr;                     // recorded and waited for at once: one is enough
  Event own_position_ = nullptr;                 // after own work number recorded_
  std::uint64_t recorded_ = 0, known_done_ = 0;  // of own work
  std::map<Stream, std::shared_ptr<RunMark>> last_on_;
};

}  // namespace ebb::cuda
