// SPDX-License-Identifier: MIT
// gather, scatter and scatter_zero_add: an index for every element, along one axis.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "calls/index_lines.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

int axis_of(const LibraryCall& call) { return static_cast<int>(call.attrs.i[0]); }

// The lines of three tensors along an axis. An index chooses elements of number kIndexed; in the others lines go on
// step by step. Updates of one element of the result come in row-major order.
template <std::size_t kIndexed>
class IndexedLines {
 public:
  IndexedLines(const Shape& shape, int axis, const std::array<Strides, 3>& strides) : lines_(shape, axis, strides) {
    for (std::size_t t = 0; t < 3; ++t) {
      steps_[t] = t == kIndexed ? 0 : strides[t][axis];
      dense_ = dense_ && (t == kIndexed || steps_[t] == 1);
    }
  }

  // Calls visit(a, b, c) with the offsets of an element in the three tensors; in the indexed one, where its line
  // begins. holds(first, count) says beforehand whether these lines may be visited. Each task makes its own `visit`.
  template <class Holds, class MakeVisit>
  void each(Holds&& holds, MakeVisit&& make_visit) const {
    if (lines_.axis_is_innermost() && lines_.even() && dense_ && lines_.length() <= kShort) {
      return lines_.for_each_range([&](std::int64_t first, std::int64_t count) {
        if (!holds(first, count)) return;
        auto visit = make_visit();
        walk_short(first, count, visit);
      });
    }
    lines_.for_each_block([&](const auto& block) {
      if (!holds(block.first, block.count)) return;
      auto visit = make_visit();
      const auto at = [&](std::int64_t l, std::int64_t i) {
        visit(block.offset[0][l] + i * steps_[0], block.offset[1][l] + i * steps_[1],
              block.offset[2][l] + i * steps_[2]);
      };
      if (lines_.axis_is_innermost()) {
        for (std::int64_t l = 0; l < block.count; ++l) {
          for (std::int64_t i = 0; i < lines_.length(); ++i) at(l, i);
        }
      } else {
        for (std::int64_t i = 0; i < lines_.length(); ++i) {
          for (std::int64_t l = 0; l < block.count; ++l) at(l, i);
        }
      }
    });
  }

 private:
  // Lines of a few elements next to one another, with loops of that length: a list of where they begin would take
  // longer than the elements. Lines of 2, 3 and 5 elements on a Cascade Lake: 0.8, 1.3 and 1.4 ns per element, with
  // such a list 2.1, 1.7 and 1.8.
  template <class Visit>
  void walk_short(std::int64_t first, std::int64_t count, Visit&& visit) const {
    const auto of_length = [&](auto length) {
      std::int64_t a = first * lines_.to_next(0), b = first * lines_.to_next(1), c = first * lines_.to_next(2);
      for (std::int64_t l = 0; l < count; ++l) {
        for (std::int64_t i = 0; i < length; ++i) visit(kIndexed == 0 ? a : a + i, b + i, kIndexed == 2 ? c : c + i);
        a += lines_.to_next(0), b += lines_.to_next(1), c += lines_.to_next(2);
      }
    };
    const auto of_any = [&]<std::int64_t... k>(std::integer_sequence<std::int64_t, k...>) {
      ((lines_.length() == k + 1 && (of_length(std::integral_constant<std::int64_t, k + 1>{}), true)) || ...);
    };
    of_any(std::make_integer_sequence<std::int64_t, kShort>{});
  }

  static constexpr std::int64_t kShort = 8;

  const Lines<3> lines_;
  std::array<std::int64_t, 3> steps_{};
  bool dense_ = true;  // along a line
};

// A scalar index as an axis of one element.
View at_least_1d(View v) {
  if (v.shape.rank() == 0) v.shape = Shape{1}, v.strides = Strides{};
  return v;
}

// Negative if i < 0 or i > most. The difference of a negative i wraps, but then i is negative.
template <class T>
T beyond(T i, T most) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(i) | (static_cast<U>(most) - static_cast<U>(i)));
}

// Whether all of n indices are in [0, size): without comparisons, the loop is vectorised.
template <class T>
bool are_within(const T* index, std::int64_t step, std::int64_t n, std::int64_t size) {
  const T most = static_cast<T>(std::min<std::int64_t>(size - 1, std::numeric_limits<T>::max()));
  T outside = size > 0 ? T(0) : T(-1);
  if (step == 1) {
    for (std::int64_t i = 0; i < n; ++i) outside = static_cast<T>(outside | beyond(index[i], most));
  } else {
    for (std::int64_t i = 0; i < n; ++i) outside = static_cast<T>(outside | beyond(index[i * step], most));
  }
  return n == 0 || outside >= 0;
}

// Checks an index while it is used, if its lines are next to one another in memory, so that it is read once; otherwise
// before. `size`: of the axis.
template <class T>
class Checked {
 public:
  Checked(const LibraryCall& call, const View& index, int axis, std::int64_t size)
      : call_(call), index_(index), size_(size), length_(index.shape[axis]) {
    bool last = is_contiguous(index.shape, index.strides);
    for (int d = axis + 1; d < index.shape.rank(); ++d) last = last && index.shape[d] == 1;
    while_used_ = last;
    if (!while_used_) check_indices(call, index, size);
  }
  bool operator()(std::int64_t first, std::int64_t count) {
    if (!while_used_ || are_within(static_cast<const T*>(index_.data) + first * length_, 1, count * length_, size_))
      return true;
    failed_.store(true);
    return false;
  }
  // Throws the error of the first index that is outside.
  void raise() const {
    if (failed_.load()) check_indices(call_, index_, size_);
  }

 private:
  const LibraryCall& call_;
  const View& index_;
  const std::int64_t size_, length_;
  bool while_used_;
  std::atomic<bool> failed_{false};
};

// Combines numbers with elements of memory, which it writes when the next number is for another one: a run of numbers
// for the same element, as in the gradient of a cumulative maximum, would wait for each number to go through memory.
// In short lines, branches that are mispredicted take longer: with lines of two 1.2 times as long, with long ones 0.75.
constexpr std::int64_t kLeastRuns = 16;  // chosen, not measured
template <class Acc, class Combine>
class Combined {
 public:
  explicit Combined(const Combine& combine) : combine_(combine) {}
  Combined(const Combined&) = delete;
  ~Combined() {
    if (at_ != nullptr) *at_ = value_;
  }
  template <class T>
  void add(Acc* to, T number) {
    if (to != at_) {
      if (at_ != nullptr) *at_ = value_;
      at_ = to;
      value_ = *to;
    }
    value_ = combine_(value_, number);
  }

 private:
  const Combine& combine_;
  Acc* at_ = nullptr;
  Acc value_{};
};

// out[.., index[.., i, ..], ..] = combine(that element, src[.., i, ..])
template <class Acc, class T, class Combine>
void scatter_into(const LibraryCall& call, Acc* out, const View& out_view, const View& index, const View& src, int axis,
                  const Combine& combine) {
  const IndexedLines<0> lines(index.shape, axis, {out_view.strides, index.strides, src.strides});
  const std::int64_t out_step = out_view.strides[axis];
  const T* from = static_cast<const T*>(src.data);
  with_index_type(index.dtype, [&](auto type) {
    using I = typename decltype(type)::type;
    const I* at = static_cast<const I*>(index.data);
    Checked<I> checked(call, index, axis, out_view.shape[axis]);
    const auto to = [&](std::int64_t line, std::int64_t i) {
      return out + line + static_cast<std::int64_t>(at[i]) * out_step;
    };
    if (static_cast<IndexLines>(call.attrs.i[1]) == IndexLines::runs && index.shape[axis] > kLeastRuns) {
      lines.each(checked, [&] {
        return [&, sums = Combined<Acc, Combine>(combine)](std::int64_t line, std::int64_t i, std::int64_t s) mutable {
          sums.add(to(line, i), from[s]);
        };
      });
    } else {
      lines.each(checked, [&] {
        return [&](std::int64_t line, std::int64_t i, std::int64_t s) {
          Acc& sum = *to(line, i);
          sum = combine(sum, from[s]);
        };
      });
    }
    checked.raise();
  });
}

inline float as_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
inline float as_float(Half x) { return to_float(x); }

}  // namespace

void check_indices(const LibraryCall& call, const View& view, std::int64_t size) {
  const View index = at_least_1d(view);
  const std::int64_t n = index.shape.numel();
  if (n == 0) return;
  const int last = index.shape.rank() - 1;
  // Lines along the last axis are numbered in row-major order, so the least bad position is the first. A dense index is
  // one line, in pieces.
  constexpr std::int64_t kPiece = 32768;
  const bool dense = is_contiguous(index.shape, index.strides);
  const std::int64_t length = dense ? std::min(n, kPiece) : index.shape[last];
  const std::int64_t step = dense ? 1 : index.strides[last];
  std::atomic<std::int64_t> first_bad{n};
  with_index_type(index.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* data = static_cast<const T*>(index.data);
    const auto check = [&](const T* line, std::int64_t count, std::int64_t before) {
      if (are_within(line, step, count, size)) return true;
      std::int64_t i = 0;
      while (line[i * step] >= 0 && line[i * step] < size) ++i;
      std::int64_t seen = first_bad.load();
      while (before + i < seen && !first_bad.compare_exchange_weak(seen, before + i)) {
      }
      return false;
    };
    if (dense) {
      return parallel_for((n + length - 1) / length, [&](std::int64_t p) {
        check(data + p * length, std::min(length, n - p * length), p * length);
      });
    }
    const Lines<1> lines(index.shape, last, {index.strides});
    lines.for_each_block([&](const auto& block) {
      std::int64_t l = 0;
      while (l < block.count && check(data + block.offset[0][l], length, (block.first + l) * length)) ++l;
    });
  });
  std::int64_t position = first_bad.load();
  if (position == n) return;
  // A label is an operation ("embedding") or names the index itself ("nll_loss: target"); the latter has no axis where
  // the call picks one element per row.
  const bool named = std::string_view(label_of(call)).find(": ") != std::string_view::npos;
  const bool picks = named && (call.op == Op::gather || call.op == Op::scatter_zero_add);
  std::string where;
  std::int64_t offset = 0;
  for (int d = last; d >= 0; --d) {
    const std::int64_t p = position % index.shape[d];
    position /= index.shape[d];
    offset += p * index.strides[d];
    if (picks && d == axis_of(call) && index.shape[d] == 1) continue;
    where = fmt::format("{}{}{}", p, where.empty() ? "" : ", ", where);
  }
  const std::int64_t value = index.dtype == DType::i32 ? static_cast<const std::int32_t*>(index.data)[offset]
                                                       : static_cast<const std::int64_t*>(index.data)[offset];
  fail(Error::Kind::index, "{}{}{} = {} is outside [0, {})", label_of(call), named ? "" : ": index",
       where.empty() || view.shape.rank() == 0 ? "" : "[" + where + "]", value, size);
}

void run_gather(const LibraryCall& call) {
  const View x = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const int axis = axis_of(call);
  const IndexedLines<2> lines(out.shape, axis, {contiguous_strides(out.shape), index.strides, x.strides});
  const std::int64_t x_step = x.strides[axis];
  with_index_type(index.dtype, [&](auto index_type) {
    using I = typename decltype(index_type)::type;
    const I* at = static_cast<const I*>(index.data);
    Checked<I> checked(call, index, axis, x.shape[axis]);
    with_element_size(x.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T* from = static_cast<const T*>(x.data);
      T* to = static_cast<T*>(out.data);
      lines.each(checked, [&] {
        return [&](std::int64_t o, std::int64_t i, std::int64_t line) {
          to[o] = from[line + static_cast<std::int64_t>(at[i]) * x_step];
        };
      });
    });
    checked.raise();
  });
}

void run_scatter(const LibraryCall& call) {
  const View base = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const View src = at_least_1d(call.inputs[2]), out = at_least_1d(call.outputs[0]);
  copy_elements(out, base);
  with_element_size(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    scatter_into<T, T>(call, static_cast<T*>(out.data), out, index, src, axis_of(call),
                       [](T, T value) { return value; });
  });
}

// Halves are added in f32 and rounded at the end.
void run_scatter_zero_add(const LibraryCall& call) {
  const View src = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const int axis = axis_of(call);
  with_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (is_half_type<T>) {
      if (index.shape[axis] == 1) {  // no two updates meet: no sums are needed
        zero_elements(out);
        scatter_into<T, T>(call, static_cast<T*>(out.data), out, index, src, axis,
                           [](T zero, T v) { return as_float(v) == 0 ? zero : v; });  // 0 + -0 is 0
        return;
      }
      const std::int64_t n = out.shape.numel();
      const BufferPtr keep = BufferPtr::allocate(static_cast<std::size_t>(n) * sizeof(float), "scatter_add");
      const View sums{keep.data(), DType::f32, out.shape, contiguous_strides(out.shape)};
      zero_elements(sums);
      float* sum = static_cast<float*>(sums.data);
      scatter_into<float, T>(call, sum, out, index, src, axis, [](float s, T value) { return s + as_float(value); });
      constexpr std::int64_t kStep = 65536;
      parallel_for((n + kStep - 1) / kStep, [&](std::int64_t i) {
        float_to_halves(out.dtype, sum + i * kStep, element_at(out, i * kStep), std::min(kStep, n - i * kStep));
      });
    } else {
      zero_elements(out);
      scatter_into<T, T>(call, static_cast<T*>(out.data), out, index, src, axis,
                         [](T s, T v) { return wrapping_add(s, v); });
    }
  });
}

}  // namespace ebb::cpu
