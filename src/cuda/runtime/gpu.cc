// SPDX-License-Identifier: MIT
#include "cuda/runtime/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "core/format_error.h"
#include "cuda/runtime/kernel_cache.h"
#include "cuda/runtime/recording.h"

namespace ebb::cuda {

int Gpu::count() {
  int n = 0;
  const Driver* const d = find_driver();
  return d && d->device_count(&n) == kSuccess ? n : 0;
}

Gpu::Gpu(int index) : index_(index) {
  const Driver& d = driver();
  int device = 0, major = 0, minor = 0;
  check(d.device(&device, index), "cuDeviceGet");
  char text[256] = {};
  check(d.device_name(text, sizeof text, device), "cuDeviceGetName");
  name_ = text;
  check(d.device_attribute(&major, kCapabilityMajor, device), "cuDeviceGetAttribute");
  check(d.device_attribute(&minor, kCapabilityMinor, device), "cuDeviceGetAttribute");
  check(d.device_attribute(&multiprocessors_, kMultiprocessors, device), "cuDeviceGetAttribute");
  int of_block = 0, of_multiprocessor = 0;
  check(d.device_attribute(&of_block, kSharedOfBlock, device), "cuDeviceGetAttribute");
  check(d.device_attribute(&of_multiprocessor, kSharedOfMultiprocessor, device), "cuDeviceGetAttribute");
  model_.limits = {of_block, of_multiprocessor};
  require(major >= 8, "cuda: {} has compute capability {}.{}; Ebb needs 8.0 or higher", name_, major, minor);
  architecture_ = fmt::format("sm_{}{}", major, minor);
  int version = 0;
  check(d.version(&version), "cuDriverGetVersion");
  begins_early_ = major >= 9 && version >= kGraphsOfEarlyLaunches;
  check(d.retain_context(&context_, device), "cuDevicePrimaryCtxRetain");
  use();
  streams_.make_own();
  memory_.gpu = this;
}

// Each time: other libraries of the process set contexts, too.
void Gpu::use() const { check(driver().set_context(context_), "cuCtxSetCurrent"); }

std::byte* Gpu::Memory::allocate(std::size_t bytes) {
  gpu->use();
  Address address = 0;
  const Result result = driver().allocate(&address, bytes);
  if (result == kOutOfMemory) return nullptr;
  check(result, "cuMemAlloc");
  return reinterpret_cast<std::byte*>(address);
}

void Gpu::Memory::free(std::byte* data, std::size_t) noexcept {
  try {
    gpu->use();
    driver().free(reinterpret_cast<Address>(data));  // waits for the device: no work uses it any more
  } catch (const Error&) {                           // the driver is gone at the end of a program
  }
}

bool waits_for_each_kernel() {
  static const bool waits = std::getenv("EBB_CUDA_SYNC") != nullptr;
  return waits;
}
static std::map<Function, std::string>& texts_of_kernels() {
  static auto* const texts = new std::map<Function, std::string>;
  return *texts;
}

Function Gpu::kernel(const KernelSource& source, const char* name) {
  const std::string& text = source.text;
  {
    std::lock_guard guard(kernels_mutex_);
    if (const auto m = modules_.find(text); m != modules_.end()) {
      if (const auto f = functions_.find({m->second, name}); f != functions_.end()) return f->second;
    }
  }
  const std::string code =
      machine_code(text, source.warpgroups ? architecture_ + "a" : architecture_, source.spill_blocks);
  use();
  std::lock_guard guard(kernels_mutex_);
  Module& module = modules_[text];
  if (!module) check(driver().load_module(&module, code.data()), "cuModuleLoadData");
  Function& function = functions_[{module, name}];
  if (!function) {
    Function made = nullptr;
    check(driver().function(&made, module, name), "cuModuleGetFunction");
    // A kernel with dynamic shared memory may use all that its text leaves. The driver decides how much of the memory
    // is a cache instead: with as little as possible a layer norm of 4,096 columns, whose weights come from there for
    // every row, takes 276 µs on an H200 instead of 261.
    if (source.dynamic_shared) {
      // A text with products of warpgroups has no static shared memory.
      const std::int64_t most = model_.limits.shared - (source.warpgroups ? 0 : kSharedOfText);
      check(driver().set_function(made, kMostSharedOfFunction, static_cast<int>(most)), "cuFuncSetAttribute");
    }
    function = made;
  }
  if (waits_for_each_kernel()) texts_of_kernels()[function] = fmt::format("{}, of\n{}", name, text);
  return function;
}

unsigned Gpu::blocks_at_a_time(Function kernel, unsigned threads, unsigned shared) {
  std::lock_guard guard(kernels_mutex_);
  unsigned& known = at_a_time_[{kernel, threads, shared}];
  if (!known) {
    int each = 0;
    check(driver().blocks_of_multiprocessor(&each, kernel, static_cast<int>(threads), shared),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    known = static_cast<unsigned>(std::max(1, each) * multiprocessors_);
  }
  return known;
}

void Gpu::launch(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads,
                 unsigned shared) {
  void* parameters[] = {const_cast<std::uint64_t*>(arguments.data())};
  check(driver().launch(kernel, blocks, 1, 1, threads, 1, 1, shared, stream(), parameters, nullptr), "cuLaunchKernel");
  launched(kernel, blocks, arguments, threads, shared);
}

void Gpu::launch_behind(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads) {
  if (!begins_early_ || waits_for_each_kernel()) return launch(kernel, blocks, arguments, threads);
  void* parameters[] = {const_cast<std::uint64_t*>(arguments.data())};
  LaunchAttribute early{};
  early.id = kBeginsEarly;
  early.value = 1;
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, 0, stream(), &early, 1};
  check(driver().launch_with(&config, kernel, parameters, nullptr), "cuLaunchKernelEx");
  launched(kernel, blocks, arguments, threads, 0);
}

void Gpu::launched(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments, unsigned threads,
                   unsigned shared) {
  if (Recorder* const recorder = Recorder::of_thread())
    return recorder->add(kernel, blocks, threads, shared, arguments);
  if (!waits_for_each_kernel() || streams_.capturing()) return;
  if (const Result result = driver().synchronize(stream()); result != kSuccess) {
    const char* text = nullptr;
    driver().error_text(result, &text);
    std::lock_guard guard(kernels_mutex_);
    fail(Error::Kind::value, "cuda: {} ({} blocks) in kernel {}", text ? text : "an error", blocks,
         texts_of_kernels()[kernel]);
  }
}

Stream Gpu::stream() const {
  const Recorder* const recorder = Recorder::of_thread();
  return recorder && &recorder->gpu() == this ? recording_stream_ : streams_.now();
}

Stream Gpu::recording_stream() {
  if (!recording_stream_) check(driver().create_stream(&recording_stream_, kNonBlocking), "cuStreamCreate");
  return recording_stream_;
}

void Gpu::clear(void* data, std::size_t bytes) {
  if (bytes) check(driver().set_bytes(reinterpret_cast<Address>(data), 0, bytes, stream()), "cuMemsetD8Async");
}

std::size_t Gpu::take_piece() {
  const std::size_t piece = next_piece_++ % GpuModel::staging_pieces;
  if (staging_[piece]) return piece;
  void* memory = nullptr;
  check(driver().allocate_host(&memory, GpuModel::staging_bytes, kPortable), "cuMemHostAlloc");
  check(driver().create_event(&staged_[piece], kDisableTiming), "cuEventCreate");
  staging_[piece] = static_cast<std::byte*>(memory);
  return piece;
}

// While one piece is being transferred the next is copied.
void Gpu::from_host(void* to, const void* from, std::size_t bytes) {
  use();
  streams_.require_no_capture("to: elements cannot be copied to the device");
  streams_.before_work();
  const Driver& d = driver();
  const Stream stream = streams_.now();
  std::lock_guard guard(staging_mutex_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = take_piece(), n = std::min(GpuModel::staging_bytes, bytes - done);
    if (d.query(staged_[piece]) == kNotReady) check(d.wait(staged_[piece]), "cuEventSynchronize");  // its last use
    std::memcpy(staging_[piece], static_cast<const std::byte*>(from) + done, n);
    check(d.to_device(reinterpret_cast<Address>(to) + done, staging_[piece], n, stream), "cuMemcpyHtoDAsync");
    check(d.record(staged_[piece], stream), "cuEventRecord");
    staged_on_[piece] = stream;
    done += n;
  }
  if (streams_.is_own(stream)) streams_.gave_own_work();
}

void Gpu::to_host(void* to, const void* from, std::size_t bytes) {
  use();
  streams_.require_no_capture("item: values cannot be read");
  streams_.before_work();
  const Driver& d = driver();
  const Stream stream = streams_.now();
  std::lock_guard guard(staging_mutex_);
  const std::size_t pieces = (bytes + GpuModel::staging_bytes - 1) / GpuModel::staging_bytes;
  const auto size_of_piece = [&](std::size_t p) {
    return std::min(GpuModel::staging_bytes, bytes - p * GpuModel::staging_bytes);
  };
  Position before;
  const auto fetch = [&](std::size_t p) {
    {
      std::lock_guard order(mutex_);
      before = position();
    }
    const std::size_t piece = take_piece();
    // Data of an earlier from_host in the staging memory goes first: its stream keeps the order.
    if (staged_on_[piece].value_or(stream) != stream) check(d.wait(staged_[piece]), "cuEventSynchronize");
    check(d.to_host(staging_[piece], reinterpret_cast<Address>(from) + p * GpuModel::staging_bytes, size_of_piece(p),
                    stream),
          "cuMemcpyDtoHAsync");
    check(d.record(staged_[piece], stream), "cuEventRecord");
    staged_on_[piece] = stream;
    return piece;
  };
  std::size_t piece = pieces > 0 ? fetch(0) : 0;
  for (std::size_t p = 0; p < pieces; ++p) {
    const std::size_t next = p + 1 < pieces ? fetch(p + 1) : 0;
    check(d.wait(staged_[piece]), "cuEventSynchronize");
    std::memcpy(static_cast<std::byte*>(to) + p * GpuModel::staging_bytes, staging_[piece], size_of_piece(p));
    piece = next;
  }
  if (!streams_.is_own(stream)) return;
  std::lock_guard order(mutex_);
  reached(before);
}

void Gpu::make_slots() {
  void* memory = nullptr;
  check(driver().allocate_host(&memory, model_.error_slots * sizeof(ErrorSlot), kPortable), "cuMemHostAlloc");
  for (std::size_t i = 0; i < model_.error_slots; ++i)
    slots_.push_back(new (static_cast<ErrorSlot*>(memory) + i) ErrorSlot);
}

RunMarkPtr Gpu::begin(std::span<const FilledBy> inputs) {
  use();
  streams_.before_work();
  std::vector<RunMark::Parent> parents;
  for (const FilledBy& by : inputs) {
    RunMarkPtr mark = std::static_pointer_cast<RunMark>(by.mark);
    if (&mark->gpu_ != this) mark->finish();
    parents.push_back({std::move(mark), by.step});
  }
  const Stream stream = streams_.now();
  const bool own = streams_.is_own(stream);
  std::unique_lock lock(mutex_);
  if (++begun_ % model_.runs_per_look == 0 || to_call_ > 0 || !own) settle_done();
  // Successful ones have nothing more to report.
  std::erase_if(parents, [](const RunMark::Parent& p) { return p.mark->settled_ && !p.mark->failed_before(p.step); });
  // Only the last step that is read of each matters.
  std::sort(parents.begin(), parents.end(), [](const RunMark::Parent& a, const RunMark::Parent& b) {
    return a.mark != b.mark ? a.mark < b.mark : a.step > b.step;
  });
  parents.erase(std::unique(parents.begin(), parents.end(),
                            [](const RunMark::Parent& a, const RunMark::Parent& b) { return a.mark == b.mark; }),
                parents.end());
  for (const RunMark::Parent& parent : parents) {
    RunMark& read = *parent.mark;
    if (read.stream_ == stream || &read.gpu_ != this) continue;
    ++waiting_;
    changed_.wait(lock, [&] { return read.ended_.load(std::memory_order_relaxed); });
    --waiting_;
    const bool of_own = streams_.is_own(read.stream_);
    if (read.settled_ || (of_own && read.run_ <= done_.run)) continue;
    if (streams_.capturing()) {
      require(!of_own && driver().query(read.event_) == kSuccess,
              "stream: a graph is captured that reads what is still being computed outside of it");
      continue;
    }
    check(driver().stream_wait(stream, of_own ? milestone_after(read.run_) : read.event_, 0), "cuStreamWaitEvent");
  }
  auto mark = std::make_shared<RunMark>(*this, std::move(parents));
  mark->stream_ = stream;
  mark->captured_ = streams_.capturing();
  if (!mark->captured_) in_flight_.push_back(mark);
  const bool calls = !to_call_now_.empty();
  lock.unlock();
  if (calls) call_done();
  return mark;
}

// Requires the mutex.
Event Gpu::take_event() {
  Event event = nullptr;
  if (events_.empty()) {
    check(driver().create_event(&event, kDisableTiming), "cuEventCreate");
  } else {
    event = events_.back();
    events_.pop_back();
  }
  return event;
}

void Gpu::end(const RunMarkPtr& mark) {
  std::lock_guard guard(mutex_);
  Result recorded = kSuccess;
  if (mark->captured_) {  // nothing to wait for; synchronize() looks for its complaints
    mark->settled_ = true;
    mark->parents_.clear();
    if (mark->slot_) captured_.push_back(mark);
  } else if (streams_.is_own(mark->stream_)) {
    mark->run_ = ++ended_;
    streams_.gave_own_work();
  } else {
    use();  // the other library may have been asked for memory since
    mark->event_ = take_event();
    recorded = driver().record(mark->event_, mark->stream_);
    streams_.ran(mark);
  }
  mark->ended_.store(true, std::memory_order_release);
  if (waiting_) changed_.notify_all();
  check(recorded, "cuEventRecord");
  if (mark->run_ == 0 || (mark->run_ % model_.runs_per_event != 0 && mark->when_done_.empty())) return;
  try {
    milestone();
  } catch (const Error&) {  // the waiting thread gets the error
  }
}

void Gpu::call_when_done(std::function<void()> f) {
  {
    std::lock_guard guard(mutex_);
    settle_done();
    if (!in_flight_.empty()) {
      in_flight_.back()->when_done_.push_back(std::move(f));
      ++to_call_;
      try {
        if (ended_ > done_.run) milestone_after(ended_);  // so that it is found
      } catch (const Error&) {  // a failed device: who waits for a result gets the error, destructors call this one
      }
      return;
    }
  }
  f();
  call_done();
}

void Gpu::call_done() {
  std::vector<std::function<void()>> all;
  {
    std::lock_guard guard(mutex_);
    all.swap(to_call_now_);
  }
  for (const auto& f : all) f();
}

// Requires the mutex. A call that is counted twice, before and after it submits work to the stream, is part of this
// position if the second count is.
Gpu::Position Gpu::position() { return {ended_, streams_.own_work()}; }

void Gpu::reached(Position at) { done_ = {std::max(done_.run, at.run), std::max(done_.work, at.work)}; }

Event Gpu::milestone() {
  const Position now = position();
  if (milestones_.empty() || milestones_.back().at.work != now.work) {
    const Event event = take_event();
    check(driver().record(event, streams_.own()), "cuEventRecord");
    milestones_.push_back({event, now});
  }
  return milestones_.back().event;
}

Event Gpu::milestone_after(std::uint64_t run) {
  for (const Milestone& m : milestones_) {
    if (m.at.run >= run) return m.event;
  }
  return milestone();
}

void Gpu::look_at_milestones() {
  while (!milestones_.empty() && driver().query(milestones_.front().event) != kNotReady) {
    reached(milestones_.front().at);
    events_.push_back(milestones_.front().event);
    milestones_.pop_front();
  }
}

Result Gpu::reach(std::uint64_t run) {
  use();
  Event event = nullptr;
  Position last;
  {
    std::lock_guard guard(mutex_);
    if (done_.run >= run) return kSuccess;
    event = take_event();
    last = position();
    if (const Result result = driver().record(event, streams_.own()); result != kSuccess) return result;
  }
  const Result result = driver().wait(event);
  std::lock_guard guard(mutex_);
  events_.push_back(event);
  if (result == kSuccess) reached(last);
  return result;
}

// Requires the mutex.
void Gpu::settle_done() {
  look_at_milestones();
  // Runs on other libraries' streams have events of their own and need not wait for those begun before them.
  for (const RunMarkPtr& mark : in_flight_) {
    if (mark->settled_ || mark->run_ > 0 || !mark->ended_.load(std::memory_order_relaxed)) continue;
    if (driver().query(mark->event_) == kNotReady) break;
    const bool alone = std::all_of(mark->parents_.begin(), mark->parents_.end(),
                                   [](const RunMark::Parent& parent) { return parent.mark->settled_; });
    if (alone) settle(*mark);
  }
  while (!in_flight_.empty()) {
    RunMark& mark = *in_flight_.front();
    if (!mark.ended_.load(std::memory_order_relaxed)) return;
    if (!mark.settled_) {
      if (mark.run_ > 0 ? mark.run_ > done_.run : driver().query(mark.event_) == kNotReady) return;
      for (const RunMark::Parent& parent : mark.parents_) {
        if (!parent.mark->settled_) return;
      }
      settle(mark);
    }
    to_call_ -= mark.when_done_.size();
    std::move(mark.when_done_.begin(), mark.when_done_.end(), std::back_inserter(to_call_now_));
    in_flight_.pop_front();
  }
}

void Gpu::settle(RunMark& mark) {
  for (const RunMark::Parent& parent : mark.parents_) {
    if (!mark.error_ && parent.mark->failed_before(parent.step)) mark.error_ = parent.mark->error_;  // from step 0 on
  }
  if (!mark.error_ && mark.slot_) {
    mark.error_ = mark.own_error();
    if (mark.error_ && !unseen_) {
      unseen_ = mark.error_;
      unseen_elsewhere_ = !streams_.is_own(mark.stream_);
    }
  }
  mark.settled_ = true;
  mark.parents_.clear();
  mark.steps_.clear();
  mark.recorded_ = nullptr;
  if (mark.slot_) slots_.push_back(std::exchange(mark.slot_, nullptr));
  if (!streams_.is_own(mark.stream_)) events_.push_back(std::exchange(mark.event_, nullptr));
}

// Complaints of the kernels of captured graphs, each time they run.
std::exception_ptr Gpu::error_of_captured() {
  for (const RunMarkPtr& mark : captured_) {
    if (std::exception_ptr error = mark->own_error()) {
      *mark->slot_ = {};
      return error;
    }
  }
  return nullptr;
}

void Gpu::throw_unseen_elsewhere() {
  std::exception_ptr error;
  {
    std::lock_guard guard(mutex_);
    settle_done();
    if (!unseen_elsewhere_) return;
    unseen_elsewhere_ = false;
    error = std::exchange(unseen_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

void Gpu::synchronize() {
  use();
  streams_.require_no_capture("synchronize: the device cannot be waited for");
  streams_.before_work();
  const Stream stream = streams_.now();
  Position before;
  bool captured = false;
  {
    std::lock_guard guard(mutex_);
    before = position();
    captured = !captured_.empty();
  }
  check(driver().synchronize(stream), "cuStreamSynchronize");
  if (captured) check(driver().synchronize_all(), "cuCtxSynchronize");  // the stream that such graphs run on is unknown
  streams_.wait_for_copies();
  std::exception_ptr error;
  {
    std::lock_guard guard(mutex_);
    if (streams_.is_own(stream)) reached(before);
    settle_done();
    error = std::exchange(unseen_, nullptr);
    unseen_elsewhere_ = false;
    if (!error) error = error_of_captured();
  }
  call_done();
  if (error) std::rethrow_exception(error);
}

}  // namespace ebb::cuda
