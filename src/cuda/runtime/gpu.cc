#include "cuda/runtime/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

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
  require(major >= 8, "cuda: {} has compute capability {}.{}; Ebb needs 8.0 or higher", name_, major, minor);
  architecture_ = fmt::format("sm_{}{}", major, minor);
  check(d.retain_context(&context_, device), "cuDevicePrimaryCtxRetain");
  use();
  check(d.create_stream(&stream_, kNonBlocking), "cuStreamCreate");
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
    driver().free(reinterpret_cast<Address>(data));  // waits for the device: nothing uses it any more
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

Function Gpu::kernel(const std::string& text, const char* name) {
  {
    std::lock_guard guard(kernels_mutex_);
    if (const auto m = modules_.find(text); m != modules_.end()) {
      if (const auto f = functions_.find({m->second, name}); f != functions_.end()) return f->second;
    }
  }
  const std::string code = machine_code(text, architecture_);
  use();
  std::lock_guard guard(kernels_mutex_);
  Module& module = modules_[text];
  if (!module) check(driver().load_module(&module, code.data()), "cuModuleLoadData");
  Function& function = functions_[{module, name}];
  if (!function) check(driver().function(&function, module, name), "cuModuleGetFunction");
  if (waits_for_each_kernel()) texts_of_kernels()[function] = fmt::format("{}, of\n{}", name, text);
  return function;
}

void Gpu::launch(Function kernel, unsigned blocks, std::span<const std::uint64_t> arguments) {
  void* parameters[] = {const_cast<std::uint64_t*>(arguments.data())};
  check(driver().launch(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream(), parameters, nullptr), "cuLaunchKernel");
  if (Recorder* const recorder = Recorder::of_thread()) return recorder->add(kernel, blocks, arguments);
  if (!waits_for_each_kernel()) return;
  if (const Result result = driver().synchronize(stream_); result != kSuccess) {
    const char* text = nullptr;
    driver().error_text(result, &text);
    std::lock_guard guard(kernels_mutex_);
    fail(Error::Kind::value, "cuda: {} ({} blocks) in kernel {}", text ? text : "an error", blocks,
         texts_of_kernels()[kernel]);
  }
}

Stream Gpu::stream() const {
  const Recorder* const recorder = Recorder::of_thread();
  return recorder && &recorder->gpu() == this ? recording_stream_ : stream_;
}

Stream Gpu::recording_stream() {
  if (!recording_stream_) check(driver().create_stream(&recording_stream_, kNonBlocking), "cuStreamCreate");
  return recording_stream_;
}

void Gpu::clear(void* data, std::size_t bytes) {
  if (bytes) check(driver().set_bytes(reinterpret_cast<Address>(data), 0, bytes, stream()), "cuMemsetD8Async");
}

std::size_t Gpu::take_piece() {
  const std::size_t piece = next_piece_++ % kPieces;
  if (staging_[piece]) return piece;
  void* memory = nullptr;
  check(driver().allocate_host(&memory, kStaging, kPortable), "cuMemHostAlloc");
  check(driver().create_event(&staged_[piece], kDisableTiming), "cuEventCreate");
  staging_[piece] = static_cast<std::byte*>(memory);
  return piece;
}

// While one piece is on its way the next is copied.
void Gpu::from_host(void* to, const void* from, std::size_t bytes) {
  use();
  const Driver& d = driver();
  std::lock_guard guard(staging_mutex_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = take_piece(), n = std::min(kStaging, bytes - done);
    if (d.query(staged_[piece]) == kNotReady) check(d.wait(staged_[piece]), "cuEventSynchronize");  // its last use
    std::memcpy(staging_[piece], static_cast<const std::byte*>(from) + done, n);
    check(d.to_device(reinterpret_cast<Address>(to) + done, staging_[piece], n, stream_), "cuMemcpyHtoDAsync");
    check(d.record(staged_[piece], stream_), "cuEventRecord");
    done += n;
  }
}

void Gpu::to_host(void* to, const void* from, std::size_t bytes) {
  use();
  const Driver& d = driver();
  std::lock_guard guard(staging_mutex_);
  const std::size_t pieces = (bytes + kStaging - 1) / kStaging;
  const auto size_of_piece = [&](std::size_t p) { return std::min(kStaging, bytes - p * kStaging); };
  std::uint64_t ended = 0;
  // What an earlier from_host left in the staging memory goes first: the stream keeps the order.
  const auto fetch = [&](std::size_t p) {
    ended = last_ended();
    const std::size_t piece = take_piece();
    check(d.to_host(staging_[piece], reinterpret_cast<Address>(from) + p * kStaging, size_of_piece(p), stream_),
          "cuMemcpyDtoHAsync");
    check(d.record(staged_[piece], stream_), "cuEventRecord");
    return piece;
  };
  std::size_t piece = pieces > 0 ? fetch(0) : 0;
  for (std::size_t p = 0; p < pieces; ++p) {
    const std::size_t next = p + 1 < pieces ? fetch(p + 1) : 0;
    check(d.wait(staged_[piece]), "cuEventSynchronize");
    std::memcpy(static_cast<std::byte*>(to) + p * kStaging, staging_[piece], size_of_piece(p));
    piece = next;
  }
  reached(ended);  // what was in the stream before the last piece
}

void Gpu::make_slots() {
  constexpr std::size_t kMany = 1024;
  void* memory = nullptr;
  check(driver().allocate_host(&memory, kMany * sizeof(ErrorSlot), kPortable), "cuMemHostAlloc");
  for (std::size_t i = 0; i < kMany; ++i) slots_.push_back(new (static_cast<ErrorSlot*>(memory) + i) ErrorSlot);
}

RunMarkPtr Gpu::begin(std::span<const FilledBy> inputs) {
  use();
  std::vector<RunMark::Parent> parents;
  for (const FilledBy& by : inputs) {
    RunMarkPtr mark = std::static_pointer_cast<RunMark>(by.mark);
    if (&mark->gpu_ != this) mark->finish();
    parents.push_back({std::move(mark), by.step});
  }
  std::lock_guard guard(mutex_);
  if (++begun_ % kRunsPerLook == 0) settle_done();
  // Those that went well say nothing more.
  std::erase_if(parents, [](const RunMark::Parent& p) { return p.mark->settled_ && !p.mark->failed_before(p.step); });
  // Of each only the last step that is read.
  std::sort(parents.begin(), parents.end(), [](const RunMark::Parent& a, const RunMark::Parent& b) {
    return a.mark != b.mark ? a.mark < b.mark : a.step > b.step;
  });
  parents.erase(std::unique(parents.begin(), parents.end(),
                            [](const RunMark::Parent& a, const RunMark::Parent& b) { return a.mark == b.mark; }),
                parents.end());
  return std::make_shared<RunMark>(*this, std::move(parents));
}

// With the mutex held.
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
  mark->run_ = ++ended_;
  in_flight_.push_back(mark);
  mark->ended_.store(true, std::memory_order_release);
  if (waiting_) changed_.notify_all();
  if (ended_ % kRunsPerEvent != 0) return;
  const Event event = take_event();
  if (driver().record(event, stream_) == kSuccess) {
    milestones_.push_back({event, ended_});
  } else {
    events_.push_back(event);  // whoever waits hears of it
  }
}

std::uint64_t Gpu::last_ended() {
  std::lock_guard guard(mutex_);
  return ended_;
}

void Gpu::reached(std::uint64_t run) {
  std::lock_guard guard(mutex_);
  done_ = std::max(done_, run);
}

Result Gpu::reach(std::uint64_t run) {
  use();
  Event event = nullptr;
  std::uint64_t last = 0;
  {
    std::lock_guard guard(mutex_);
    if (done_ >= run) return kSuccess;
    event = take_event();
    last = ended_;
    if (const Result result = driver().record(event, stream_); result != kSuccess) return result;
  }
  const Result result = driver().wait(event);
  std::lock_guard guard(mutex_);
  events_.push_back(event);
  if (result == kSuccess) done_ = std::max(done_, last);
  return result;
}

// With the mutex held.
void Gpu::settle_done() {
  while (!milestones_.empty() && driver().query(milestones_.front().event) != kNotReady) {
    done_ = std::max(done_, milestones_.front().run);
    events_.push_back(milestones_.front().event);
    milestones_.pop_front();
  }
  while (!in_flight_.empty()) {
    RunMark& mark = *in_flight_.front();
    if (!mark.settled_) {
      if (mark.run_ > done_) return;
      for (const RunMark::Parent& parent : mark.parents_) {
        if (!parent.mark->settled_) return;
      }
      settle(mark);
    }
    in_flight_.pop_front();
  }
}

void Gpu::settle(RunMark& mark) {
  for (const RunMark::Parent& parent : mark.parents_) {
    if (!mark.error_ && parent.mark->failed_before(parent.step)) mark.error_ = parent.mark->error_;  // from step 0 on
  }
  if (!mark.error_ && mark.slot_) {
    mark.error_ = mark.own_error();
    if (mark.error_ && !unseen_) unseen_ = mark.error_;
  }
  mark.settled_ = true;
  mark.parents_.clear();
  mark.steps_.clear();
  mark.recorded_ = nullptr;
  if (mark.slot_) slots_.push_back(std::exchange(mark.slot_, nullptr));
}

void Gpu::synchronize() {
  use();
  const std::uint64_t ended = last_ended();
  check(driver().synchronize(stream_), "cuStreamSynchronize");
  reached(ended);
  std::exception_ptr error;
  {
    std::lock_guard guard(mutex_);
    settle_done();
    error = std::exchange(unseen_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

ErrorSlot* RunMark::slot() {
  if (slot_) return slot_;
  std::lock_guard guard(gpu_.mutex_);
  if (gpu_.slots_.empty()) gpu_.make_slots();
  slot_ = gpu_.slots_.back();
  gpu_.slots_.pop_back();
  *slot_ = {};
  return slot_;
}

std::shared_ptr<const RunMark::CheckedSteps> RunMark::give_steps() {
  return std::make_shared<const CheckedSteps>(std::exchange(steps_, {}));
}

std::uint64_t RunMark::add_step(Explain explain) {
  constexpr std::size_t kMostSteps = 1u << (64 - ErrorSlot::kCheckBits - ErrorSlot::kPositionBits);
  if (steps_.size() == kMostSteps - 1) {  // the last number: those before it have to be heard first
    if (Recorder::of_thread()) fail(Error::Kind::value, "cuda: a recording has {} steps that may fail", steps_.size());
    check(driver().synchronize(gpu_.stream()), "cuStreamSynchronize");
    if (slot_) {
      if (const std::exception_ptr error = own_error()) std::rethrow_exception(error);
    }
    steps_.clear();
  }
  steps_.push_back({std::move(explain), step_});
  return steps_.size() - 1;
}

std::exception_ptr RunMark::own_error() {
  const CheckedSteps& steps = recorded_ ? *recorded_ : steps_;
  const std::uint64_t key = *const_cast<const volatile std::uint64_t*>(&slot_->key);
  if (key == ErrorSlot::kNone) return nullptr;
  const auto check = static_cast<int>(key & ((1u << ErrorSlot::kCheckBits) - 1));
  const std::uint64_t position = key >> ErrorSlot::kCheckBits & ((std::uint64_t{1} << ErrorSlot::kPositionBits) - 1);
  const std::uint64_t step = key >> (ErrorSlot::kCheckBits + ErrorSlot::kPositionBits);
  failed_at_ = steps[step].step;
  return std::make_exception_ptr(steps[step].explain(check, static_cast<std::int64_t>(position), slot_->bits));
}

void RunMark::wait_until_ended() {
  if (ended_.load(std::memory_order_acquire)) return;
  std::unique_lock lock(gpu_.mutex_);
  ++gpu_.waiting_;
  gpu_.changed_.wait(lock, [this] { return ended_.load(std::memory_order_relaxed); });
  --gpu_.waiting_;
}

void RunMark::finish() {
  wait_until_ended();
  std::vector<Parent> parents;
  {
    std::lock_guard guard(gpu_.mutex_);
    if (settled_) return;
    parents = parents_;
  }
  for (const Parent& parent : parents) parent.mark->finish();
  const Result result = gpu_.reach(run_);
  std::lock_guard guard(gpu_.mutex_);
  if (settled_) return;
  if (result != kSuccess) {
    try {
      check(result, "cuEventSynchronize");
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  gpu_.settle(*this);
}

void RunMark::look_into_run() {
  for (const Parent& parent : parents_) parent.mark->wait(parent.step);
  check(driver().synchronize(gpu_.stream()), "cuStreamSynchronize");
  if (!slot_) return;
  if (const std::exception_ptr error = own_error()) std::rethrow_exception(error);
}

void RunMark::wait(std::uint32_t step) {
  if (!ended_.load(std::memory_order_acquire) && thread_ == std::this_thread::get_id()) return look_into_run();
  finish();
  if (!failed_before(step)) return;
  {
    std::lock_guard guard(gpu_.mutex_);
    if (gpu_.unseen_ == error_) gpu_.unseen_ = nullptr;
  }
  std::rethrow_exception(error_);
}

}  // namespace ebb::cuda
