// SPDX-License-Identifier: MIT
// The hinges of multilabel_margin_loss: Σ over listed k and classes i that are not listed of max(0, 1 − x_{y_k} + x_i).
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/fused/hinge_kernels.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

// One row at a time, in memory that the next one reuses. T is f32 or f64.
template <class T>
class HingeRow {
 public:
  HingeRow(const LibraryCall& call, std::int64_t classes)
      : x_(call.inputs[0]),
        target_(call.inputs[1]),
        gradient_(call.outputs.size() > 1 ? &call.outputs[1] : nullptr),
        classes_(classes),
        as_is_(!is_half(x_.dtype) && x_.strides[x_.shape.rank() - 1] == 1) {
    if (!as_is_) row_.resize(size(classes));
    if (gradient_ && is_half(x_.dtype)) slopes_.resize(size(classes));
  }

  // The position in its list of the first target that is not a class, or -1.
  template <class Index>
  std::int64_t read_targets(std::int64_t n) {
    const int last = target_.shape.rank() - 1;
    const std::int64_t step = target_.strides[last];
    const Index* list = static_cast<const Index*>(target_.data) + (last > 0 ? n * target_.strides[0] : 0);
    targets_.clear();
    for (std::int64_t k = 0; k < classes_ && list[k * step] != Index(-1); ++k) {
      const auto y = static_cast<std::int64_t>(list[k * step]);
      if (y < 0 || y >= classes_) return k;
      targets_.push_back(y);
    }
    std::sort(targets_.begin(), targets_.end());
    return -1;
  }

  // For the most recently read targets.
  double sum(std::int64_t n, T scale) {
    const T* x = read_row(n);
    T* slopes = gradient_ == nullptr ? nullptr : is_half(x_.dtype) ? slopes_.data() : gradient_row<T>(n);
    offsets_.clear();
    for (std::int64_t y : targets_) offsets_.push_back(T(1) - x[y]);
    open_.assign(targets_.size(), 0);
    double total = 0;
    if (!targets_.empty()) {
      total = sum_of_others(x, slopes, scale);
    } else if (slopes) {
      std::fill_n(slopes, classes_, T(0));
    }
    if (slopes) slope_of_targets(slopes, scale);
    if constexpr (std::is_same_v<T, float>) {
      if (slopes && is_half(x_.dtype)) float_to_halves(x_.dtype, slopes, gradient_row<std::uint16_t>(n), classes_);
    }
    return total;
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

  template <class E>
  E* gradient_row(std::int64_t n) const {
    return static_cast<E*>(gradient_->data) + n * classes_;
  }

  const T* read_row(std::int64_t n) {
    const int last = x_.shape.rank() - 1;
    const std::byte* from = element_at(x_, last > 0 ? n * x_.strides[0] : 0);
    if (as_is_) return reinterpret_cast<const T*>(from);
    const RegType type = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
    tile_kernels().load(x_.dtype, type)(row_.data(), from, x_.strides[last], size(classes_));
    return row_.data();
  }

  // Calls body(first, length) for the classes between the targets.
  template <class Body>
  void for_each_gap(Body&& body) const {
    std::int64_t next = 0;
    for (std::int64_t y : targets_) {
      if (y > next) body(next, y - next);
      next = y + 1;
    }
    if (classes_ > next) body(next, classes_ - next);
  }

  // Between few targets the classes are read in place; between many they are first gathered.
  double sum_of_others(const T* x, T* slopes, T scale) {
    double total = 0;
    if (classes_ / static_cast<std::int64_t>(targets_.size()) >= CpuModel::hinges_short_gap) {
      for_each_gap([&](std::int64_t first, std::int64_t n) {
        total += sum_of(x + first, slopes ? slopes + first : nullptr, n, scale);
      });
      return total;
    }
    others_.resize(size(classes_));
    if (slopes) other_slopes_.resize(size(classes_));
    std::int64_t count = 0;
    for_each_gap([&](std::int64_t first, std::int64_t n) {
      std::copy_n(x + first, n, others_.data() + count);
      count += n;
    });
    total = sum_of(others_.data(), slopes ? other_slopes_.data() : nullptr, count, scale);
    count = 0;
    if (slopes) {
      for_each_gap([&](std::int64_t first, std::int64_t n) {
        std::copy_n(other_slopes_.data() + count, n, slopes + first);
        count += n;
      });
    }
    return total;
  }

  double sum_of(const T* x, T* slopes, std::int64_t n, T scale) {
    constexpr std::int64_t kBlock = CpuModel::hinges_block;
    const auto& kernels = slopes ? hinge_kernels<T>().with_slopes : hinge_kernels<T>().value;
    double total = 0;
    for (std::int64_t first = 0; first < n; first += kBlock) {
      HingePass<T> pass;
      pass.x = x + first;
      pass.n = size(std::min(kBlock, n - first));
      pass.slopes = slopes ? slopes + first : nullptr;
      pass.scale = scale;
      for (std::size_t k = 0; k < offsets_.size(); k += kMostOffsets) {
        const std::size_t group = std::min<std::size_t>(kMostOffsets, offsets_.size() - k);
        pass.offsets = offsets_.data() + k;
        pass.open = open_.data() + k;
        pass.first = k == 0;
        pass.last = k + group == offsets_.size();
        total += kernels[group - 1](pass);
      }
    }
    return total;
  }

  // A target listed twice has the hinges of both.
  void slope_of_targets(T* slopes, T scale) const {
    for (std::size_t k = 0; k < targets_.size();) {
      const std::int64_t y = targets_[k];
      std::int64_t open = 0;
      for (; k < targets_.size() && targets_[k] == y; ++k) open += open_[k];
      slopes[y] = open == 0 ? T(0) : -(static_cast<T>(open) * scale);
    }
  }

  const View &x_, &target_;
  const View* gradient_;
  const std::int64_t classes_;
  const bool as_is_;
  std::vector<std::int64_t> targets_, open_;
  std::vector<T> offsets_, row_, slopes_, others_, other_slopes_;
};

template <class T, class Index>
void sum_hinges(const LibraryCall& call) {
  const View &x = call.inputs[0], &target = call.inputs[1];
  const int last = x.shape.rank() - 1;
  const std::int64_t rows = last > 0 ? x.shape[0] : 1, classes = x.shape[last];
  T* sums = static_cast<T*>(call.outputs[0].data);
  const std::int64_t together = std::clamp<std::int64_t>(
      CpuModel::hinges_task_elements / std::max<std::int64_t>(1, classes), 1, std::max<std::int64_t>(1, rows));
  const std::int64_t none = rows * classes;
  std::atomic<std::int64_t> first_bad{none};
  parallel_for((rows + together - 1) / together, [&](std::int64_t task) {
    HingeRow<T> row(call, classes);
    for (std::int64_t n = task * together; n < std::min(rows, (task + 1) * together); ++n) {
      const std::int64_t bad = row.template read_targets<Index>(n);
      if (bad >= 0) {  // later rows of this task come after it
        std::int64_t seen = first_bad.load();
        while (n * classes + bad < seen && !first_bad.compare_exchange_weak(seen, n * classes + bad)) {
        }
        return;
      }
      T scale = 1;
      if (call.inputs.size() > 2)
        scale = static_cast<const T*>(call.inputs[2].data)[last > 0 ? n * call.inputs[2].strides[0] : 0];
      sums[n] = static_cast<T>(row.sum(n, scale));
    }
  });
  const std::int64_t bad = first_bad.load();
  if (bad == none) return;
  const std::int64_t n = bad / classes, k = bad % classes;
  const auto* y = static_cast<const Index*>(target.data);
  fail(Error::Kind::index, "multilabel_margin_loss: target[{}{}] = {} is outside [0, {})",
       last > 0 ? std::to_string(n) + ", " : "", k,
       y[(last > 0 ? n * target.strides[0] : 0) + k * target.strides[last]], classes);
}

}  // namespace

void run_multilabel_hinges(const LibraryCall& call) {
  with_index_type(call.inputs[1].dtype, [&](auto type) {
    using Index = typename decltype(type)::type;
    call.inputs[0].dtype == DType::f64 ? sum_hinges<double, Index>(call) : sum_hinges<float, Index>(call);
  });
}

}  // namespace ebb::cpu
