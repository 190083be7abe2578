#include "cuda/backend.h"

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>

#include "core/format_error.h"
#include "cuda/library/kernels.h"
#include "cuda/library/library.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "cuda/runtime/kernel_cache.h"

namespace ebb::cuda {
namespace {

struct Sweep final : CompiledSweep {
  Program program;
  SweepText text;
  std::shared_future<void> compiled;  // the machine code is in the cache
};

// The sweeps of a plan are compiled side by side, while the plan is still being made.
std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture) {
  static auto* const places = new std::counting_semaphore<>(std::max(1u, std::thread::hardware_concurrency()));
  return std::async(std::launch::async,
                    [text, architecture] {
                      places->acquire();
                      try {
                        machine_code(text, architecture);
                      } catch (...) {
                        places->release();
                        throw;
                      }
                      places->release();
                    })
      .share();
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index) : gpu_(index), device_{Device::Kind::cuda, static_cast<std::uint8_t>(index)} {}

  SweepPtr compile(const Program& program) override {
    auto sweep = std::make_shared<Sweep>();
    sweep->program = program;
    sweep->text = print_sweep(program);
    sweep->compiled = start_compiling(sweep->text.text, gpu_.architecture());
    return sweep;
  }

  Run begin(std::span<const FilledBy> inputs) override {
    Run run;
    run.device = device_;
    run.stream = gpu_.stream();
    run.mark = gpu_.begin(inputs);
    return run;
  }
  void end(Run& run) override { gpu_.end(std::static_pointer_cast<RunMark>(run.mark)); }

  void run(const SweepPtr& made, std::span<const Argument> arguments, Run& run) override {
    const auto sweep = std::static_pointer_cast<const Sweep>(made);
    const SweepText& text = sweep->text;
    auto& mark = static_cast<RunMark&>(*run.mark);
    mark.begin_step(run.step);
    sweep->compiled.get();
    gpu_.use();
    BufferPtr workspace;
    if (text.workspace) workspace = BufferPtr::allocate(text.workspace, "a reduction", device_);
    std::uint64_t step = 0;
    if (!text.checks.empty()) {
      step = mark.add_step([sweep](int check, std::int64_t position, std::uint64_t bits) {
        return complaint(sweep->program, sweep->text.checks[static_cast<std::size_t>(check)], position, bits);
      });
    }
    const std::vector<std::uint64_t> words = bound_words(text, arguments, mark.slot(), step, workspace.data());
    gpu_.launch(gpu_.kernel(text.text, "sweep"), text.blocks, words);
    if (text.finish_blocks) gpu_.launch(gpu_.kernel(text.text, "finish"), text.finish_blocks, words);
  }

  bool has(Op op) const override { return has_library(op); }
  void run(const LibraryCall& call, Run& run) override {
    gpu_.use();
    const auto mark = std::static_pointer_cast<RunMark>(run.mark);
    mark->begin_step(run.step);
    run_library(call, gpu_, mark);
  }

  void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) override {
    from.filled_by.wait();
    gpu_.to_host(to, from.data + offset, bytes);
  }
  void from_host(Buffer& to, const void* from, std::size_t bytes) override {
    if (gpu_.streams().is_own(gpu_.stream())) return gpu_.from_host(to.data, from, bytes);
    const RunMarkPtr mark = gpu_.begin({});  // what is done elsewhere is waited for
    gpu_.from_host(to.data, from, bytes);
    gpu_.end(mark);
    to.filled_by = {mark, 0};
  }
  void synchronize() override { gpu_.synchronize(); }
  BlockSource& memory() override { return gpu_.memory(); }
  Gpu& gpu() { return gpu_; }
  Streams* streams() override { return &gpu_.streams(); }
  void scale(const View& data, const View& factor) override {
    gpu_.use();
    gpu_.streams().before_work();
    scale_elements(gpu_, data, factor);
  }
  bool rounds_to_bf16() const override { return true; }  // from compute capability 8.0 on

 private:
  Gpu gpu_;
  Device device_;
};

}  // namespace

Backend* backend(int index) {
  static auto* const mutex = new std::mutex;
  static auto* const made = new std::array<std::atomic<Backend*>, kMostDevices>{};
  if (index < 0 || index >= kMostDevices) return nullptr;
  std::atomic<Backend*>& place = (*made)[static_cast<std::size_t>(index)];
  if (Backend* const b = place.load(std::memory_order_acquire)) return b;
  std::lock_guard guard(*mutex);
  if (Backend* const b = place.load(std::memory_order_acquire)) return b;
  if (index >= Gpu::count()) return nullptr;
  auto* const b = new CudaBackend(index);
  set_block_source({Device::Kind::cuda, static_cast<std::uint8_t>(index)}, &b->memory());
  place.store(b, std::memory_order_release);
  return b;
}

void* copy_stream(int index) {
  auto* const found = static_cast<CudaBackend*>(backend(index));
  return found ? found->gpu().streams().copies() : nullptr;
}

int count() {
  try {
    return Gpu::count();
  } catch (const Error&) {  // a driver that is too old
    return 0;
  }
}

std::string describe(int index) {
  const Driver& d = driver();
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  char name[256] = {};
  std::size_t bytes = 0;
  check(d.device(&device, index), "cuDeviceGet");
  check(d.device_name(name, sizeof name, device), "cuDeviceGetName");
  check(d.device_attribute(&major, kCapabilityMajor, device), "cuDeviceGetAttribute");
  check(d.device_attribute(&minor, kCapabilityMinor, device), "cuDeviceGetAttribute");
  check(d.device_attribute(&multiprocessors, kMultiprocessors, device), "cuDeviceGetAttribute");
  check(d.total_memory(&bytes, device), "cuDeviceTotalMem");
  return fmt::format("{}, {} multiprocessors, compute capability {}.{}, {:.1f} GiB", name, multiprocessors, major,
                     minor, static_cast<double>(bytes) / (1 << 30));
}

std::string why_unavailable(int index) {
  try {
    if (!find_driver()) return no_driver();
    const int n = Gpu::count();
    if (n == 0) return "the NVIDIA driver finds no GPU";
    if (index >= n) return n == 1 ? "there is only cuda:0" : fmt::format("there are only cuda:0 to cuda:{}", n - 1);
    backend(index);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace ebb::cuda
