// SPDX-License-Identifier: MIT
// gather, scatter and scatter_zero_add: an index for every element, along one axis.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

int axis_of(const LibraryCall& call) { return static_cast<int>(call.attrs.i[0]); }

// Calls visit(line, step) for all of a block, in a cache-friendly order. Along one line steps increase, so updates of
// one output element come in row-major order.
template <class L, class Visit>
void walk(const L& lines, const typename L::Block& block, Visit&& visit) {
  if (lines.axis_is_innermost()) {
    for (std::int64_t l = 0; l < block.count; ++l) {
      for (std::int64_t i = 0; i < lines.length(); ++i) visit(l, i);
    }
  } else {
    for (std::int64_t i = 0; i < lines.length(); ++i) {
      for (std::int64_t l = 0; l < block.count; ++l) visit(l, i);
    }
  }
}

// A scalar index as an axis of one element.
View at_least_1d(View v) {
  if (v.shape.rank() == 0) v.shape = Shape{1}, v.strides = Strides{};
  return v;
}

// out[.., index[.., i, ..], ..] = combine(that element, src[.., i, ..])
template <class Acc, class T, class Combine>
void scatter_into(Acc* out, const View& out_view, const View& index, const View& src, int axis, Combine&& combine) {
  const Lines<3> lines(index.shape, axis, {out_view.strides, index.strides, src.strides});
  const std::int64_t out_step = out_view.strides[axis], index_step = index.strides[axis], src_step = src.strides[axis];
  const T* from = static_cast<const T*>(src.data);
  with_index_type(index.dtype, [&](auto type) {
    const auto* at = static_cast<const typename decltype(type)::type*>(index.data);
    lines.for_each_block([&](const auto& block) {
      walk(lines, block, [&](std::int64_t l, std::int64_t i) {
        const std::int64_t where = at[block.offset[1][l] + i * index_step];
        Acc& to = out[block.offset[0][l] + where * out_step];
        to = combine(to, from[block.offset[2][l] + i * src_step]);
      });
    });
  });
}

// Negative if i < 0 or i > most. The difference of a negative i wraps, but then i is negative.
template <class T>
T beyond(T i, T most) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(i) | (static_cast<U>(most) - static_cast<U>(i)));
}

inline float as_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
inline float as_float(Half x) { return to_float(x); }

}  // namespace

void check_indices(const LibraryCall& call, const View& view, std::int64_t size) {
  const View index = at_least_1d(view);
  const std::int64_t n = index.shape.numel();
  if (n == 0) return;
  const int last = index.shape.rank() - 1;
  // Lines along the last axis are numbered in row-major order, so the least bad position is the first.
  const Lines<1> lines(index.shape, last, {index.strides});
  const std::int64_t length = lines.length(), step = index.strides[last];
  std::atomic<std::int64_t> first_bad{n};
  with_index_type(index.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* data = static_cast<const T*>(index.data);
    lines.for_each_block([&](const auto& block) {
      for (std::int64_t l = 0; l < block.count; ++l) {
        const T* line = data + block.offset[0][l];
        // Either difference is negative where an index is outside; without comparisons, the loop is vectorised.
        const T most = static_cast<T>(std::min<std::int64_t>(size - 1, std::numeric_limits<T>::max()));
        T outside = size > 0 ? T(0) : T(-1);
        if (step == 1) {
          for (std::int64_t i = 0; i < length; ++i) outside = static_cast<T>(outside | beyond(line[i], most));
        } else {
          for (std::int64_t i = 0; i < length; ++i) outside = static_cast<T>(outside | beyond(line[i * step], most));
        }
        if (outside >= 0) continue;
        std::int64_t i = 0;
        while (line[i * step] >= 0 && line[i * step] < size) ++i;
        const std::int64_t position = (block.first + l) * length + i;
        std::int64_t seen = first_bad.load();
        while (position < seen && !first_bad.compare_exchange_weak(seen, position)) {
        }
        return;
      }
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
  check_indices(call, index, x.shape[axis]);
  const Lines<3> lines(out.shape, axis, {contiguous_strides(out.shape), index.strides, x.strides});
  const std::int64_t out_step = contiguous_strides(out.shape)[axis];
  const std::int64_t index_step = index.strides[axis], x_step = x.strides[axis];
  with_index_type(index.dtype, [&](auto index_type) {
    const auto* at = static_cast<const typename decltype(index_type)::type*>(index.data);
    with_element_size(x.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T* from = static_cast<const T*>(x.data);
      T* to = static_cast<T*>(out.data);
      lines.for_each_block([&](const auto& block) {
        walk(lines, block, [&](std::int64_t l, std::int64_t i) {
          const std::int64_t where = at[block.offset[1][l] + i * index_step];
          to[block.offset[0][l] + i * out_step] = from[block.offset[2][l] + where * x_step];
        });
      });
    });
  });
}

void run_scatter(const LibraryCall& call) {
  const View base = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const View src = at_least_1d(call.inputs[2]), out = at_least_1d(call.outputs[0]);
  check_indices(call, index, out.shape[axis_of(call)]);
  copy_elements(out, base);
  with_element_size(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    scatter_into<T, T>(static_cast<T*>(out.data), out, index, src, axis_of(call), [](T, T value) { return value; });
  });
}

// Halves are added in f32 and rounded at the end.
void run_scatter_zero_add(const LibraryCall& call) {
  const View src = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const int axis = axis_of(call);
  check_indices(call, index, out.shape[axis]);
  with_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (is_half_type<T>) {
      if (index.shape[axis] == 1) {  // no two updates meet: no sums are needed
        zero_elements(out);
        scatter_into<T, T>(static_cast<T*>(out.data), out, index, src, axis,
                           [](T zero, T v) { return as_float(v) == 0 ? zero : v; });  // 0 + -0 is 0
        return;
      }
      const std::int64_t n = out.shape.numel();
      const BufferPtr keep = BufferPtr::allocate(static_cast<std::size_t>(n) * sizeof(float), "scatter_add");
      const View sums{keep.data(), DType::f32, out.shape, contiguous_strides(out.shape)};
      zero_elements(sums);
      float* sum = static_cast<float*>(sums.data);
      scatter_into<float, T>(sum, out, index, src, axis, [](float s, T value) { return s + as_float(value); });
      constexpr std::int64_t kStep = 65536;
      parallel_for((n + kStep - 1) / kStep, [&](std::int64_t i) {
        float_to_halves(out.dtype, sum + i * kStep, element_at(out, i * kStep), std::min(kStep, n - i * kStep));
      });
    } else {
      zero_elements(out);
      scatter_into<T, T>(static_cast<T*>(out.data), out, index, src, axis, [](T s, T v) { return wrapping_add(s, v); });
    }
  });
}

}  // namespace ebb::cpu
