// SPDX-License-Identifier: MIT
#include "cuda/runtime/recording.h"

#include <utility>

#include "core/format_error.h"

namespace ebb::cuda {
namespace {

thread_local Recorder* recorder = nullptr;

}  // namespace

Recorder* Recorder::of_thread() { return recorder; }

// Relaxed: work of other threads, and allocations of this one, do not disturb the recording.
Recorder::Recorder(Gpu& gpu, RunMark& mark)
    : gpu_(gpu), mark_(mark), alone_(gpu.lock_recording()), made_(std::make_unique<RecordedRun>(gpu)) {
  check(driver().begin_capture(gpu.recording_stream(), kCaptureRelaxed), "cuStreamBeginCapture");
  capturing_ = true;
  recorder = this;
}

Recorder::~Recorder() {
  recorder = nullptr;
  if (!capturing_) return;
  Graph graph = nullptr;
  driver().end_capture(gpu_.recording_stream(), &graph);
  if (graph) driver().destroy_graph(graph);
}

void Recorder::add(Function kernel, unsigned blocks, unsigned threads, unsigned shared,
                   std::span<const std::uint64_t> words) {
  int state = 0;
  unsigned long long id = 0;
  Graph graph = nullptr;
  const GraphNode* last = nullptr;
  std::size_t count = 0;
  check(driver().capture_info(gpu_.recording_stream(), &state, &id, &graph, &last, &count), "cuStreamGetCaptureInfo");
  require(count == 1, "cuda: the recording ended in {} nodes after a launch", count);
  made_->launches_.push_back(
      {last[0], kernel, blocks, threads, shared, step_, {words.begin(), words.end()}, parameters_, {}, false});
}

std::unique_ptr<RecordedRun> Recorder::finish() {
  recorder = nullptr;
  capturing_ = false;
  const Driver& d = driver();
  made_->steps_ = mark_.give_steps();
  if (!made_->steps_->empty()) made_->slot_ = mark_.slot();
  for (RecordedLaunch& launch : made_->launches_) {
    for (std::size_t w = 0; w < launch.words.size(); ++w) {
      if (made_->slot_ && launch.words[w] == reinterpret_cast<std::uintptr_t>(made_->slot_))
        launch.slot_words.push_back(w);
    }
  }
  if (d.end_capture(gpu_.recording_stream(), &made_->graph_) != kSuccess || !made_->graph_) return nullptr;
  if (d.instantiate(&made_->exec_, made_->graph_, 0) != kSuccess) return nullptr;
  return std::move(made_);
}

// The driver keeps a graph that is still running until it is done.
RecordedRun::~RecordedRun() {
  try {
    gpu_.use();
    if (exec_) driver().destroy_exec(exec_);
    if (graph_) driver().destroy_graph(graph_);
  } catch (const Error&) {  // the driver is gone at the end of a program
  }
}

void RecordedRun::replay(RunMark& mark) {
  const Driver& d = driver();
  if (!steps_->empty()) {
    ErrorSlot* const slot = mark.slot();
    mark.take_steps(steps_);
    for (RecordedLaunch& launch : launches_) {
      if (slot == slot_) break;
      for (const std::size_t w : launch.slot_words) launch.words[w] = reinterpret_cast<std::uintptr_t>(slot);
      launch.changed |= !launch.slot_words.empty();
    }
    slot_ = slot;
  }
  for (RecordedLaunch& launch : launches_) {
    if (!launch.changed) continue;
    void* parameters[] = {launch.words.data()};
    const KernelNode node{launch.kernel, {launch.blocks, 1, 1}, {launch.threads, 1, 1}, launch.shared, parameters,
                          nullptr};
    check(d.set_kernel(exec_, launch.node, &node), "cuGraphExecKernelNodeSetParams");
    launch.changed = false;
  }
  check(d.launch_graph(exec_, gpu_.stream()), "cuGraphLaunch");
}

}  // namespace ebb::cuda
