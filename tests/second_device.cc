// SPDX-License-Identifier: MIT
#include "second_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "backend/backend.h"
#include "cpu/backend.h"
#include "cuda/emulated_device.h"
#include "cuda/kernel_store.h"
#include "cuda/library/library.h"
#include "cuda/print/joined_text.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/error.h"

namespace ebb::testing_device {
namespace {

// Two ranges of addresses of one size: the device's, which is inaccessible, and the memory behind it.
constexpr std::size_t kRange = std::size_t{64} << 30;

class Memory final : public BlockSource {
 public:
  // in_order: runs a function after all work the device was given before.
  explicit Memory(std::function<void(std::function<void()>)> in_order) : in_order_(std::move(in_order)) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    addresses_ = static_cast<std::byte*>(mmap(nullptr, kRange, PROT_NONE, flags, -1, 0));
    behind_ = static_cast<std::byte*>(mmap(nullptr, kRange, PROT_READ | PROT_WRITE, flags, -1, 0));
    if (addresses_ == MAP_FAILED || behind_ == MAP_FAILED) throw Error("no addresses for the second device");
  }
  std::byte* allocate(std::size_t bytes) override {
    std::lock_guard guard(mutex_);
    const auto found = free_.lower_bound(bytes);
    std::byte* address = nullptr;
    if (found != free_.end() && found->first == bytes) {
      address = found->second;
      free_.erase(found);
    } else {
      const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
      if (used_ + rounded > kRange) return nullptr;
      address = addresses_ + used_;
      used_ += rounded;
    }
    // Poisoned in its turn: steps started before may still read memory freed since.
    in_order_([data = real(address), bytes] { std::memset(data, 0xA5, bytes); });
    return address;
  }
  void free(std::byte* data, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    free_.emplace(bytes, data);
  }
  template <class T>
  T* real(T* address) const {
    if (!address) return nullptr;
    const auto* at = reinterpret_cast<const std::byte*>(address);
    if (at < addresses_ || at >= addresses_ + kRange) throw Error("the second device was given an address of the host");
    return reinterpret_cast<T*>(behind_ + (at - addresses_));
  }

 private:
  std::function<void(std::function<void()>)> in_order_;
  std::byte *addresses_, *behind_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::multimap<std::size_t, std::byte*> free_;
};

class DoneMark final : public Mark {
 public:
  explicit DoneMark(std::vector<FilledBy> inputs = {}) : inputs_(std::move(inputs)) {}

  void wait(std::uint32_t step) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_ && failed_at_ <= step) std::rethrow_exception(error_);
  }
  // The rest is called only by the device's thread.
  bool failed() {
    for (const FilledBy& input : std::exchange(inputs_, {})) {  // they precede this run in the same queue
      const auto& mark = static_cast<const DoneMark&>(*input.mark);
      if (mark.error_ && mark.failed_at_ <= input.step) fail(0, mark.error_);
    }
    return error_ != nullptr;
  }
  void fail(std::uint32_t step, std::exception_ptr error) {
    if (error_) return;
    error_ = std::move(error);
    failed_at_ = step;
  }
  void finish() {
    failed();
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::vector<FilledBy> inputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  std::uint32_t failed_at_ = 0;
};

// Records the kernels that a GPU would run, for the tests on an emulated one.
class Recorder {
 public:
  explicit Recorder(const std::string& path) : path_(path) {
    testing::record_kernels(path);
    gpu_ = std::make_unique<cuda::Gpu>(0);
  }
  void sweep(const Program& program, const CompiledSweep* made) {
    Program sorted = cuda::with_sorted_operands(program);
    const std::string text = cuda::print_sweep(sorted).text;
    testing::KernelStore::add_text(path_, {.text = text});
    std::lock_guard guard(mutex_);
    texts_[made] = &*kinds_.try_emplace(text, std::move(sorted)).first;
  }
  // Sweeps of one text would run together.
  std::uint64_t kind(const CompiledSweep* made) {
    std::lock_guard guard(mutex_);
    const auto text = texts_.find(made);
    return text == texts_.end() ? 0 : reinterpret_cast<std::uintptr_t>(text->second);
  }
  void together(const CompiledSweep* made, std::size_t count) {
    std::lock_guard guard(mutex_);
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(2, count));
    if (const auto text = texts_.find(made); text != texts_.end())
      testing::KernelStore::add_text(
          path_, {.text = cuda::joined_text(text->second->second, cuda::plan_kernel(text->second->second), size)});
  }
  void call(const LibraryCall& call) {
    if (!cuda::has_library(call.op) || call.data) return;  // one with a function would call it
    std::lock_guard guard(mutex_);
    const cuda::RunMarkPtr mark = gpu_->begin({});
    try {
      cuda::run_library(call, *gpu_, mark);
    } catch (const Error&) {  // the device itself will report it
    }
    gpu_->end(mark);
  }

 private:
  std::string path_;
  std::mutex mutex_;
  std::unique_ptr<cuda::Gpu> gpu_;
  std::map<std::string, Program> kinds_;  // by text
  std::unordered_map<const CompiledSweep*, const std::pair<const std::string, Program>*> texts_;
};

class SecondDevice final : public Backend {
 public:
  explicit SecondDevice(Device device) : device_(device), thread_([this] { work(); }) { thread_.detach(); }

  SweepPtr compile(const Program& program) override {
    SweepPtr made = cpu::backend().compile(program);
    if (recorder_) recorder_->sweep(program, made.get());
    return made;
  }
  std::uint64_t kind(const CompiledSweep& made) const override { return recorder_ ? recorder_->kind(&made) : 0; }
  void run_together(std::span<const SweepCall> calls, Run& together) override {
    if (recorder_) recorder_->together(calls[0].sweep.get(), calls.size());
    Backend::run_together(calls, together);
  }
  Run begin(std::span<const FilledBy> inputs) override {
    Run run;
    run.device = device_;
    run.mark = std::make_shared<DoneMark>(std::vector<FilledBy>(inputs.begin(), inputs.end()));
    return run;
  }
  void end(Run& run) override {
    enqueue([mark = std::static_pointer_cast<DoneMark>(run.mark)] { mark->finish(); });
  }
  void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) override {
    ++sweeps;
    std::vector<Argument> bound(arguments.begin(), arguments.end());
    for (Argument& a : bound) a.data = memory_.real(a.data);
    step(run, [sweep, bound, first_row = run.first_row] {
      Run host;
      host.first_row = first_row;
      cpu::backend().run(sweep, bound, host);
    });
  }
  bool has(Op op) const override { return cpu::backend().has(op); }
  // As on a GPU, but for smaller products, too; what is recorded for a GPU is what that would run.
  std::int64_t row_step(DType dtype, std::int64_t columns, std::int64_t depth, std::int64_t width) const override {
    const std::int64_t least = recorder_ ? cuda::GpuModel{}.worth_aligning : 2;
    return is_half(dtype) && std::min(depth, width) >= least ? (columns + 7) / 8 * 8 : columns;
  }
  void run(const LibraryCall& call, Run& run) override {
    ++calls;
    if (recorder_) recorder_->call(call);
    std::vector<View> inputs(call.inputs.begin(), call.inputs.end()), outputs(call.outputs.begin(), call.outputs.end());
    for (View& v : inputs) v.data = memory_.real(v.data);
    for (View& v : outputs) v.data = memory_.real(v.data);
    step(run, [call = LibraryCall(call), inputs, outputs]() mutable {
      call.inputs = inputs;
      call.outputs = outputs;
      Run host;
      cpu::backend().run(call, host);
    });
  }
  void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) override {
    from.filled_by.wait();
    copied += static_cast<long>(bytes);
    in_order([&] { std::memcpy(to, memory_.real(from.data) + offset, bytes); });
  }
  void from_host(Buffer& to, const void* from, std::size_t bytes) override {
    copied += static_cast<long>(bytes);
    in_order([&] { std::memcpy(memory_.real(to.data), from, bytes); });
  }
  void synchronize() override {
    std::exception_ptr error;
    in_order([&] { error = std::exchange(unseen_, nullptr); });
    if (error) std::rethrow_exception(error);
  }
  BlockSource& memory() override { return memory_; }
  bool rounds_to_bf16() const override { return cpu::backend().rounds_to_bf16(); }

  std::atomic<long> sweeps{0}, calls{0}, copied{0};

  void record(const std::string& path) { recorder_ = std::make_unique<Recorder>(path); }

 private:
  void step(Run& run, std::function<void()> body) {
    enqueue([this, step = run.step, mark = std::static_pointer_cast<DoneMark>(run.mark), body = std::move(body)] {
      if (mark->failed()) return;
      try {
        body();
      } catch (...) {
        mark->fail(step, std::current_exception());
        unseen_ = std::current_exception();
      }
    });
  }
  // Work that the host waits for also takes its turn after everything started before.
  template <class Body>
  void in_order(Body&& body) {
    const auto done = std::make_shared<DoneMark>();
    enqueue([&body, done] {
      body();
      done->finish();
    });
    done->wait(0);
  }
  void enqueue(std::function<void()> work) {
    std::lock_guard guard(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_one();
  }
  void work() {
    for (;;) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !queue_.empty(); });
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      next();
    }
  }

  Device device_;
  std::unique_ptr<Recorder> recorder_;
  Memory memory_{[this](std::function<void()> work) { enqueue(std::move(work)); }};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr unseen_;  // of the device's thread
  std::thread thread_;
};

SecondDevice& second_device() {
  static auto* device = new SecondDevice(kSecondDevice);
  return *device;
}

}  // namespace

void install_second_device() {
  // Not if (!is_available(...)): there may be a real GPU of that name, which must not be looked for then.
  static const bool once = [] {
    install_backend(kSecondDevice, second_device());
    if (const char* path = std::getenv("EBB_RECORD_KERNELS")) second_device().record(path);
    return true;
  }();
  static_cast<void>(once);
}

Backend& new_second_device(Device device) { return *new SecondDevice(device); }

SecondDeviceWork second_device_work() {
  return {second_device().sweeps, second_device().calls, second_device().copied};
}

}  // namespace ebb::testing_device
