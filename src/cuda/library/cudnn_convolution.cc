// SPDX-License-Identifier: MIT
// Convolutions by cuDNN's graphs of one operation. The engine is chosen once per process for given shapes, strides,
// dtypes and alignment: the first that cuDNN's heuristic proposes and that gives the same bits in every run.
#include "cuda/library/cudnn_convolution.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/format_error.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

using namespace cudnn;

void check_cudnn(cudnn::Status status, const char* call) {
  require(status == 0, "cuda: {} failed with status {}", call, status);
}

// A descriptor destroyed with its owner.
class Described {
 public:
  Described(const Cudnn& table, Kind kind) : table_(&table) {
    check_cudnn(table.create_descriptor(kind, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  Described(Described&& other) noexcept
      : table_(other.table_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Described& operator=(Described&&) = delete;
  ~Described() {
    if (descriptor_) table_->destroy_descriptor(descriptor_);
  }

  Descriptor get() const { return descriptor_; }
  void set(int attribute, int type, std::int64_t count, const void* values) {
    check_cudnn(table_->set(descriptor_, attribute, type, count, values), "cudnnBackendSetAttribute");
  }
  template <class T>
  void set_one(int attribute, int type, const T& value) {
    set(attribute, type, 1, &value);
  }
  void set_numbers(int attribute, std::span<const std::int64_t> numbers) {
    set(attribute, kInt64, static_cast<std::int64_t>(numbers.size()), numbers.data());
  }
  void set_descriptor(int attribute, const Described& of) { set_one(attribute, kDescriptor, of.descriptor_); }
  bool finalize() { return table_->finalize(descriptor_) == 0; }
  void must_finalize() { check_cudnn(table_->finalize(descriptor_), "cudnnBackendFinalize"); }

 private:
  const Cudnn* table_;
  Descriptor descriptor_ = nullptr;
};

DataType data_type(DType d) { return d == DType::f64 ? kF64 : d == DType::f32 ? kF32 : d == DType::f16 ? kF16 : kBf16; }

// The key of a plan.
struct Geometry {
  ConvolutionResult result;
  ConvCall::Pair stride, before, after, dilation;
  struct Tensor {
    DType dtype;
    std::array<std::int64_t, 4> sizes, strides;
    std::int64_t alignment;
    auto operator<=>(const Tensor&) const = default;
  } x, w, y;
  int gpu;
  bool tf32;
  auto operator<=>(const Geometry&) const = default;
};

Geometry::Tensor tensor_of(const View& v) {
  Geometry::Tensor t{v.dtype, {}, {}, 0};
  for (std::size_t d = 0; d < 4; ++d) {
    t.sizes[d] = v.shape[static_cast<int>(d)];
    t.strides[d] = v.strides[static_cast<int>(d)];
  }
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(v.data) | 16;
  t.alignment = static_cast<std::int64_t>(address & (~address + 1));
  return t;
}

// The zeros after the last element, along one axis: as many as before the first if that gives as many windows, since
// not every engine has both; empty if windows end before the last element.
std::optional<std::int64_t> zeros_after(std::int64_t size, std::int64_t taps, std::int64_t windows, std::int64_t stride,
                                        std::int64_t before, std::int64_t dilation) {
  const std::int64_t reach = (taps - 1) * dilation + 1;
  const auto count = [&](std::int64_t after) { return (size + before + after - reach) / stride + 1; };
  if (size + 2 * before >= reach && count(before) == windows) return before;
  const std::int64_t after = std::max<std::int64_t>(0, (windows - 1) * stride + reach - size - before);
  if (size + before + after < reach || count(after) != windows) return std::nullopt;
  return after;
}

// A plan and its inputs: cuDNN does not say how much of them it copies.
struct ConvolutionPlan {
  std::vector<Described> parts;  // the plan is the last
  std::int64_t workspace;
  Descriptor plan() const { return parts.back().get(); }
};

Described tensor(const Cudnn& table, const Geometry::Tensor& t, std::int64_t id) {
  Described d(table, kTensor);
  d.set_one(kTensorDataType, kDataType, data_type(t.dtype));
  d.set_numbers(kTensorDimensions, t.sizes);
  d.set_numbers(kTensorStrides, t.strides);
  d.set_one(kTensorId, kInt64, id);
  d.set_one(kTensorAlignment, kInt64, t.alignment);
  d.must_finalize();
  return d;
}

// Requires the same bits in every run, and products with the digits of their factors: see run_by_cudnn.
bool is_welcome(std::span<const int> notes, const Geometry& g) {
  return std::none_of(notes.begin(), notes.end(), [&](int note) {
    switch (note) {
      case kNondeterministic:
      case kReducedPrecisionSums:
      case kFft:
      case kWinograd:
      case kWinograd4x4:
      case kWinograd6x6:
      case kWinograd13x13:
        return true;
      case kDownConvertInputs:
      case kTensorCore:  // f64 has tensor cores of its own, which round normally
        return g.x.dtype == DType::f32 && !g.tf32;
      default:
        return false;
    }
  });
}

// Reads an attribute of an engine; empty if cuDNN does not say.
std::optional<std::vector<int>> notes_of(const Cudnn& table, Descriptor config, int attribute, int type, int most) {
  const Described engine(table, kEngine);
  Descriptor found = engine.get();
  std::int64_t count = 0;
  if (table.get(config, kConfigEngine, kDescriptor, 1, &count, &found) != 0) return std::nullopt;
  if (table.get(found, attribute, type, most, &count, nullptr) != 0) return std::nullopt;
  std::vector<int> notes(static_cast<std::size_t>(count));
  if (count > 0 && table.get(found, attribute, type, count, &count, notes.data()) != 0) return std::nullopt;
  notes.resize(std::min(notes.size(), static_cast<std::size_t>(count)));
  return notes;
}

// The kernels that cuDNN 9.19 generates at run time store 16 bytes at a time wherever a plane begins, or the channels
// of a pixel do: a plane of 31 x 31 numbers in f32 ended in a misaligned address (compute-sanitizer).
bool may_be_generated(const Geometry& g) {
  const auto whole = [](const Geometry::Tensor& t) {
    const std::int64_t together = t.strides[1] == 1 ? t.sizes[1] : t.sizes[2] * t.sizes[3];  // channels, or a plane
    const std::int64_t bytes = together * static_cast<std::int64_t>(size_of(t.dtype));
    return bytes % 16 == 0 && t.alignment == 16;
  };
  return whole(g.x) && whole(g.y);
}

// Whether this engine keeps the promises of run_by_cudnn.
bool is_welcome(const Cudnn& table, Descriptor config, const Geometry& g) {
  const auto numbers = notes_of(table, config, kEngineNotes, kNumericalNote, kNotes);
  const auto behavior = notes_of(table, config, kEngineBehavior, kBehaviorNote, kBehaviorNotes);
  if (!numbers || !behavior || !is_welcome(*numbers, g)) return false;
  return may_be_generated(g) || std::find(behavior->begin(), behavior->end(), kRuntimeCompilation) == behavior->end();
}

Described convolution_of(const Cudnn& table, const Geometry& g) {
  Described c(table, kConvolution);
  c.set_one(kComputeType, kDataType, g.x.dtype == DType::f64 ? kF64 : kF32);
  c.set_one(kConvolutionMode, kMode, kCrossCorrelation);
  c.set_one(kSpatialDims, kInt64, std::int64_t{2});
  c.set_numbers(kDilations, g.dilation);
  c.set_numbers(kStrides, g.stride);
  c.set_numbers(kPrePaddings, g.before);
  c.set_numbers(kPostPaddings, g.after);
  c.must_finalize();
  return c;
}

// Appends the graph of the one operation and its parts; false if cuDNN does not accept it.
bool describe_graph(const Cudnn& table, void* handle, const Geometry& g, std::vector<Described>& parts) {
  parts.push_back(convolution_of(table, g));
  parts.push_back(tensor(table, g.w, 'w'));
  parts.push_back(tensor(table, g.x, 'x'));
  parts.push_back(tensor(table, g.y, 'y'));
  const auto [kind, alpha] = g.result == ConvolutionResult::y   ? std::pair{kForward, kForwardAlpha}
                             : g.result == ConvolutionResult::x ? std::pair{kBackwardData, kBackwardDataAlpha}
                                                                : std::pair{kBackwardFilter, kBackwardFilterAlpha};
  Described operation(table, kind);
  if (g.x.dtype == DType::f64) {
    operation.set_one(alpha, kDouble, 1.0);
    operation.set_one(alpha + 1, kDouble, 0.0);
  } else {
    operation.set_one(alpha, kFloat, 1.0F);
    operation.set_one(alpha + 1, kFloat, 0.0F);
  }
  for (std::size_t i = 0; i < 4; ++i) operation.set_descriptor(alpha + 2 + static_cast<int>(i), parts[i]);
  if (!operation.finalize()) return false;
  Described graph(table, kGraph);
  graph.set_descriptor(kGraphOperations, operation);
  graph.set_one(kGraphHandle, kHandle, handle);
  parts.push_back(std::move(operation));
  const bool taken = graph.finalize();
  parts.push_back(std::move(graph));
  return taken;
}

std::optional<ConvolutionPlan> make_plan(const GpuModel& model, const Cudnn& table, void* handle, const Geometry& g) {
  std::vector<Described> parts;
  if (!describe_graph(table, handle, g, parts)) return std::nullopt;
  for (const int mode : {kModeA, kModeFallback}) {
    Described heuristic(table, kHeuristic);
    heuristic.set_descriptor(kHeuristicGraph, parts.back());
    heuristic.set_one(kHeuristicModeOf, kHeuristicMode, mode);
    if (!heuristic.finalize()) continue;
    std::vector<Described> configs;
    std::vector<Descriptor> found;
    for (std::size_t i = 0; i < model.convolution_proposals; ++i)
      found.push_back(configs.emplace_back(table, kEngineConfig).get());
    std::int64_t count = 0;
    if (table.get(heuristic.get(), kHeuristicResults, kDescriptor, static_cast<std::int64_t>(found.size()), &count,
                  found.data()) != 0)
      continue;
    for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(count), found.size()); ++i) {
      if (!is_welcome(table, found[i], g)) continue;
      Described plan(table, kPlan);
      plan.set_one(kPlanHandle, kHandle, handle);
      plan.set_one(kPlanConfig, kDescriptor, found[i]);
      if (!plan.finalize()) continue;
      std::int64_t workspace = 0, one = 0;
      check_cudnn(table.get(plan.get(), kPlanWorkspace, kInt64, 1, &one, &workspace), "cudnnBackendGetAttribute");
      if (workspace > model.convolution_workspace) continue;
      parts.push_back(std::move(configs[i]));
      parts.push_back(std::move(plan));
      return ConvolutionPlan{std::move(parts), workspace};
    }
  }
  return std::nullopt;
}

// cuDNN's handle of a GPU, used by one thread at a time, and the plans made so far. Never destroyed: by the end of the
// process the driver may be gone.
struct CudnnOfGpu {
  std::mutex mutex;
  const Cudnn* table = nullptr;
  void* handle = nullptr;  // null: cuDNN does not start here
  std::map<Geometry, std::optional<ConvolutionPlan>> plans;
};
CudnnOfGpu& cudnn_of_gpu(const Gpu& gpu, const Cudnn& table) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<std::pair<int, const Cudnn*>, std::unique_ptr<CudnnOfGpu>>;
  std::lock_guard guard(*mutex);
  std::unique_ptr<CudnnOfGpu>& made = (*all)[{gpu.index(), &table}];
  if (!made) {
    made = std::make_unique<CudnnOfGpu>();
    made->table = &table;
    if (table.create(&made->handle) != 0) made->handle = nullptr;
  }
  return *made;
}

}  // namespace

bool run_by_cudnn(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                  const View& y) {
  const Cudnn* const table = cudnn_table();
  if (!table || x.shape.numel() == 0 || w.shape.numel() == 0 || y.shape.numel() == 0) return false;
  Geometry g{result,       call.stride,  call.padding, {},         call.dilation,
             tensor_of(x), tensor_of(w), tensor_of(y), gpu.index(),  tf32()};
  for (std::size_t d = 0; d < 2; ++d) {
    const std::optional<std::int64_t> after =
        zeros_after(g.x.sizes[2 + d], g.w.sizes[2 + d], g.y.sizes[2 + d], g.stride[d], g.before[d], g.dilation[d]);
    if (!after) return false;
    g.after[d] = *after;
  }
  CudnnOfGpu& own = cudnn_of_gpu(gpu, *table);
  if (!own.handle) return false;
  std::lock_guard guard(own.mutex);
  auto found = own.plans.find(g);
  if (found == own.plans.end()) found = own.plans.emplace(g, make_plan(gpu.model(), *table, own.handle, g)).first;
  if (!found->second) return false;
  const ConvolutionPlan& plan = *found->second;

  BufferPtr workspace;
  if (plan.workspace > 0)
    workspace = BufferPtr::allocate(static_cast<std::size_t>(plan.workspace), "convolution",
                                    {Device::Kind::cuda, static_cast<std::uint8_t>(gpu.index())});
  const std::array<std::int64_t, 3> ids{'x', 'w', 'y'};
  const std::array<void*, 3> pointers{x.data, w.data, y.data};
  Described pack(*table, kVariantPack);
  pack.set_numbers(kPackIds, ids);
  pack.set(kPackPointers, kPointer, 3, pointers.data());
  pack.set_one(kPackWorkspace, kPointer, static_cast<void*>(workspace.data()));
  pack.must_finalize();
  check_cudnn(table->set_stream(own.handle, gpu.stream()), "cudnnSetStream");
  check_cudnn(table->execute(own.handle, plan.plan(), pack.get()), "cudnnBackendExecute");
  return true;
}

}  // namespace ebb::cuda
