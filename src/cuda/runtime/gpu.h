// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/buffer.h"
#include "core/device_table.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/kernel_source.h"
#include "cuda/runtime/streams.h"
#include "ebb/error.h"

namespace ebb::cuda {

class Gpu;

// EBB_CUDA_SYNC=1: waits for each launch, and a failing one names its kernel. For debugging.
bool waits_for_each_kernel();

// The state of a run: when it is done, and a slot where its kernels report errors in the data. Runs on the device's own
// stream are numbered in its order, so that an event after many of them serves them all; a run on another library's
// stream has an event of its own.
class RunMark final : public Mark {
 public:
  // A run whose results this one reads, and the step that computes them.
  struct Parent {
    std::shared_ptr<RunMark> mark;
    std::uint32_t step;
  };
  // A step that may report an error: `explain` turns a check number, a position and a number into one.
  using Explain = std::function<Error(int check, std::int64_t position, std::uint64_t bits)>;
  struct CheckedStep {
    Explain explain;
    std::uint32_t step;
  };
  using CheckedSteps = std::vector<CheckedStep>;

  RunMark(Gpu& gpu, std::vector<Parent> parents) : gpu_(gpu), parents_(std::move(parents)) {}
  void wait(std::uint32_t step) override;
  void wait_until_ended();  // all its steps are in the stream
  bool is_on(Stream stream) const { return stream == stream_; }
  void begin_step(std::uint32_t step) { step_ = step; }

  // Returns the step's part of the kernel's key.
  std::uint64_t add_step(Explain explain);
  ErrorSlot* slot();
  // For a step computed by the host, after waiting for the stream: throws any error of this run's inputs or of its
  // steps so far.
  void throw_so_far();

  // The steps of a recorded run come from the recording.
  std::shared_ptr<const CheckedSteps> give_steps();
  void take_steps(std::shared_ptr<const CheckedSteps> steps) { recorded_ = std::move(steps); }

 private:
  friend class Gpu;
  friend class GpuStreams;
  void finish();         // waits until it is settled
  void look_into_run();  // called by the thread that runs it, before its end
  std::exception_ptr own_error();
  bool failed_before(std::uint32_t step) const { return error_ && failed_at_ <= step; }

  Gpu& gpu_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<Parent> parents_;  // until it is settled
  CheckedSteps steps_;
  std::shared_ptr<const CheckedSteps> recorded_;
  std::uint32_t step_ = 0, failed_at_ = 0;  // of the run
  ErrorSlot* slot_ = nullptr;               // from the first step that may complain on
  Stream stream_ = nullptr;
  bool captured_ = false;  // as part of another library's graph: it runs later, any number of times
  std::atomic<bool> ended_{false};
  // Guarded by the Gpu's mutex, as is the error.
  std::uint64_t run_ = 0;                         // on the own stream, once it has ended
  Event event_ = nullptr;                         // on another one, from its end until it is settled
  std::vector<std::function<void()>> when_done_;  // called once it and all earlier runs are done
  bool settled_ = false;
  std::exception_ptr error_;
};
using RunMarkPtr = std::shared_ptr<RunMark>;

// One GPU: its context, its streams (all work of a device is in one order, so memory may be reused as soon as the host
// has released it), its memory and its kernels.
class Gpu {
 public:
  explicit Gpu(int index);
  static int count();  // 0 where there is no driver

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  int multiprocessors() const { return multiprocessors_; }
  const GpuModel& model() const { return model_; }
  const GpuLimits& limits() const { return model_.limits; }
  void set_model(const GpuModel& model) { model_ = model; }  // for tests, while nothing runs
  Stream stream() const;  // the calling thread's; while it records, that of the recording
  GpuStreams& streams() { return streams_; }
  const GpuStreams& streams() const { return streams_; }
  BlockSource& memory() { return memory_; }

  void use() const;  // makes this GPU's context the calling thread's

  // A kernel of a text, compiled on first use. The pointer stays valid.
  Function kernel(const KernelSource& source, const char* name);
  void launch(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads = kThreads,
              unsigned shared = 0);
  // The same, after a kernel of the same text: where the GPU can, its blocks begin while the last ones of that kernel
  // end, and wait inside the kernel (see the prelude).
  void launch_behind(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads);
  unsigned blocks_at_a_time(Function kernel, unsigned threads, unsigned shared);  // that the GPU holds
  void clear(void* data, std::size_t bytes);

  // Through pinned memory, in the order of the stream; both are done with the host's memory on return.
  void to_host(void* to, const void* from, std::size_t bytes);
  void from_host(void* to, const void* from, std::size_t bytes);

  RunMarkPtr begin(std::span<const FilledBy> inputs);
  void end(const RunMarkPtr& mark);
  void synchronize();                            // throws the first error not yet reported
  void throw_unseen_elsewhere();                 // the same for runs on other libraries' streams, without waiting
  void call_when_done(std::function<void()> f);  // with all runs begun so far, by the thread that notices they are done

  // The stream of recordings, one at a time.
  std::unique_lock<std::mutex> lock_recording() { return std::unique_lock(recording_mutex_); }
  Stream recording_stream();

 private:
  friend class RunMark;
  friend class GpuStreams;
  struct Memory final : BlockSource {
    Gpu* gpu = nullptr;
    std::byte* allocate(std::size_t bytes) override;
    void free(std::byte* data, std::size_t bytes) noexcept override;
  };
  void launched(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads,
                unsigned shared);
  void settle(RunMark& mark);  // once its work and its parents' are done
  void settle_done();
  std::exception_ptr error_of_captured();
  void call_done();  // without the mutex
  void make_slots();
  std::size_t take_piece();
  Event take_event();

  // Progress of the own stream: the number of runs, and of calls that submitted work to it.
  struct Position {
    std::uint64_t run = 0, work = 0;
  };
  Position position();            // of the work submitted so far
  void reached(Position at);      // everything up to there is done
  Result reach(std::uint64_t r);  // waits for that run
  // With the mutex held: an event after at least that run, or after everything.
  Event milestone_after(std::uint64_t run);
  Event milestone();
  void look_at_milestones();

  int index_, multiprocessors_ = 0;
  GpuModel model_;
  bool begins_early_ = false;
  std::string name_, architecture_;
  Context context_ = nullptr;
  GpuStreams streams_{*this};
  Memory memory_;

  std::mutex kernels_mutex_;
  std::map<std::string, Module> modules_;
  std::map<std::pair<Module, std::string>, Function> functions_;
  std::map<std::tuple<Function, unsigned, unsigned>, unsigned> at_a_time_;

  // Pinned memory for copies, in pieces used in rotation: one is reused after the copies of many others have begun, so
  // that a batch on its way to the device does not wait for the step before it.
  std::mutex staging_mutex_;
  std::byte* staging_[GpuModel::staging_pieces] = {};
  Event staged_[GpuModel::staging_pieces] = {};
  std::optional<Stream> staged_on_[GpuModel::staging_pieces];
  std::size_t next_piece_ = 0;

  std::mutex recording_mutex_;
  Stream recording_stream_ = nullptr;

  // On the own stream there is an event after every `runs_per_event` runs, and one per wait.
  struct Milestone {
    Event event;
    Position at;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  std::uint64_t begun_ = 0, ended_ = 0;  // runs; those that ended on the own stream
  Position done_;
  std::deque<Milestone> milestones_;
  std::deque<RunMarkPtr> in_flight_;  // in the order they were begun
  std::vector<RunMarkPtr> captured_;
  std::size_t to_call_ = 0;  // functions to be called for runs in flight
  std::vector<std::function<void()>> to_call_now_;
  std::vector<ErrorSlot*> slots_;
  std::vector<Event> events_;
  std::exception_ptr unseen_;
  bool unseen_elsewhere_ = false;  // on another library's stream
};

}  // namespace ebb::cuda
