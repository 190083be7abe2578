// SPDX-License-Identifier: MIT
// weighted_gather by banded matrices (calls/banded.h): one axis after the other. Those that become shorter come first,
// then the others, the last of them before those whose lines are added as vectors.
#include "calls/banded.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "core/ceil_div.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"
#include "cpu/window/band_kernels.h"
#include "ebb/memory.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kTableLanes = 16;  // of the widest vectors
// Terms from which on a row is one dot product, instead of several rows side by side: an order of sums.
constexpr std::int64_t kDotTaps = 16;

// A matrix that is applied to [lines, columns, inner] -> [lines, rows, inner].
template <class T>
class BandStage {
 public:
  BandStage(const BandedAxis& axis, std::int64_t inner, const std::int64_t* index, const T* weights)
      : axis_(axis), inner_(inner), index_(index + axis.index_at), weights_(weights + axis.weight_at) {
    if (inner > 1 || axis.taps >= kDotTaps || axis.columns > std::numeric_limits<std::int32_t>::max()) return;
    step_ = ceil_div(axis.rows, kTableLanes) * kTableLanes;
    first_.resize(static_cast<std::size_t>(step_));
    many_.resize(static_cast<std::size_t>(step_));
    by_tap_.resize(static_cast<std::size_t>(step_ * axis.taps));
    for (std::int64_t i = 0; i < axis.rows; ++i) {
      first_[static_cast<std::size_t>(i)] = static_cast<GridIndex<T>>(index_[2 * i]);
      many_[static_cast<std::size_t>(i)] = static_cast<GridIndex<T>>(index_[2 * i + 1]);
      for (std::int64_t k = 0; k < axis.taps; ++k)
        by_tap_[static_cast<std::size_t>(k * step_ + i)] = weights_[i * axis.taps + k];
    }
  }

  std::int64_t from_line() const { return axis_.columns * inner_; }
  std::int64_t to_line() const { return axis_.rows * inner_; }
  // Rows [begin, end) of one line; a matrix with neighbours at once makes all of them.
  std::int64_t rows() const { return by_tap_.empty() ? axis_.rows : 1; }
  void run(const T* x, T* y, std::int64_t begin, std::int64_t end) const {
    if (!by_tap_.empty()) {
      kernels_.gather(axis_.rows, axis_.taps, step_, first_.data(), many_.data(), by_tap_.data(), x, y);
      return;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = index_[2 * i], many = index_[2 * i + 1];
      const T* const w = weights_ + i * axis_.taps;
      if (inner_ == 1) {
        y[i] = kernels_.dot(many, w, x + first);
      } else {
        kernels_.combine(inner_, many, w, x + first * inner_, inner_, y + i * inner_);
      }
    }
  }

 private:
  BandedAxis axis_;
  std::int64_t inner_, step_ = 0;
  const std::int64_t* index_;
  const T* weights_;
  std::vector<GridIndex<T>> first_, many_;  // of matrices with few taps along neighbours
  std::vector<T> by_tap_;
  const BandKernels<T>& kernels_ = band_kernels<T>();
};

template <class T>
struct Stages {
  struct Placed {
    BandStage<T> stage;
    std::int64_t lines, from, to;  // lines of a plane, its elements before and after
  };
  std::vector<Placed> of;
  std::int64_t planes, from, to, most = 0;  // elements of a plane: at both ends, and the most between them

  Stages(const BandedCall& call, const Shape& x, const Shape& y, const std::int64_t* index, const T* weights)
      : planes(x[0]), from(x.numel() / x[0]), to(y.numel() / y[0]) {
    std::vector<int> order(static_cast<std::size_t>(call.axes));
    std::iota(order.begin(), order.end(), 0);
    const auto growth = [&](int a) { return static_cast<double>(y[a + 1]) / static_cast<double>(x[a + 1]); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return growth(a) >= 1 && growth(b) >= 1 ? a > b : growth(a) < growth(b); });
    Shape now = x.with(0, 1);
    for (const int a : order) {
      std::int64_t lines = 1, inner = 1;
      for (int d = 1; d <= a; ++d) lines *= now[d];
      for (int d = a + 2; d < now.rank(); ++d) inner *= now[d];
      const std::int64_t before = now.numel();
      now = now.with(a + 1, y[a + 1]);
      of.push_back({BandStage<T>(banded_axis(call, a, x, y), inner, index, weights), lines, before, now.numel()});
      most = std::max(most, now.numel());
    }
  }
};

// Lines [begin, end) of the stage's result; a line may be divided further.
template <class T>
void run_stage(const typename Stages<T>::Placed& s, const T* x, T* y, bool in_parallel) {
  const BandStage<T>& stage = s.stage;
  if (!in_parallel) {
    for (std::int64_t l = 0; l < s.lines; ++l)
      stage.run(x + l * stage.from_line(), y + l * stage.to_line(), 0, stage.rows());
    return;
  }
  const std::int64_t items = s.lines * stage.rows();
  const std::int64_t each = std::clamp<std::int64_t>(cpu_model().pool_elements * items / s.to, 1, items);
  parallel_for(ceil_div(items, each), [&](std::int64_t task) {
    const std::int64_t end = std::min(items, (task + 1) * each);
    for (std::int64_t i = task * each; i < end;) {
      const std::int64_t line = i / stage.rows(), row = i - line * stage.rows();
      const std::int64_t last = std::min(stage.rows(), row + end - i);
      stage.run(x + line * stage.from_line(), y + line * stage.to_line(), row, last);
      i += last - row;
    }
  });
}

// Whether every row of every matrix is a single one, as those of the nearest element are: then elements are copied.
template <class T>
bool only_copies(const BandedCall& call, const Shape& x, const Shape& y, const std::int64_t* index, const T* weights) {
  for (int a = 0; a < call.axes; ++a) {
    const BandedAxis axis = banded_axis(call, a, x, y);
    if (axis.taps != 1) return false;
    for (std::int64_t i = 0; i < axis.rows; ++i) {
      if (index[axis.index_at + 2 * i + 1] != 1 || weights[axis.weight_at + i] != T(1)) return false;
    }
  }
  return true;
}

// y[p, i_1, ..., c] = x[p, first_1[i_1], ..., c]: rows of the last axis, each from a row of x.
template <class T>
void copy_rows(const BandedCall& call, const Shape& x, const Shape& y, const std::int64_t* index, const T* from,
               T* to) {
  const int last = static_cast<int>(call.axes);  // also the number of the last axis in the shapes
  const std::int64_t count = y[last], inner = y[last + 1], row = count * inner, from_row = x[last] * inner;
  const BandedAxis axis = banded_axis(call, last - 1, x, y);
  std::vector<std::int64_t> first(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) first[static_cast<std::size_t>(i)] = index[axis.index_at + 2 * i] * inner;
  const std::int64_t rows = y.numel() / row, each = std::max<std::int64_t>(1, cpu_model().pool_elements / row);
  const auto source_of = [&](std::int64_t r) {  // the number of its row of x
    std::int64_t source = 0, scale = 1;
    for (int d = last - 1; d >= 0; --d) {
      const std::int64_t i = r % y[d];
      source += scale * (d == 0 ? i : index[banded_axis(call, d - 1, x, y).index_at + 2 * i]);
      scale *= x[d];
      r /= y[d];
    }
    return source;
  };
  parallel_for(ceil_div(rows, each), [&](std::int64_t task) {
    std::int64_t before = -1;
    for (std::int64_t r = task * each; r < std::min(rows, (task + 1) * each); ++r) {
      const std::int64_t source = source_of(r);
      T* const out = to + r * row;
      const T* const in = from + source * from_row;
      if (source == before) {
        std::memcpy(out, out - row, static_cast<std::size_t>(row) * sizeof(T));
      } else if (inner == 1) {
        for (std::int64_t i = 0; i < count; ++i) out[i] = in[first[static_cast<std::size_t>(i)]];
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          std::memcpy(out + i * inner, in + first[static_cast<std::size_t>(i)],
                      static_cast<std::size_t>(inner) * sizeof(T));
      }
      before = source;
    }
  });
}

template <class T>
void apply(const LibraryCall& call) {
  const View &x = call.inputs[0], &y = call.outputs[0];
  BufferPtr keep[4];
  const auto& index = packed(call.inputs[1], keep[0], label_of(call));
  const auto& weights = packed(call.inputs[2], keep[1], label_of(call));
  const View from = packed(x, keep[2], label_of(call));
  const auto& options = options_as<BandedCall>(call.attrs);
  const auto* const places = static_cast<const std::int64_t*>(index.data);
  const auto* const numbers = static_cast<const T*>(weights.data);
  if (only_copies(options, x.shape, y.shape, places, numbers)) {
    return with_element_size(x.dtype, [&](auto type) {
      using Bits = typename decltype(type)::type;
      copy_rows(options, x.shape, y.shape, places, static_cast<const Bits*>(from.data), static_cast<Bits*>(y.data));
    });
  }
  const Stages<T> stages(options, x.shape, y.shape, places, numbers);
  constexpr RegType kReg = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  const bool wide = x.dtype == dtype_of_type<T>::value;
  const LoadFn load = tile_kernels().load(x.dtype, kReg);
  const StoreFn store = tile_kernels().store(kReg, y.dtype);
  const std::int64_t count = stages.planes;
  // Few planes are divided among threads themselves.
  const bool divides = count < cpu_model().tasks_per_thread * num_threads();
  const std::int64_t together =
      divides ? count : std::max<std::int64_t>(1, cpu_model().pool_elements / std::max(stages.from, stages.most));
  const auto some = [&](std::int64_t task) {
    const auto room = [](std::int64_t n) { return std::unique_ptr<T[]>(new T[static_cast<std::size_t>(n)]); };
    const auto loaded = room(wide ? 0 : stages.from), a = room(stages.most), b = room(stages.most);
    for (std::int64_t p = task * together; p < std::min(count, (task + 1) * together); ++p) {
      const T* now = static_cast<const T*>(from.data) + (wide ? p * stages.from : 0);
      if (!wide) {
        load(loaded.get(), element_at(from, p * stages.from), 1, static_cast<std::size_t>(stages.from));
        now = loaded.get();
      }
      for (std::size_t k = 0; k < stages.of.size(); ++k) {
        const bool last = k + 1 == stages.of.size();
        T* const to = last && wide ? static_cast<T*>(y.data) + p * stages.to : k % 2 == 0 ? a.get() : b.get();
        run_stage<T>(stages.of[k], now, to, divides);
        now = to;
      }
      if (!wide) store(element_at(y, p * stages.to), 1, now, static_cast<std::size_t>(stages.to));
    }
  };
  if (divides) {
    some(0);
  } else {
    parallel_for(ceil_div(count, together), some);
  }
}

}  // namespace

void run_banded(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0 || call.inputs[0].shape.numel() == 0) return zero_elements(call.outputs[0]);
  compute_dtype(call.outputs[0].dtype) == DType::f64 ? apply<double>(call) : apply<float>(call);
}

}  // namespace ebb::cpu
