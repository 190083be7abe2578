#include "cuda/runtime/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "core/format_error.h"
#include "cuda/runtime/kernel_cache.h"

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
    driver().free(reinterpret_cast<Address>(data));  // waits for the device: nothing uses it any more
  } catch (const Error&) {                           // the driver is gone at the end of a program
  }
}

// EBB_CUDA_SYNC=1: each launch is waited for, and one that fails says which kernel it was. For finding mistakes.
static bool waits_for_each_kernel() {
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
  if (!waits_for_each_kernel() || streams_.capturing()) return;
  if (const Result result = driver().synchronize(stream()); result != kSuccess) {
    const char* text = nullptr;
    driver().error_text(result, &text);
    std::lock_guard guard(kernels_mutex_);
    fail(Error::Kind::value, "cuda: {} ({} blocks) in kernel {}", text ? text : "an error", blocks,
         texts_of_kernels()[kernel]);
  }
}

void Gpu::clear(void* data, std::size_t bytes) {
  if (bytes) check(driver().set_bytes(reinterpret_cast<Address>(data), 0, bytes, stream()), "cuMemsetD8Async");
}

// Two pieces take turns: while one is on its way the other is copied.
void Gpu::from_host(void* to, const void* from, std::size_t bytes) {
  use();
  streams_.require_no_capture("to: elements cannot be copied to the device");
  streams_.before_work();
  const Driver& d = driver();
  std::lock_guard guard(staging_mutex_);
  for (std::size_t done = 0, piece = 0; done < bytes; ++piece) {
    const std::size_t side = piece % 2, n = std::min(kStaging, bytes - done);
    if (!staging_[side]) {
      void* memory = nullptr;
      check(d.allocate_host(&memory, kStaging, kPortable), "cuMemHostAlloc");
      staging_[side] = static_cast<std::byte*>(memory);
      check(d.create_event(&staged_[side], kDisableTiming), "cuEventCreate");
    } else {
      check(d.wait(staged_[side]), "cuEventSynchronize");  // whoever used it before
    }
    std::memcpy(staging_[side], static_cast<const std::byte*>(from) + done, n);
    check(d.to_device(reinterpret_cast<Address>(to) + done, staging_[side], n, stream()), "cuMemcpyHtoDAsync");
    check(d.record(staged_[side], stream()), "cuEventRecord");
    staged_on_[side] = stream();
    done += n;
  }
}

void Gpu::to_host(void* to, const void* from, std::size_t bytes) {
  use();
  streams_.require_no_capture("item: values cannot be read");
  streams_.before_work();
  const Driver& d = driver();
  std::lock_guard guard(staging_mutex_);
  for (std::size_t side = 0; side < 2; ++side) {
    if (staging_[side]) continue;
    void* memory = nullptr;
    check(d.allocate_host(&memory, kStaging, kPortable), "cuMemHostAlloc");
    staging_[side] = static_cast<std::byte*>(memory);
    check(d.create_event(&staged_[side], kDisableTiming), "cuEventCreate");
  }
  const std::size_t pieces = (bytes + kStaging - 1) / kStaging;
  const auto size_of_piece = [&](std::size_t p) { return std::min(kStaging, bytes - p * kStaging); };
  const auto fetch = [&](std::size_t p) {
    check(d.to_host(staging_[p % 2], reinterpret_cast<Address>(from) + p * kStaging, size_of_piece(p), stream()),
          "cuMemcpyDtoHAsync");
    check(d.record(staged_[p % 2], stream()), "cuEventRecord");
    staged_on_[p % 2] = stream();
  };
  // What an earlier from_host left in the staging memory goes first: its stream keeps the order.
  for (std::size_t side = 0; side < 2; ++side) {
    if (staged_on_[side] != stream()) check(d.wait(staged_[side]), "cuEventSynchronize");
  }
  if (pieces > 0) fetch(0);
  for (std::size_t p = 0; p < pieces; ++p) {
    if (p + 1 < pieces) fetch(p + 1);
    check(d.wait(staged_[p % 2]), "cuEventSynchronize");
    std::memcpy(static_cast<std::byte*>(to) + p * kStaging, staging_[p % 2], size_of_piece(p));
  }
}

void Gpu::make_slots() {
  constexpr std::size_t kMany = 1024;
  void* memory = nullptr;
  check(driver().allocate_host(&memory, kMany * sizeof(ErrorSlot), kPortable), "cuMemHostAlloc");
  for (std::size_t i = 0; i < kMany; ++i) slots_.push_back(new (static_cast<ErrorSlot*>(memory) + i) ErrorSlot);
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
  call_done();
  std::unique_lock lock(mutex_);
  settle_done();
  // Those that went well say nothing more.
  std::erase_if(parents, [](const RunMark::Parent& p) { return p.mark->settled_ && !p.mark->failed_before(p.step); });
  // Of each only the last step that is read.
  std::sort(parents.begin(), parents.end(), [](const RunMark::Parent& a, const RunMark::Parent& b) {
    return a.mark != b.mark ? a.mark < b.mark : a.step > b.step;
  });
  parents.erase(std::unique(parents.begin(), parents.end(),
                            [](const RunMark::Parent& a, const RunMark::Parent& b) { return a.mark == b.mark; }),
                parents.end());
  const Stream stream = this->stream();
  for (const RunMark::Parent& parent : parents) {
    if (parent.mark->stream_ == stream) continue;
    changed_.wait(lock, [&] { return parent.mark->ended_; });
    if (parent.mark->settled_) continue;
    require(!streams_.capturing(), "stream: a graph is captured that reads what is still being computed outside of it");
    check(driver().stream_wait(stream, parent.mark->event_, 0), "cuStreamWaitEvent");
  }
  auto mark = std::make_shared<RunMark>(*this, std::move(parents));
  mark->stream_ = stream;
  mark->captured_ = streams_.capturing();
  if (slots_.empty()) make_slots();
  mark->slot_ = slots_.back();
  slots_.pop_back();
  *mark->slot_ = {};
  if (mark->captured_) return mark;
  if (events_.empty()) {
    check(driver().create_event(&mark->event_, kDisableTiming), "cuEventCreate");
  } else {
    mark->event_ = events_.back();
    events_.pop_back();
  }
  in_flight_.push_back(mark);
  return mark;
}

void Gpu::end(const RunMarkPtr& mark) {
  use();
  streams_.ran(mark);
  const Result recorded = mark->captured_ ? kSuccess : driver().record(mark->event_, mark->stream_);
  std::lock_guard guard(mutex_);
  mark->ended_ = true;
  if (mark->captured_) {  // there is nothing to wait for; what it complains of is looked for by synchronize()
    mark->settled_ = true;
    mark->parents_.clear();
    captured_.push_back(mark);
  }
  changed_.notify_all();
  check(recorded, "cuEventRecord");
}

void Gpu::call_when_done(std::function<void()> f) {
  {
    std::lock_guard guard(mutex_);
    settle_done();
    if (!in_flight_.empty()) {
      in_flight_.back()->when_done_.push_back(std::move(f));
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
    all.swap(done_);
  }
  for (const auto& f : all) f();
}

// With the mutex held.
void Gpu::settle_done() {
  while (!in_flight_.empty()) {
    RunMark& mark = *in_flight_.front();
    if (!mark.ended_) return;
    if (!mark.settled_) {
      if (driver().query(mark.event_) == kNotReady) return;
      for (const RunMark::Parent& parent : mark.parents_) {
        if (!parent.mark->settled_) return;
      }
      settle(mark);
    }
    std::move(mark.when_done_.begin(), mark.when_done_.end(), std::back_inserter(done_));
    in_flight_.pop_front();
  }
}

void Gpu::settle(RunMark& mark) {
  for (const RunMark::Parent& parent : mark.parents_) {
    if (!mark.error_ && parent.mark->failed_before(parent.step)) mark.error_ = parent.mark->error_;  // from step 0 on
  }
  if (!mark.error_) {
    mark.error_ = mark.own_error();
    if (mark.error_ && !unseen_) {
      unseen_ = mark.error_;
      unseen_elsewhere_ = !streams_.is_own(mark.stream_);
    }
  }
  mark.settled_ = true;
  mark.parents_.clear();
  mark.steps_.clear();
  slots_.push_back(mark.slot_);
  events_.push_back(mark.event_);
  mark.slot_ = nullptr;
  mark.event_ = nullptr;
}

// What the kernels of captured graphs complain of, each time they are run.
std::exception_ptr Gpu::error_of_captured() {
  for (const RunMarkPtr& mark : captured_) {
    if (const std::exception_ptr error = mark->own_error()) {
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
  const std::uint64_t work = streams_.before_work();
  check(driver().synchronize(stream()), "cuStreamSynchronize");
  streams_.wait_for_copies();
  std::exception_ptr error;
  {
    std::lock_guard guard(mutex_);
    streams_.is_done(work);
    settle_done();
    error = std::exchange(unseen_, nullptr);
    unseen_elsewhere_ = false;
    if (!error) error = error_of_captured();
  }
  call_done();
  if (error) std::rethrow_exception(error);
}

std::uint64_t RunMark::add_step(Explain explain) {
  constexpr std::size_t kMostSteps = 1u << (64 - ErrorSlot::kCheckBits - ErrorSlot::kPositionBits);
  if (steps_.size() == kMostSteps - 1) {  // the last number: those before it have to be heard first
    check(driver().synchronize(stream_), "cuStreamSynchronize");
    if (const std::exception_ptr error = own_error()) std::rethrow_exception(error);
    steps_.clear();
  }
  steps_.push_back({std::move(explain), step_});
  return steps_.size() - 1;
}

std::exception_ptr RunMark::own_error() {
  const std::uint64_t key = *const_cast<const volatile std::uint64_t*>(&slot_->key);
  if (key == ErrorSlot::kNone) return nullptr;
  const auto check = static_cast<int>(key & ((1u << ErrorSlot::kCheckBits) - 1));
  const std::uint64_t position = key >> ErrorSlot::kCheckBits & ((std::uint64_t{1} << ErrorSlot::kPositionBits) - 1);
  const std::uint64_t step = key >> (ErrorSlot::kCheckBits + ErrorSlot::kPositionBits);
  failed_at_ = steps_[step].step;
  return std::make_exception_ptr(steps_[step].explain(check, static_cast<std::int64_t>(position), slot_->bits));
}

void RunMark::finish() {
  std::vector<Parent> parents;
  Event event = nullptr;
  {
    std::unique_lock lock(gpu_.mutex_);
    gpu_.changed_.wait(lock, [this] { return ended_; });
    if (settled_) return;
    parents = parents_;
    event = event_;
  }
  for (const Parent& parent : parents) parent.mark->finish();
  gpu_.use();
  const Result result = driver().wait(event);
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

void RunMark::wait(std::uint32_t step) {
  finish();
  if (!failed_before(step)) return;
  {
    std::lock_guard guard(gpu_.mutex_);
    if (gpu_.unseen_ == error_) {
      gpu_.unseen_ = nullptr;
      gpu_.unseen_elsewhere_ = false;
    }
  }
  std::rethrow_exception(error_);
}

}  // namespace ebb::cuda
