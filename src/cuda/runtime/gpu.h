#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/device_table.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/streams.h"
#include "ebb/error.h"

namespace ebb::cuda {

class Gpu;

// What a run will say: an event after its last step, and a slot where its kernels leave what was wrong with the data.
class RunMark final : public Mark {
 public:
  // A run whose results this one reads, and by which of its steps they are made.
  struct Parent {
    std::shared_ptr<RunMark> mark;
    std::uint32_t step;
  };
  RunMark(Gpu& gpu, std::vector<Parent> parents) : gpu_(gpu), parents_(std::move(parents)) {}
  void wait(std::uint32_t step) override;
  void begin_step(std::uint32_t step) { step_ = step; }

  // A step that may complain: `explain` makes the error of a check number, a position and a number. Returns the step's
  // place for the kernel's key.
  using Explain = std::function<Error(int check, std::int64_t position, std::uint64_t bits)>;
  std::uint64_t add_step(Explain explain);
  ErrorSlot* slot() const { return slot_; }

 private:
  friend class Gpu;
  friend class GpuStreams;
  void finish();  // waits until it is settled
  std::exception_ptr own_error();
  bool failed_before(std::uint32_t step) const { return error_ && failed_at_ <= step; }

  Gpu& gpu_;
  std::vector<Parent> parents_;  // until it is settled
  struct CheckedStep {
    Explain explain;
    std::uint32_t step;
  };
  std::vector<CheckedStep> steps_;
  std::uint32_t step_ = 0, failed_at_ = 0;  // of the run
  Event event_ = nullptr;
  ErrorSlot* slot_ = nullptr;
  Stream stream_ = nullptr;
  bool captured_ = false;                         // as part of a graph: it runs later, as often as somebody says
  std::vector<std::function<void()>> when_done_;  // it and all that were begun before it
  bool ended_ = false, settled_ = false;          // guarded by the Gpu's mutex, as is the error
  std::exception_ptr error_;
};
using RunMarkPtr = std::shared_ptr<RunMark>;

// One GPU: its context, its streams (all work of a device is in one order, so memory may be used again as soon as the
// host has let go of it), its memory and its kernels.
class Gpu {
 public:
  explicit Gpu(int index);
  static int count();  // 0 where there is no driver

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  int multiprocessors() const { return multiprocessors_; }
  Stream stream() const { return streams_.now(); }  // the calling thread's
  GpuStreams& streams() { return streams_; }
  BlockSource& memory() { return memory_; }

  void use() const;  // makes this GPU's context the calling thread's

  // A kernel of a text (without the prelude), compiled the first time. The pointer stays good.
  Function kernel(const std::string& text, const char* name);
  void launch(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments);
  void clear(void* data, std::size_t bytes);

  // Through pinned memory, in the order of the stream; both are done with the host's memory when they return.
  void to_host(void* to, const void* from, std::size_t bytes);
  void from_host(void* to, const void* from, std::size_t bytes);

  RunMarkPtr begin(std::span<const FilledBy> inputs);
  void end(const RunMarkPtr& mark);
  void synchronize();                            // throws the first error that nobody has been told of
  void throw_unseen_elsewhere();                 // the same of runs on other libraries' streams, without waiting
  void call_when_done(std::function<void()> f);  // with all runs begun so far, by whoever finds that they are

 private:
  friend class RunMark;
  friend class GpuStreams;
  struct Memory final : BlockSource {
    Gpu* gpu = nullptr;
    std::byte* allocate(std::size_t bytes) override;
    void free(std::byte* data, std::size_t bytes) noexcept override;
  };
  void settle(RunMark& mark);  // its work and its parents' are done
  void settle_done();
  std::exception_ptr error_of_captured();
  void call_done();  // without the mutex
  void make_slots();

  int index_, multiprocessors_ = 0;
  std::string name_, architecture_;
  Context context_ = nullptr;
  GpuStreams streams_{*this};
  Memory memory_;

  std::mutex kernels_mutex_;
  std::map<std::string, Module> modules_;
  std::map<std::pair<Module, std::string>, Function> functions_;

  static constexpr std::size_t kStaging = std::size_t{4} << 20;
  std::mutex staging_mutex_;
  std::byte* staging_[2] = {};
  Event staged_[2] = {};
  Stream staged_on_[2] = {};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunMarkPtr> in_flight_;  // in the order they were begun
  std::vector<RunMarkPtr> captured_;
  std::vector<std::function<void()>> done_;  // to be called
  std::vector<ErrorSlot*> slots_;
  std::vector<Event> events_;
  std::exception_ptr unseen_;
  bool unseen_elsewhere_ = false;  // on another library's stream
};

}  // namespace ebb::cuda
