// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// A launch of one of our kernels in a recorded run, whose arguments can be replaced.
struct RecordedLaunch {
  GraphNode node = nullptr;
  Function kernel = nullptr;
  unsigned blocks = 1, threads = kThreads, shared = 0;
  std::uint32_t step = 0;  // of the run
  std::vector<std::uint64_t> words;
  const std::vector<Parameter>* parameters = nullptr;  // what the words are, if a sweep is launched
  std::vector<std::size_t> slot_words;                 // those that hold the address of the run's ErrorSlot
  bool changed = false;
};

// A run as a CUDA graph: one call launches all its kernels, with the arguments of the recording. Only the ErrorSlot is
// separate for every run: launches that have its address get a new one each time.
class RecordedRun final : public Recording {
 public:
  explicit RecordedRun(Gpu& gpu) : gpu_(gpu) {}
  ~RecordedRun() override;
  std::vector<RecordedLaunch>& launches() { return launches_; }
  void replay(RunMark& mark);

 private:
  friend class Recorder;
  Gpu& gpu_;
  Graph graph_ = nullptr;  // nodes belong to it
  GraphExec exec_ = nullptr;
  std::vector<RecordedLaunch> launches_;
  std::shared_ptr<const RunMark::CheckedSteps> steps_;
  const ErrorSlot* slot_ = nullptr;
};

// While it exists, this thread's launches on the GPU go into a recording.
class Recorder {
 public:
  static Recorder* of_thread();  // null if it is not recording
  Recorder(Gpu& gpu, RunMark& mark);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  Gpu& gpu() const { return gpu_; }
  void begin_step(std::uint32_t step) {
    step_ = step;
    parameters_ = nullptr;
  }
  void begin_sweep(const std::vector<Parameter>& parameters) { parameters_ = &parameters; }
  void add(Function kernel, unsigned blocks, unsigned threads, unsigned shared, std::span<const std::uint64_t> words);
  // Ends it. Null if the driver cannot make a graph of what was recorded.
  std::unique_ptr<RecordedRun> finish();

 private:
  Gpu& gpu_;
  RunMark& mark_;
  std::unique_lock<std::mutex> alone_;
  std::unique_ptr<RecordedRun> made_;
  std::uint32_t step_ = 0;
  const std::vector<Parameter>* parameters_ = nullptr;
  bool capturing_ = false;
};

}  // namespace ebb::cuda
