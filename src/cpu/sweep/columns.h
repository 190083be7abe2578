// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "core/buffer.h"
#include "cpu/sweep/accumulate.h"
#include "cpu/sweep/code.h"

namespace ebb::cpu {

// One task's reduction over its rows, one number per column: closed runs of rows, and the open one. Tasks shorter than
// a run have only the latter.
class ColumnSums {
 public:
  ColumnSums(const ColumnReduce& reduce, std::int64_t columns, std::int64_t rows) : c_(reduce), columns_(columns) {
    const auto n = static_cast<std::size_t>(columns);
    if (is_float(c_.type)) open_ = BufferPtr::allocate(std::max<std::size_t>(n * size_of(c_.type), 8), "column sums");
    if (within_a_run(c_.type, rows)) return;
    closed_ = BufferPtr::allocate(std::max<std::size_t>(n * sizeof(Accumulator), 8), "column sums");
    std::fill_n(closed(), n, identity(c_.op, c_.type));
  }

  static bool within_a_run(RegType type, std::int64_t rows) { return is_float(type) && rows < kRowsPerRun; }

  // Adds columns [column, column + width) of `rows` consecutive rows.
  void add(const void* tile, std::int64_t rows, std::int64_t column, std::int64_t width) {
    const auto size = static_cast<std::int64_t>(size_of(c_.type));
    std::byte* open = open_.data() == nullptr ? nullptr : open_.data() + column * size;
    const auto count = static_cast<std::size_t>(width);
    c_.fn(closed_.data() == nullptr ? nullptr : closed() + column, open, tile,
          {.rows = static_cast<std::size_t>(rows),
           .columns = count,
           .stride = count,
           .before = static_cast<std::size_t>(rows_)});
    if (column + width == columns_) rows_ = (rows_ + rows) % kRowsPerRun;
  }

  // The accumulators, one per column; for tasks within a run, numbers of the type.
  BufferPtr finish() {
    if (closed_.data() == nullptr) return std::move(open_);
    if (rows_ > 0 && c_.type == RegType::f32) close(reinterpret_cast<const float*>(open_.data()));
    if (rows_ > 0 && c_.type == RegType::f64) close(reinterpret_cast<const double*>(open_.data()));
    return std::move(closed_);
  }

 private:
  Accumulator* closed() { return reinterpret_cast<Accumulator*>(closed_.data()); }
  template <class T>
  void close(const T* open) {
    combine_reals(c_.op, closed(), columns_, [open](std::int64_t i) { return static_cast<double>(open[i]); });
  }

  const ColumnReduce& c_;
  std::int64_t columns_;
  BufferPtr open_, closed_;
  std::int64_t rows_ = 0;  // in the open run
};

}  // namespace ebb::cpu
