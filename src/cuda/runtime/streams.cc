// SPDX-License-Identifier: MIT
#include "cuda/runtime/streams.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/format_error.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

struct GpuStreams::Entered {
  const GpuStreams* of;
  Stream stream;
  bool captured;        // work submitted to the stream becomes part of a graph
  int mode_before = 0;  // of this thread towards captures
  Context context_before = nullptr;
  Entered* outer;
};

namespace {

thread_local void* innermost = nullptr;  // GpuStreams::Entered

// Sets the GPU's context temporarily: these calls come from other libraries' threads, which then continue with theirs.
class Briefly {
 public:
  explicit Briefly(const Gpu& gpu) {
    check(driver().current_context(&before_), "cuCtxGetCurrent");
    gpu.use();
  }
  ~Briefly() { driver().set_context(before_); }
  Briefly(const Briefly&) = delete;

 private:
  Context before_ = nullptr;
};

bool is_captured(Stream stream) {
  if (stream == nullptr || stream == kLegacyStream) return false;  // the default stream is never captured
  int status = 0;
  check(driver().is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

}  // namespace

void GpuStreams::make_own() {
  check(driver().create_stream(&own_, kNonBlocking), "cuStreamCreate");
  check(driver().create_event(&crossing_, kDisableTiming), "cuEventCreate");
}

Stream GpuStreams::copies() {
  if (Stream const made = copies_.load(std::memory_order_acquire)) return made;
  gpu_.use();
  std::lock_guard guard(gpu_.mutex_);
  if (Stream const made = copies_.load(std::memory_order_acquire)) return made;
  // The driver's pool keeps its memory: a loader allocates and frees the same sizes again and again.
  MemoryPool pool = nullptr;
  std::uint64_t all = ~std::uint64_t{0};
  int device = 0;
  check(driver().device(&device, gpu_.index()), "cuDeviceGet");
  check(driver().default_pool(&pool, device), "cuDeviceGetDefaultMemPool");
  check(driver().set_pool(pool, kReleaseThreshold, &all), "cuMemPoolSetAttribute");
  Stream made = nullptr;
  check(driver().create_stream(&made, kNonBlocking), "cuStreamCreate");
  copies_.store(made, std::memory_order_release);
  return made;
}

void GpuStreams::wait_for_copies() {
  if (Stream const stream = copies_.load(std::memory_order_acquire))
    check(driver().synchronize(stream), "cuStreamSynchronize");
}

GpuStreams::Entered* GpuStreams::entered() const {
  auto* e = static_cast<Entered*>(innermost);
  while (e && e->of != this) e = e->outer;
  return e;
}

Stream GpuStreams::now() const {
  if (!innermost) return own_;
  const Entered* const e = entered();
  return e ? e->stream : own_;
}

bool GpuStreams::is_entered() const { return innermost && entered(); }

bool GpuStreams::capturing() const {
  if (!innermost) return false;
  const Entered* const e = entered();
  return e && e->captured;
}

void GpuStreams::require_no_capture(const char* what) const {
  require(!capturing(), "{} while a CUDA graph is captured from the stream: do it before or after the capture", what);
}

void GpuStreams::connect(Stream earlier, Stream later) {
  if (earlier == later) return;
  check(driver().record(crossing_, earlier), "cuEventRecord");
  check(driver().stream_wait(later, crossing_, 0), "cuStreamWaitEvent");
}

void GpuStreams::wait_for_own_work(Stream stream) {
  const auto is_done = [this] { return gpu_.done_.work == own_work(); };
  if (is_done()) return;
  if (capturing()) {  // a graph cannot wait for work outside of it
    const Gpu::Position now = gpu_.position();
    check(driver().synchronize(own_), "cuStreamSynchronize");
    return gpu_.reached(now);
  }
  gpu_.look_at_milestones();
  if (!is_done()) check(driver().stream_wait(stream, gpu_.milestone(), 0), "cuStreamWaitEvent");
}

void GpuStreams::before_work() {
  if (!is_own(now())) return;
  gave_own_work();
  wait_for_others();
}

void GpuStreams::wait_for_others() {
  if (!elsewhere_.load(std::memory_order_acquire)) return;
  std::lock_guard guard(gpu_.mutex_);
  elsewhere_ = false;
  for (const auto& [stream, mark] : std::exchange(last_on_, {})) {
    if (!mark->settled_) check(driver().stream_wait(own_, mark->event_, 0), "cuStreamWaitEvent");
  }
}

void GpuStreams::ran(RunMarkPtr mark) {
  const Stream stream = mark->stream_;
  if (is_of_copies(stream)) return;
  last_on_[stream] = std::move(mark);
  elsewhere_ = true;
}

void GpuStreams::enter(void* given) {
  const auto stream = static_cast<Stream>(given);
  auto made = std::make_unique<Entered>();
  made->of = this;
  made->stream = stream;
  made->outer = static_cast<Entered*>(innermost);
  check(driver().current_context(&made->context_before), "cuCtxGetCurrent");
  gpu_.use();
  made->captured = is_captured(stream);
  // A capture forbids its process any call that could wait for it. Calls of this thread meanwhile (loading kernels,
  // querying events) do not.
  made->mode_before = kCaptureRelaxed;
  if (made->captured) check(driver().capture_mode(&made->mode_before), "cuThreadExchangeStreamCaptureMode");
  innermost = made.release();
  try {
    if (is_of_copies(stream)) return;
    gpu_.throw_unseen_elsewhere();
    if (is_own(stream)) return;
    if (last_entered_.exchange(stream) != stream) ++times_entered_;
    std::lock_guard guard(gpu_.mutex_);
    wait_for_own_work(stream);
  } catch (...) {
    leave();
    throw;
  }
}

void GpuStreams::leave() noexcept {
  const std::unique_ptr<Entered> e(static_cast<Entered*>(innermost));
  innermost = e->outer;
  if (e->captured) driver().capture_mode(&e->mode_before);
  driver().set_context(e->context_before);
}

// The given memory or cuMemAllocAsync's: both follow the order of their stream.
class GpuStreams::OrderedMemory final : public StreamMemory {
 public:
  OrderedMemory(GpuStreams& streams, Stream stream, std::shared_ptr<StreamMemory> given)
      : streams_(streams), stream_(stream), given_(std::move(given)) {}
  void* allocate(std::size_t bytes) override {
    if (made_at_ == kNever) made_at_ = streams_.changes_of_order();
    if (given_) return given_->allocate(bytes);
    streams_.gpu_.use();
    Address address = 0;
    const Result result = driver().allocate_async(&address, bytes ? bytes : 1, stream_);
    if (result == kOutOfMemory) return nullptr;
    check(result, "cuMemAllocAsync");
    return reinterpret_cast<void*>(address);
  }
  void free(void* data) noexcept override {
    try {
      // It may have been read elsewhere; copies always are.
      if (streams_.is_of_copies(stream_) || streams_.changes_of_order() != made_at_) streams_.let_wait(stream_);
      if (given_) return given_->free(data);
      const Briefly there(streams_.gpu_);
      driver().free_async(reinterpret_cast<Address>(data), stream_);
    } catch (const Error&) {  // the driver is gone at the end of a program
    }
  }

 private:
  GpuStreams& streams_;
  Stream stream_;
  std::shared_ptr<StreamMemory> given_;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t made_at_ = kNever;
};

std::shared_ptr<StreamMemory> GpuStreams::memory(void* stream, std::shared_ptr<StreamMemory> given) {
  return std::make_shared<OrderedMemory>(*this, static_cast<Stream>(stream), std::move(given));
}

void GpuStreams::let_wait(void* given) {
  const auto stream = static_cast<Stream>(given);
  if (stream == now()) return;
  const Briefly there(gpu_);
  if (is_captured(stream)) return;  // the capturing library has waited before
  if (is_own(now())) wait_for_others();
  std::lock_guard guard(gpu_.mutex_);
  if (Stream const copies = copies_.load(std::memory_order_relaxed)) connect(copies, stream);
  connect(now(), stream);
}

void GpuStreams::wait_for(void* given) {
  const auto stream = static_cast<Stream>(given);
  const Briefly there(gpu_);
  if (is_captured(stream)) return;
  std::lock_guard guard(gpu_.mutex_);
  connect(stream, own_);
}

std::function<void()> GpuStreams::after_use(std::function<void()> release) {
  // Inside an entered stream the owner's order is the thread's own, as long as no work runs elsewhere.
  const bool in_order = !is_own(now());
  return [this, in_order, at = changes_of_order(), release = std::move(release)] {
    if (in_order && changes_of_order() == at) {
      release();
    } else {
      gpu_.call_when_done(release);
    }
  };
}

}  // namespace ebb::cuda
