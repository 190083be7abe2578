// SPDX-License-Identifier: MIT
#include "cuda/backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "core/format_error.h"
#include "cuda/library/aligned_product.h"
#include "cuda/library/cudnn.h"
#include "cuda/library/fp8_product.h"
#include "cuda/library/kernels.h"
#include "cuda/library/library.h"
#include "cuda/library/scatter_plan.h"
#include "cuda/print/joined_text.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/compile_ahead.h"
#include "cuda/runtime/copy.h"
#include "cuda/runtime/gpu.h"
#include "cuda/runtime/kernel_cache.h"
#include "cuda/runtime/recording.h"

namespace ebb::cuda {
namespace {

// A text, shared by all sweeps that have it; what depends on it is computed once.
struct Text {
  std::atomic<Function> sweep{nullptr}, finish{nullptr};
  std::vector<Function> later;  // sweep_1, ...: known before `sweep` is
  struct Many {
    std::string text;
    std::shared_future<void> compiled;
    Function sweep = nullptr, finish = nullptr;
  };
  std::map<std::size_t, Many> many;  // by the size of the table
  std::mutex mutex;
};

struct Sweep final : CompiledSweep {
  Program program;
  KernelPlan plan;
  SweepText text;
  std::shared_ptr<Text> shared;
  std::shared_future<void> compiled;  // the machine code is in the cache
  // For memory that begins where the text does not expect it; made on demand.
  mutable std::once_flag made_for_any;
  mutable SweepText for_any;
};

class CudaBackend final : public Backend, private Recordings {
 public:
  explicit CudaBackend(int index) : gpu_(index), device_{Device::Kind::cuda, static_cast<std::uint8_t>(index)} {}

  SweepPtr compile(const Program& program) override {
    auto sweep = std::make_shared<Sweep>();
    sweep->program = with_sorted_operands(program);
    sweep->plan = plan_kernel(sweep->program, gpu_.model());
    sweep->text = print_kernel(sweep->program, sweep->plan);
    {
      std::lock_guard guard(texts_mutex_);
      std::shared_ptr<Text>& shared = texts_[sweep->text.text];
      if (!shared) shared = std::make_shared<Text>();
      sweep->shared = shared;
    }
    sweep->compiled = start_compiling(sweep->text.text, gpu_.architecture(), sweep->text.spill_blocks());
    return sweep;
  }

  using Backend::describe;
  std::string describe(const CompiledSweep& made) const override {
    return cuda::describe(static_cast<const Sweep&>(made).plan);
  }
  std::string describe(const LibraryCall& call) const override {
    const bool scatters = call.op == Op::scatter || call.op == Op::scatter_zero_add || call.op == Op::index_zero_add;
    if (call.op == Op::matmul && call.attrs.options) return describe_fp8(call);
    if (call.op == Op::convolution || call.op == Op::conv_transpose || call.op == Op::conv_weight_gradient)
      return describe_convolution(call, gpu_.model());
    return scatters ? cuda::describe(plan_scatter(call, gpu_.model())) : "";
  }

  Run begin(std::span<const FilledBy> inputs) override {
    Run run;
    run.device = device_;
    run.stream = gpu_.stream();
    run.mark = gpu_.begin(inputs);
    return run;
  }
  void end(Run& run) override { gpu_.end(std::static_pointer_cast<RunMark>(run.mark)); }

  std::optional<TruePlaces> true_places(const View& bits, Run& run) override {
    begin_step(run);
    return find_true(gpu_, bits);
  }
  bool decompose(Decomposition kind, const View& a, const View& out, std::vector<int>& verdicts, Run& run) override {
    begin_step(run);
    return run_decomposition(gpu_, kind, a, out, verdicts);
  }

  void run(const SweepPtr& made, std::span<const Argument> arguments, Run& run) override {
    const auto sweep = std::static_pointer_cast<const Sweep>(made);
    const SweepText& text = sweep->text;
    Text& shared = *sweep->shared;
    begin_step(run);
    if (!is_aligned(text, arguments)) return run_unaligned(sweep, arguments, run);
    Function kernel = shared.sweep.load(std::memory_order_acquire);
    if (!kernel) {
      sweep->compiled.get();
      if (text.finish_blocks) shared.finish.store(finish_kernel(text), std::memory_order_release);
      if (text.launches > 1) {
        std::vector<Function> later = later_kernels(text);
        std::lock_guard guard(shared.mutex);
        if (shared.later.empty()) shared.later = std::move(later);
      }
      shared.sweep.store(kernel = sweep_kernel(text), std::memory_order_release);
    }
    BufferPtr workspace;
    const std::vector<std::uint64_t> words = bind(sweep, text, arguments, run, workspace);
    launch_sweep(kernel, text, words);
    for (const Function later : shared.later) launch_sweep(later, text, words);
    if (text.finish_blocks)
      gpu_.launch_behind(shared.finish.load(std::memory_order_acquire), text.finish_blocks, words, text.finish_threads);
  }

  std::uint64_t kind(const CompiledSweep& made) const override {
    const auto& sweep = static_cast<const Sweep&>(made);
    if (!sweep.plan.joinable || most_together(sweep) < 2) return 0;
    return reinterpret_cast<std::uintptr_t>(sweep.shared.get());
  }

  void run_together(std::span<const SweepCall> calls, Run& run) override {
    const auto& first = static_cast<const Sweep&>(*calls[0].sweep);
    const bool all_aligned = std::all_of(calls.begin(), calls.end(), [](const SweepCall& call) {
      return is_aligned(static_cast<const Sweep&>(*call.sweep).text, call.arguments);
    });
    if (!all_aligned) return Backend::run_together(calls, run);
    const std::size_t most = most_together(first);
    unsigned finish_threads = kThreads;
    std::vector<JoinedSweep> sweeps, finishes;
    std::vector<BufferPtr> workspaces;
    for (std::size_t at = 0; at < calls.size(); at += most) {
      const std::span<const SweepCall> part = calls.subspan(at, std::min(most, calls.size() - at));
      sweeps.clear();
      finishes.clear();
      for (const SweepCall& call : part) {
        const auto sweep = std::static_pointer_cast<const Sweep>(call.sweep);
        run.step = call.step;
        begin_step(run);
        sweeps.push_back(
            {bind(sweep, sweep->text, call.arguments, run, workspaces.emplace_back()), sweep->text.blocks});
        finish_threads = std::max(finish_threads, sweep->text.finish_threads);
        if (sweep->text.finish_blocks) finishes.push_back({sweeps.back().words, sweep->text.finish_blocks});
      }
      const std::size_t size = table_size(part.size());
      const auto [sweep, finish] = many(first, size);
      launch_table(sweep, sweeps, size, kThreads);
      if (!finishes.empty()) launch_table(finish, finishes, size, finish_threads);
    }
  }

  // Compiled while the plan is still being made.
  void expect_together(const CompiledSweep& made, std::size_t count) override {
    const auto& sweep = static_cast<const Sweep&>(made);
    std::lock_guard guard(sweep.shared->mutex);
    many_of(sweep, table_size(std::min(count, most_together(sweep))));
  }

  // Another library's stream gets plain launches, and so does the graph that it captures from it.
  Recordings* recordings() override {
    const char* const graphs = std::getenv("EBB_CUDA_GRAPHS");
    const bool off = graphs && std::string_view(graphs) == "0";
    return off || gpu_.streams().is_entered() || waits_for_each_kernel() ? nullptr : this;
  }
  void record(Run& run) override { recorder() = std::make_unique<Recorder>(gpu_, static_cast<RunMark&>(*run.mark)); }
  std::unique_ptr<Recording> recorded(Run&) override {
    std::unique_ptr<Recorder> ended = std::move(recorder());
    return ended ? ended->finish() : nullptr;
  }
  void draw(Recording& recording, std::uint32_t step, std::span<const Argument> arguments) override {
    for (RecordedLaunch& launch : static_cast<RecordedRun&>(recording).launches()) {
      if (launch.step != step || !launch.parameters) continue;
      for (std::size_t w = 0; w < launch.parameters->size(); ++w) {
        const Parameter& p = (*launch.parameters)[w];
        if (p.kind != Parameter::Kind::seed && p.kind != Parameter::Kind::operation) continue;
        const Argument& a = arguments[static_cast<std::size_t>(p.slot)];
        const std::uint64_t word = p.kind == Parameter::Kind::seed ? a.seed : a.operation;
        launch.changed |= std::exchange(launch.words[w], word) != word;
      }
    }
  }
  void replay(Recording& recording, Run& run) override {
    static_cast<RecordedRun&>(recording).replay(static_cast<RunMark&>(*run.mark));
  }
  void copy(std::span<const CopyCall> copies, Run&) override { copy_bytes(gpu_, copies); }

  bool has(Op op) const override { return has_library(op); }
  bool adds_rows_to_products() const override { return true; }
  std::int64_t row_step(DType dtype, std::int64_t columns, std::int64_t depth, std::int64_t width) const override {
    const bool aligns = is_half(dtype) && std::min(depth, width) >= gpu_.model().worth_aligning;
    return aligns ? aligned_step(gpu_.model(), columns) : columns;
  }
  bool spreads_to_places() const override { return true; }
  bool wants_channels_last(DType dtype) const override { return is_half(dtype) && cudnn_table(); }
  int bytes_of_a_function() const override { return gpu_.model().function_bytes; }
  void run(const LibraryCall& call, Run& run) override {
    begin_step(run);
    run_library(call, gpu_, std::static_pointer_cast<RunMark>(run.mark));
  }

  void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) override {
    if (const auto mark = std::static_pointer_cast<RunMark>(from.filled_by.mark)) {
      // The stream keeps the order: one wait covers the run and the copy.
      mark->is_on(gpu_.stream()) ? mark->wait_until_ended() : from.filled_by.wait();
    }
    gpu_.to_host(to, from.data + offset, bytes);
    from.filled_by.wait();
  }
  void from_host(Buffer& to, const void* from, std::size_t bytes) override {
    if (gpu_.streams().is_own(gpu_.stream())) return gpu_.from_host(to.data, from, bytes);
    const RunMarkPtr mark = gpu_.begin({});  // waits for work done elsewhere
    try {
      gpu_.from_host(to.data, from, bytes);
    } catch (...) {
      gpu_.end(mark);
      throw;
    }
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
    if (gpu_.streams().is_own(gpu_.stream())) gpu_.streams().gave_own_work();
  }
  bool has_token_statistics() const override { return true; }
  bool calls_distances() const override { return false; }  // its kernels are simple: see distances.cuh
  bool rounds_to_bf16() const override { return true; }    // from compute capability 8.0 on

 private:
  Function sweep_kernel(const SweepText& text) {
    return gpu_.kernel({text.text, false, text.has_dynamic_shared, text.spill_blocks()}, "sweep");
  }
  std::vector<Function> later_kernels(const SweepText& text) {
    std::vector<Function> later;
    for (int k = 1; k < text.launches; ++k)
      later.push_back(gpu_.kernel({text.text, false, text.has_dynamic_shared, text.spill_blocks()},
                                  fmt::format("sweep_{}", k).c_str()));
    return later;
  }
  Function finish_kernel(const SweepText& text) {
    return gpu_.kernel({text.text, false, false, text.spill_blocks()}, "finish");
  }

  void launch_sweep(Function kernel, const SweepText& text, std::span<const std::uint64_t> words) {
    unsigned blocks = text.blocks;
    if (text.stays) {
      const unsigned at_a_time = gpu_.blocks_at_a_time(kernel, text.threads, text.shared);
      const unsigned resident = at_a_time / static_cast<unsigned>(gpu_.multiprocessors());
      const unsigned rows = rows_per_block(text, resident, gpu_.model());
      blocks = std::min(blocks, std::max((blocks + rows - 1) / rows, at_a_time));
    }
    gpu_.launch(kernel, blocks, words, text.threads, text.shared);
  }

  static std::unique_ptr<Recorder>& recorder() {
    static thread_local std::unique_ptr<Recorder> of_thread;
    return of_thread;
  }

  void begin_step(const Run& run) {
    static_cast<RunMark&>(*run.mark).begin_step(run.step);
    if (Recorder* const r = Recorder::of_thread()) r->begin_step(run.step);
  }

  void run_unaligned(const std::shared_ptr<const Sweep>& sweep, std::span<const Argument> arguments, const Run& run) {
    std::call_once(sweep->made_for_any, [&] {
      KernelPlan plan = sweep->plan;
      plan.alignment = Alignment::any;
      sweep->for_any = print_kernel(sweep->program, plan);
    });
    const SweepText& text = sweep->for_any;
    BufferPtr workspace;
    const std::vector<std::uint64_t> words = bind(sweep, text, arguments, run, workspace);
    launch_sweep(sweep_kernel(text), text, words);
    for (const Function later : later_kernels(text)) launch_sweep(later, text, words);
    if (text.finish_blocks) gpu_.launch_behind(finish_kernel(text), text.finish_blocks, words, text.finish_threads);
  }

  std::vector<std::uint64_t> bind(const std::shared_ptr<const Sweep>& sweep, const SweepText& text,
                                  std::span<const Argument> arguments, const Run& run, BufferPtr& workspace) {
    auto& mark = static_cast<RunMark&>(*run.mark);
    if (text.workspace) workspace = BufferPtr::allocate(text.workspace, "a reduction", device_);
    std::uint64_t step = 0;
    if (!text.checks.empty()) {
      step = mark.add_step([sweep, first_row = run.first_row](int check, std::int64_t position, std::uint64_t bits) {
        return complaint(sweep->program, sweep->text.checks[static_cast<std::size_t>(check)], position, bits,
                         first_row);
      });
    }
    if (Recorder* const r = Recorder::of_thread()) r->begin_sweep(text.parameters);
    return bound_words(text, arguments, text.checks.empty() ? nullptr : mark.slot(), step, workspace.data());
  }

  // Kernels take 4 KiB of arguments.
  static std::size_t most_together(const Sweep& sweep) {
    constexpr std::size_t kMostBytes = 4096;
    const std::size_t each = sweep.text.parameters.size() * sizeof(std::uint64_t) + sizeof(unsigned);
    return std::bit_floor(kMostBytes / each);
  }

  static std::size_t table_size(std::size_t count) { return std::bit_ceil(std::max<std::size_t>(2, count)); }
  // Requires the text's mutex.
  Text::Many& many_of(const Sweep& sweep, std::size_t size) {
    Text::Many& made = sweep.shared->many[size];
    if (made.text.empty()) {
      made.text = joined_text(sweep.program, sweep.plan, size);
      made.compiled = start_compiling(made.text, gpu_.architecture(), sweep.text.spill_blocks());
    }
    return made;
  }
  std::pair<Function, Function> many(const Sweep& sweep, std::size_t size) {
    std::lock_guard guard(sweep.shared->mutex);
    Text::Many& made = many_of(sweep, size);
    if (!made.sweep) {
      made.compiled.get();
      const KernelSource source{made.text, false, sweep.text.has_dynamic_shared, sweep.text.spill_blocks()};
      if (sweep.text.finish_blocks) made.finish = gpu_.kernel(source, "finish_many");
      made.sweep = gpu_.kernel(source, "sweep_many");
    }
    return {made.sweep, made.finish};
  }
  void launch_table(Function kernel, std::span<const JoinedSweep> sweeps, std::size_t size, unsigned threads) {
    unsigned blocks = 0;
    for (const JoinedSweep& s : sweeps) blocks += s.blocks;
    gpu_.launch(kernel, blocks, table_words(sweeps, size), threads);
  }

  Gpu gpu_;
  Device device_;
  std::mutex texts_mutex_;
  std::unordered_map<std::string, std::shared_ptr<Text>> texts_;
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

Gpu& gpu(int index) {
  auto* const found = static_cast<CudaBackend*>(backend(index));
  require(found != nullptr, "internal: there is no cuda:{}", index);
  return found->gpu();
}

void* copy_stream(int index) {
  auto* const found = static_cast<CudaBackend*>(backend(index));
  return found ? found->gpu().streams().copies() : nullptr;
}

int count() {
  try {
    return Gpu::count();
  } catch (const Error&) {  // the driver is too old
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
