// SPDX-License-Identifier: MIT
// index_select and index_zero_add: one index for a whole slice along an axis, as for an embedding and its gradient.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"
#include "cpu/tile/row_sums.h"

namespace ebb::cpu {
namespace {

// The numbers of an index, in place where they are dense.
class Indices {
 public:
  explicit Indices(const View& index) {
    const std::int64_t n = index.shape.numel(), step = index.shape.rank() == 0 ? 0 : index.strides[0];
    if (index.dtype == DType::i64 && (step == 1 || n <= 1)) {
      numbers_ = {static_cast<const std::int64_t*>(index.data), static_cast<std::size_t>(n)};
      return;
    }
    keep_.resize(static_cast<std::size_t>(n));
    with_index_type(index.dtype, [&](auto type) {
      const auto* data = static_cast<const typename decltype(type)::type*>(index.data);
      for (std::int64_t i = 0; i < n; ++i) keep_[static_cast<std::size_t>(i)] = data[i * step];
    });
    numbers_ = keep_;
  }
  Indices(const Indices&) = delete;
  std::span<const std::int64_t> numbers() const { return numbers_; }

 private:
  std::vector<std::int64_t> keep_;
  std::span<const std::int64_t> numbers_;
};

// A tensor around an axis: [outer, size, inner].
struct AroundAxis {
  std::int64_t outer = 1, size = 0, inner = 1;
  AroundAxis(const Shape& shape, int axis) : size(shape[axis]) {
    for (int d = 0; d < axis; ++d) outer *= shape[d];
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
};

// The positions of the index that name row r: order[start[r]] .. order[start[r + 1]), ascending (a counting sort).
struct PositionsByRow {
  std::vector<std::int64_t> start, order;
  PositionsByRow(std::span<const std::int64_t> index, std::int64_t rows)
      : start(static_cast<std::size_t>(rows) + 1), order(index.size()) {
    for (const std::int64_t r : index) ++start[static_cast<std::size_t>(r) + 1];
    for (std::size_t r = 1; r < start.size(); ++r) start[r] += start[r - 1];
    std::vector<std::int64_t> next(start.begin(), start.end() - 1);
    for (std::size_t i = 0; i < index.size(); ++i)
      order[static_cast<std::size_t>(next[static_cast<std::size_t>(index[i])]++)] = static_cast<std::int64_t>(i);
  }
};

// The type for sums of T: many tokens may fall on one row, so f32 is added in f64 and halves in f32.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, float>, double, std::conditional_t<is_half_type<T>, float, T>>;

template <class T>
void add_row(SumOf<T>* sum, const T* row, std::int64_t n) {
  if constexpr (std::is_same_v<T, BFloat16>) {  // a shift, which needs no tile
    for (std::int64_t i = 0; i < n; ++i) sum[i] += std::bit_cast<float>(static_cast<std::uint32_t>(row[i].bits) << 16);
  } else if constexpr (is_half_type<T>) {
    if (n == 1) {
      *sum += to_float(*row);
      return;
    }
    constexpr std::int64_t kTile = 512;
    float tile[kTile];
    for (std::int64_t i = 0; i < n; i += kTile) {
      const std::int64_t count = std::min(kTile, n - i);
      halves_to_float(dtype_of_type<T>::value, row + i, 1, tile, count);
      for (std::int64_t j = 0; j < count; ++j) sum[i + j] += tile[j];
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) sum[i] = wrapping_add<SumOf<T>>(sum[i], row[i]);
  }
}

template <class T>
void store_row(T* to, const SumOf<T>* sum, std::int64_t n) {
  if constexpr (std::is_same_v<T, Half>) {
    if (n == 1) return void(*to = half_from(*sum));
    float_to_halves(DType::f16, sum, to, n);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    if (n == 1) return void(*to = bfloat16_from(*sum));
    float_to_halves(DType::bf16, sum, to, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sum[i]);
  }
}

// Numbers rows in the order in which they come: a hash table with room to spare, whose size does not depend on how many
// rows there are.
class NumberedRowsSoFar {
 public:
  explicit NumberedRowsSoFar(std::int64_t most) : places_(std::bit_ceil(static_cast<std::size_t>(most) * 2 + 2)) {}
  std::size_t of(std::int64_t row) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = static_cast<std::size_t>(static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (places_[at] != 0 && rows_[places_[at] - 1] != row) at = (at + 1) & mask;
    if (places_[at] == 0) {
      rows_.push_back(row);
      places_[at] = rows_.size();
    }
    return places_[at] - 1;
  }
  const std::vector<std::int64_t>& rows() const { return rows_; }

 private:
  std::vector<std::size_t> places_;  // a number from 1 on; 0: free
  std::vector<std::int64_t> rows_;
};

// Elements of a vector go straight to their sums. Where the vector is much longer than the result, several pieces of it
// have sums side by side. Pieces depend on the shape alone and are added in order. Within a piece four sums take turns,
// so that equal indices do not wait for one another.
constexpr std::int64_t kFewTokens = 16;  // as many rows per token: chosen, not measured
template <class T, class Index>
void add_elements(const Index* index, std::int64_t index_step, const T* from, std::int64_t from_step,
                  std::int64_t tokens, T* out, std::int64_t rows) {
  constexpr std::int64_t kTurns = 4, kTokens = 65536, kMostPieces = 16;
  if (tokens < rows / kFewTokens) {  // sums of the elements that there are, not of all
    std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(rows) * sizeof(T));
    NumberedRowsSoFar numbers(tokens);
    const auto sums = std::make_unique<SumOf<T>[]>(static_cast<std::size_t>(tokens));  // zeros
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::size_t k = numbers.of(static_cast<std::int64_t>(index[i * index_step]));
      add_row<T>(&sums[k], from + i * from_step, 1);
    }
    for (std::size_t k = 0; k < numbers.rows().size(); ++k) store_row<T>(out + numbers.rows()[k], &sums[k], 1);
    return;
  }
  const std::int64_t turns = rows <= 4096 && tokens >= kTurns * rows ? kTurns : 1;
  const std::int64_t pieces = std::clamp<std::int64_t>(tokens / std::max(kTokens, 4 * turns * rows), 1, kMostPieces);
  const std::int64_t step = (tokens + pieces - 1) / pieces;
  const auto sums = std::make_unique<SumOf<T>[]>(static_cast<std::size_t>(pieces * turns * rows));  // zeros
  parallel_for(pieces, [&](std::int64_t piece) {
    SumOf<T>* sum = sums.get() + piece * turns * rows;
    const std::int64_t first = piece * step, last = std::min(tokens, first + step);
    const auto add = [&](std::int64_t i, std::int64_t turn) {
      add_row<T>(sum + turn * rows + static_cast<std::int64_t>(index[i * index_step]), from + i * from_step, 1);
    };
    std::int64_t i = first;
    if (turns == kTurns) {
      for (; i + kTurns <= last; i += kTurns) {
        for (std::int64_t turn = 0; turn < kTurns; ++turn) add(i + turn, turn);
      }
    }
    for (; i < last; ++i) add(i, 0);
  });
  for (std::int64_t part = 1; part < pieces * turns; ++part) {
    for (std::int64_t r = 0; r < rows; ++r)
      sums[static_cast<std::size_t>(r)] =
          wrapping_add<SumOf<T>>(sums[static_cast<std::size_t>(r)], sums[static_cast<std::size_t>(part * rows + r)]);
  }
  store_row<T>(out, sums.get(), rows);
}

// Elements of many lines, with the same index for all of them: adds to zeros.
template <class T>
void add_elements_of_lines(std::span<const std::int64_t> index, const T* from, std::int64_t lines, T* out,
                           std::int64_t rows) {
  const PositionsByRow positions(index, rows);
  std::vector<std::size_t> touched;
  for (std::size_t r = 0; r + 1 < positions.start.size(); ++r) {
    if (positions.start[r] < positions.start[r + 1]) touched.push_back(r);
  }
  const auto tokens = static_cast<std::int64_t>(index.size());
  constexpr std::int64_t kElements = 32768;
  const std::int64_t group = std::max<std::int64_t>(1, kElements / (rows + tokens));
  parallel_for((lines + group - 1) / group, [&](std::int64_t task) {
    const std::int64_t first = task * group, last = std::min(lines, first + group);
    std::memset(static_cast<void*>(out + first * rows), 0, static_cast<std::size_t>((last - first) * rows) * sizeof(T));
    for (std::int64_t line = first; line < last; ++line) {
      for (const std::size_t r : touched) {
        SumOf<T> sum(0);
        for (auto p = positions.start[r]; p < positions.start[r + 1]; ++p)
          add_row<T>(&sum, from + line * tokens + positions.order[static_cast<std::size_t>(p)], 1);
        store_row<T>(out + line * rows + static_cast<std::int64_t>(r), &sum, 1);
      }
    }
  });
}

}  // namespace

void run_index_select(const LibraryCall& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const int axis = static_cast<int>(call.attrs.i[0]), rank = x.shape.rank();
  check_indices(call, call.inputs[1], x.shape[axis]);
  if (out.shape.numel() == 0) return;
  const Indices indices(call.inputs[1]);
  const std::span<const std::int64_t> index = indices.numbers();
  const AroundAxis around(out.shape, axis);
  // The elements of one index are copied if they are dense or evenly spaced; otherwise they are packed first.
  BufferPtr keep;
  View from = x;
  std::int64_t inner_step = 1, run = 1;
  for (int d = rank - 1; d > axis; --d) {
    if (x.shape[d] == 1) continue;
    if (run == 1) {
      inner_step = x.strides[d];
    } else if (x.strides[d] != inner_step * run) {
      from = packed(x, keep, "index_select");
      inner_step = 1;
      break;
    }
    run *= x.shape[d];
  }
  const std::int64_t axis_step = from.strides[axis];
  std::int64_t outer_step = 0, outer_run = 1;  // where the dimensions before the axis are evenly spaced
  bool even = true;
  for (int d = axis - 1; d >= 0; --d) {
    if (from.shape[d] == 1) continue;
    if (outer_run == 1) outer_step = from.strides[d];
    even &= from.strides[d] == outer_step * outer_run;
    outer_run *= from.shape[d];
  }
  const auto outer_offset = [&](std::int64_t o) {
    if (even) return o * outer_step;
    std::int64_t offset = 0;
    for (int d = axis - 1; d >= 0; --d) {
      offset += o % from.shape[d] * from.strides[d];
      o /= from.shape[d];
    }
    return offset;
  };
  constexpr std::int64_t kElements = 32768, kShortRow = 8;  // a call would take longer than the row
  const std::int64_t group = std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, around.inner));
  const std::int64_t groups = (around.size + group - 1) / group;
  const std::int64_t lines = std::max<std::int64_t>(1, kElements / (around.size * around.inner));  // of a task
  with_element_size(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto select = [&](std::int64_t o, std::int64_t first) {
      const T* source = static_cast<const T*>(from.data) + outer_offset(o);
      T* to = static_cast<T*>(out.data) + (o * around.size + first) * around.inner;
      const std::int64_t last = std::min(around.size, first + group);
      if (around.inner == 1) {  // a call per element would take longer than the element
        for (std::int64_t i = first; i < last; ++i) *to++ = source[index[static_cast<std::size_t>(i)] * axis_step];
        return;
      }
      for (std::int64_t i = first; i < last; ++i, to += around.inner) {
        const T* row = source + index[static_cast<std::size_t>(i)] * axis_step;
        if (inner_step == 1 && around.inner > kShortRow) {
          std::memcpy(to, row, static_cast<std::size_t>(around.inner) * sizeof(T));
        } else {
          for (std::int64_t j = 0; j < around.inner; ++j) to[j] = row[j * inner_step];
        }
      }
    };
    if (groups > 1)
      return parallel_for(around.outer * groups, [&](std::int64_t i) { select(i / groups, i % groups * group); });
    parallel_for((around.outer + lines - 1) / lines, [&](std::int64_t task) {
      for (std::int64_t o = task * lines; o < std::min(around.outer, (task + 1) * lines); ++o) select(o, 0);
    });
  });
}

// Every row of the result is computed completely, from the rows of g that map to it, in order: each is read once,
// nothing is cleared beforehand and no two tasks share an element. A row with many sources is shared by columns.
void run_index_zero_add(const LibraryCall& call) {
  const View& out = call.outputs[0];
  const int axis = static_cast<int>(call.attrs.i[0]);
  check_indices(call, call.inputs[1], out.shape[axis]);
  if (out.shape.numel() == 0) return;
  const AroundAxis around(out.shape, axis);
  BufferPtr keep;
  if (around.inner == 1) {
    const View &src = call.inputs[0], &at = call.inputs[1];
    const std::int64_t tokens = at.shape.numel();
    return with_type(out.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      if (around.outer > 1) {
        const View g = packed(src, keep, "index_add");
        return add_elements_of_lines<T>(Indices(at).numbers(), static_cast<const T*>(g.data), around.outer,
                                        static_cast<T*>(out.data), around.size);
      }
      with_index_type(at.dtype, [&](auto index_type) {
        const auto* index = static_cast<const typename decltype(index_type)::type*>(at.data);
        add_elements<T>(index, at.shape.rank() == 0 ? 0 : at.strides[0], static_cast<const T*>(src.data),
                        src.strides[axis], tokens, static_cast<T*>(out.data), around.size);
      });
    });
  }
  const View g = packed(call.inputs[0], keep, "index_add");
  const Indices indices(call.inputs[1]);
  const std::span<const std::int64_t> index = indices.numbers();
  const std::int64_t tokens = static_cast<std::int64_t>(index.size());
  const PositionsByRow positions(index, around.size);
  constexpr std::int64_t kColumns = 256, kElements = 32768;
  // Slabs of nearly equal width: a few columns would take as many calls as 256.
  const std::int64_t slabs = std::max<std::int64_t>(1, (around.inner + kColumns - 1) / kColumns);
  const std::int64_t width = slabs == 1 ? around.inner : ((around.inner + slabs - 1) / slabs + 15) / 16 * 16;
  const std::int64_t across = (around.inner + width - 1) / width;
  const std::int64_t group = std::max<std::int64_t>(1, kElements / width), groups = (around.size + group - 1) / group;
  with_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* from = static_cast<const T*>(g.data);
    parallel_for(around.outer * groups * across, [&](std::int64_t task) {
      const std::int64_t column = task % across * width, columns = std::min(width, around.inner - column);
      const std::int64_t first = task / across % groups * group, o = task / across / groups;
      SumOf<T> sum[kColumns];
      for (std::int64_t r = first; r < std::min(around.size, first + group); ++r) {
        T* to = static_cast<T*>(out.data) + (o * around.size + r) * around.inner + column;
        const auto begin = static_cast<std::size_t>(positions.start[static_cast<std::size_t>(r)]);
        const auto end = static_cast<std::size_t>(positions.start[static_cast<std::size_t>(r) + 1]);
        if (begin == end) {  // the first task of a row clears all of it: long runs
          if (column == 0) std::memset(static_cast<void*>(to), 0, static_cast<std::size_t>(around.inner) * sizeof(T));
          continue;
        }
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>) {
          const NumberedRows<T> rows{from + o * tokens * around.inner + column, around.inner, &positions.order[begin],
                                     end - begin};
          if constexpr (std::is_same_v<T, float>) {
            sum_rows(to, rows, static_cast<std::size_t>(columns));
            continue;
          } else {
            sum_rows(sum, rows, static_cast<std::size_t>(columns));
          }
        } else {
          std::fill_n(sum, columns, SumOf<T>(0));
          for (std::size_t p = begin; p < end; ++p)
            add_row<T>(sum, from + (o * tokens + positions.order[p]) * around.inner + column, columns);
        }
        store_row<T>(to, sum, columns);
      }
    });
  });
}

}  // namespace ebb::cpu
