// SPDX-License-Identifier: MIT
// cuDNN's graphs of one convolution by plain loops: the subset used by src/cuda/library/cudnn_convolution.cc. It
// proposes forbidden engines before a permitted one.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <vector>

#include "cuda/emulated_device.h"
#include "cuda/library/cudnn.h"
#include "numbers_by_dtype.h"

namespace ebb::testing {
namespace {

using namespace cuda;
using namespace cuda::cudnn;

struct Bag {
  int kind = 0;
  bool finalized = false;
  std::map<int, std::vector<std::byte>> attributes;
  int proposal = 0;  // of an engine or its configuration

  template <class T>
  std::vector<T> all(int attribute) const {
    const auto it = attributes.find(attribute);
    if (it == attributes.end()) return {};
    std::vector<T> values(it->second.size() / sizeof(T));
    std::memcpy(values.data(), it->second.data(), it->second.size());
    return values;
  }
  template <class T>
  T one(int attribute) const {
    return all<T>(attribute).at(0);
  }
  const Bag& bag(int attribute) const { return *static_cast<const Bag*>(one<void*>(attribute)); }
};

std::size_t bytes_of(int type) {
  switch (type) {
    case kDataType:
    case kMode:
    case kHeuristicMode:
    case kFloat:
      return 4;
    default:
      return 8;
  }
}

DType cudnn_dtype(int type) {
  return type == kF64 ? DType::f64 : type == kF32 ? DType::f32 : type == kF16 ? DType::f16 : DType::bf16;
}

struct Tensor4 {
  int type;
  std::vector<std::int64_t> sizes, strides;
  void* data;
  explicit Tensor4(const Bag& b, const std::map<std::int64_t, void*>& pointers)
      : type(b.one<int>(kTensorDataType)),
        sizes(b.all<std::int64_t>(kTensorDimensions)),
        strides(b.all<std::int64_t>(kTensorStrides)),
        data(pointers.at(b.one<std::int64_t>(kTensorId))) {}
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
  std::int64_t numel() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
};

std::atomic<int> executed{0}, unaligned{0}, by_tensor_cores{0};
thread_local Stream stream_of_thread = nullptr;

int alpha_of(const Bag& operation) {
  return operation.kind == kForward        ? kForwardAlpha
         : operation.kind == kBackwardData ? kBackwardDataAlpha
                                           : kBackwardFilterAlpha;
}

// Adds every product of the three tensors' elements to the result.
Result convolve(const Bag& operation, const std::map<std::int64_t, void*>& pointers) {
  const int alpha = alpha_of(operation);
  const Bag& c = operation.bag(alpha + 2);
  const Tensor4 w(operation.bag(alpha + 3), pointers), x(operation.bag(alpha + 4), pointers),
      y(operation.bag(alpha + 5), pointers);
  const auto stride = c.all<std::int64_t>(kStrides), before = c.all<std::int64_t>(kPrePaddings),
             dilation = c.all<std::int64_t>(kDilations);
  const Tensor4& to = operation.kind == kForward ? y : operation.kind == kBackwardData ? x : w;
  std::map<std::int64_t, double> sums;
  const std::int64_t groups = x.sizes[1] / w.sizes[1], outputs = y.sizes[1] / groups;
  for (std::int64_t n = 0; n < y.sizes[0]; ++n)
    for (std::int64_t k = 0; k < y.sizes[1]; ++k)
      for (std::int64_t p = 0; p < y.sizes[2]; ++p)
        for (std::int64_t q = 0; q < y.sizes[3]; ++q)
          for (std::int64_t i = 0; i < w.sizes[1]; ++i)
            for (std::int64_t r = 0; r < w.sizes[2]; ++r)
              for (std::int64_t s = 0; s < w.sizes[3]; ++s) {
                const std::int64_t h = p * stride[0] + r * dilation[0] - before[0];
                const std::int64_t v = q * stride[1] + s * dilation[1] - before[1];
                if (h < 0 || h >= x.sizes[2] || v < 0 || v >= x.sizes[3]) continue;
                const std::int64_t at_x = x.at(n, k / outputs * w.sizes[1] + i, h, v), at_w = w.at(k, i, r, s),
                                   at_y = y.at(n, k, p, q);
                if (operation.kind == kForward) {
                  sums[at_y] +=
                      read_number(cudnn_dtype(x.type), x.data, at_x) * read_number(cudnn_dtype(w.type), w.data, at_w);
                } else if (operation.kind == kBackwardData) {
                  sums[at_x] +=
                      read_number(cudnn_dtype(y.type), y.data, at_y) * read_number(cudnn_dtype(w.type), w.data, at_w);
                } else {
                  sums[at_w] +=
                      read_number(cudnn_dtype(x.type), x.data, at_x) * read_number(cudnn_dtype(y.type), y.data, at_y);
                }
              }
  for (std::int64_t n = 0; n < to.sizes[0]; ++n)
    for (std::int64_t k = 0; k < to.sizes[1]; ++k)
      for (std::int64_t p = 0; p < to.sizes[2]; ++p)
        for (std::int64_t q = 0; q < to.sizes[3]; ++q)
          write_number(cudnn_dtype(to.type), to.data, to.at(n, k, p, q), sums[to.at(n, k, p, q)]);
  return 0;
}

// cuDNN's requirements for a graph before it proposes engines: windows that reach as far as the result says.
bool fits(const Bag& operation) {
  const int alpha = alpha_of(operation);
  const Bag &c = operation.bag(alpha + 2), &w = operation.bag(alpha + 3), &x = operation.bag(alpha + 4),
            &y = operation.bag(alpha + 5);
  const auto of = [](const Bag& b) { return b.all<std::int64_t>(kTensorDimensions); };
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t reach = (of(w)[2 + d] - 1) * c.all<std::int64_t>(kDilations)[d] + 1;
    const std::int64_t room =
        of(x)[2 + d] + c.all<std::int64_t>(kPrePaddings)[d] + c.all<std::int64_t>(kPostPaddings)[d] - reach;
    if (room < 0 || room / c.all<std::int64_t>(kStrides)[d] + 1 != of(y)[2 + d]) return false;
  }
  for (const Bag* t : {&w, &x, &y}) {
    for (const std::int64_t s : t->all<std::int64_t>(kTensorStrides)) {
      if (s <= 0) return false;
    }
  }
  return true;
}

// Notes attached to cuDNN's proposals; the last has none. The one with tensor cores rounds factors of f32 to TF32.
constexpr std::array<int, 4> kNotesOfProposals{kNondeterministic, kReducedPrecisionSums, kWinograd, kTensorCore};
constexpr int kProposals = 5, kProposalWithTensorCores = 3;

int set(void* descriptor, int attribute, int type, std::int64_t count, const void* values) {
  auto& bag = *static_cast<Bag*>(descriptor);
  if (bag.finalized) return 3;
  const auto* const bytes = static_cast<const std::byte*>(values);
  bag.attributes[attribute].assign(bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type));
  return 0;
}

int get(void* descriptor, int attribute, int, std::int64_t room, std::int64_t* count, void* values) {
  auto& bag = *static_cast<Bag*>(descriptor);
  *count = 1;
  switch (attribute) {
    case kHeuristicResults:
      *count = std::min<std::int64_t>(room, kProposals);
      for (int i = 0; i < *count; ++i) {
        auto& config = *static_cast<Bag**>(values)[i];
        config.proposal = i;
        config.attributes[kHeuristicGraph] = bag.attributes.at(kHeuristicGraph);
      }
      return 0;
    case kConfigEngine:
      (*static_cast<Bag**>(values))->proposal = bag.proposal;
      return 0;
    case kEngineNotes:  // how many there are, where there is no room for them
      *count = bag.proposal < static_cast<int>(kNotesOfProposals.size());
      if (*count && values) *static_cast<int*>(values) = kNotesOfProposals[static_cast<std::size_t>(bag.proposal)];
      return 0;
    case kEngineBehavior:
      *count = 0;
      return 0;
    case kPlanWorkspace:
      *static_cast<std::int64_t*>(values) = 4096;
      return 0;
    default:
      return 3;
  }
}

int execute(void*, void* plan, void* pack) {
  if (device_records()) return 0;
  const Bag& config = static_cast<const Bag*>(plan)->bag(kPlanConfig);
  if (config.proposal < kProposalWithTensorCores) return 4;
  by_tensor_cores += config.proposal == kProposalWithTensorCores;
  const auto& p = *static_cast<const Bag*>(pack);
  if (!p.one<void*>(kPackWorkspace)) return 4;
  std::map<std::int64_t, void*> pointers;
  const auto ids = p.all<std::int64_t>(kPackIds);
  for (std::size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = p.all<void*>(kPackPointers)[i];
  ++executed;
  const Bag& operation = config.bag(kHeuristicGraph).bag(kGraphOperations);
  unaligned += operation.bag(alpha_of(operation) + 4).all<std::int64_t>(kTensorDimensions)[1] % 8 != 0;
  return in_stream(stream_of_thread, [&operation, pointers] {
    const DeviceAccess access;
    return convolve(operation, pointers);
  });
}

}  // namespace

int emulated_convolutions() { return executed; }
int emulated_convolutions_by_tensor_cores() { return by_tensor_cores; }
int emulated_unaligned_convolutions() { return unaligned; }

const Cudnn& emulated_cudnn() {
  static const Cudnn table = [] {
    Cudnn t;
    t.create = [](void** handle) {
      static int handle_of_all;
      *handle = &handle_of_all;
      return 0;
    };
    t.set_stream = [](void*, Stream stream) {
      stream_of_thread = stream;
      return 0;
    };
    t.create_descriptor = [](int kind, void** made) {
      auto* const bag = new Bag;
      bag->kind = kind;
      *made = bag;
      return 0;
    };
    // Descriptors refer to others, which cuDNN copies and this does not: they are kept.
    t.destroy_descriptor = [](void*) { return 0; };
    t.finalize = [](void* descriptor) {
      auto& bag = *static_cast<Bag*>(descriptor);
      bag.finalized = true;
      return bag.kind == kGraph && !fits(bag.bag(kGraphOperations)) ? 3 : 0;
    };
    t.set = set;
    t.get = get;
    t.execute = execute;
    return t;
  }();
  return table;
}

}  // namespace ebb::testing
