#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/buffer.h"
#include "core/device_table.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "ebb/error.h"

namespace ebb::cuda {

class Gpu;

// EBB_CUDA_SYNC=1: each launch is waited for, and one that fails says which kernel it was. For finding mistakes.
bool waits_for_each_kernel();

// What a run will say: when it is done, and a slot where its kernels leave what was wrong with the data. Runs are
// numbered in the order of the stream, so that an event after many of them serves them all.
class RunMark final : public Mark {
 public:
  // A run whose results this one reads, and by which of its steps they are made.
  struct Parent {
    std::shared_ptr<RunMark> mark;
    std::uint32_t step;
  };
  // A step that may complain: `explain` makes the error of a check number, a position and a number.
  using Explain = std::function<Error(int check, std::int64_t position, std::uint64_t bits)>;
  struct CheckedStep {
    Explain explain;
    std::uint32_t step;
  };
  using CheckedSteps = std::vector<CheckedStep>;

  RunMark(Gpu& gpu, std::vector<Parent> parents) : gpu_(gpu), parents_(std::move(parents)) {}
  void wait(std::uint32_t step) override;
  void wait_until_ended();  // all its steps are in the stream
  void begin_step(std::uint32_t step) { step_ = step; }

  // Returns the step's place for the kernel's key.
  std::uint64_t add_step(Explain explain);
  ErrorSlot* slot();

  // The steps of a recorded run come from the recording.
  std::shared_ptr<const CheckedSteps> give_steps();
  void take_steps(std::shared_ptr<const CheckedSteps> steps) { recorded_ = std::move(steps); }

 private:
  friend class Gpu;
  void finish();         // waits until it is settled
  void look_into_run();  // by the thread that runs it, before its end
  std::exception_ptr own_error();
  bool failed_before(std::uint32_t step) const { return error_ && failed_at_ <= step; }

  Gpu& gpu_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<Parent> parents_;  // until it is settled
  CheckedSteps steps_;
  std::shared_ptr<const CheckedSteps> recorded_;
  std::uint32_t step_ = 0, failed_at_ = 0;  // of the run
  ErrorSlot* slot_ = nullptr;               // from the first step that may complain on
  std::atomic<bool> ended_{false};
  std::uint64_t run_ = 0;  // once it has ended
  bool settled_ = false;   // guarded by the Gpu's mutex, as is the error
  std::exception_ptr error_;
};
using RunMarkPtr = std::shared_ptr<RunMark>;

// One GPU: its context, its stream (all work of a device is in one order, so memory may be used again as soon as the
// host has let go of it), its memory and its kernels.
class Gpu {
 public:
  explicit Gpu(int index);
  static int count();  // 0 where there is no driver

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  int multiprocessors() const { return multiprocessors_; }
  Stream stream() const;  // while this thread records, that of the recording
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
  void synchronize();  // throws the first error that nobody has been told of

  // The stream of recordings, one at a time.
  std::unique_lock<std::mutex> lock_recording() { return std::unique_lock(recording_mutex_); }
  Stream recording_stream();

 private:
  friend class RunMark;
  struct Memory final : BlockSource {
    Gpu* gpu = nullptr;
    std::byte* allocate(std::size_t bytes) override;
    void free(std::byte* data, std::size_t bytes) noexcept override;
  };
  void settle(RunMark& mark);  // its work and its parents' are done
  void settle_done();
  void make_slots();
  std::size_t take_piece();
  Event take_event();
  std::uint64_t last_ended();
  void reached(std::uint64_t run);  // all runs up to this one are done
  Result reach(std::uint64_t run);  // waits for that

  int index_, multiprocessors_ = 0;
  std::string name_, architecture_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Memory memory_;

  std::mutex kernels_mutex_;
  std::map<std::string, Module> modules_;
  std::map<std::pair<Module, std::string>, Function> functions_;

  // Pinned memory for copies, in pieces that take turns: one is used again when the copies of many others have begun,
  // so that a batch on its way to the device does not wait for the step before it.
  static constexpr std::size_t kStaging = std::size_t{512} << 10, kPieces = 16;
  std::mutex staging_mutex_;
  std::byte* staging_[kPieces] = {};
  Event staged_[kPieces] = {};
  std::size_t next_piece_ = 0;

  std::mutex recording_mutex_;
  Stream recording_stream_ = nullptr;

  // An event costs as much as a launch: there is one after every so many runs, and one where somebody waits.
  static constexpr std::uint64_t kRunsPerEvent = 64, kRunsPerLook = 16;
  struct Milestone {
    Event event;
    std::uint64_t run;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  std::uint64_t begun_ = 0, ended_ = 0, done_ = 0;  // runs
  std::deque<Milestone> milestones_;
  std::deque<RunMarkPtr> in_flight_;
  std::vector<ErrorSlot*> slots_;
  std::vector<Event> events_;
  std::exception_ptr unseen_;
};

}  // namespace ebb::cuda
