// SPDX-License-Identifier: MIT
#pragma once
#include <array>

#include "core/buffer.h"
#include "cpu/sweep/accumulate.h"
#include "cpu/sweep/code.h"

namespace ebb::cpu {

// One task's reduction over its rows, one number per column. Sums of f32 are closed into doubles every kRowsPerRun
// rows, so that the error does not grow with the number of rows.
class ColumnSums {
 public:
  ColumnSums(const ColumnReduce& reduce, std::int64_t columns, const TileKernels& kernels)
      : c_(reduce), columns_(columns), kernels_(kernels) {
    const auto n = static_cast<std::size_t>(columns);
    open_ = BufferPtr::allocate(std::max<std::size_t>(n * size_of(c_.type), 8), "column sums");
    closed_ = BufferPtr::allocate(std::max<std::size_t>(n * sizeof(Accumulator), 8), "column sums");
    clear_open();
    auto* closed = reinterpret_cast<Accumulator*>(closed_.data());
    std::fill(closed, closed + n, identity(c_.op, c_.type));
  }

  // Columns [column, column + width) of `rows` rows that lie one after the other.
  void add(const void* tile, std::int64_t rows, std::int64_t column, std::int64_t width) {
    const auto size = static_cast<std::int64_t>(size_of(c_.type));
    std::byte* open = open_.data() + column * size;
    const auto* from = static_cast<const std::byte*>(tile);
    for (std::int64_t i = 0; i < rows; ++i) {
      c_.fn(open, open, from + i * width * size, nullptr, static_cast<std::size_t>(width));
      const bool row_done = column + width == columns_;
      if (row_done && ++rows_ == kRowsPerRun) close();
    }
  }

  // The accumulators, one a column.
  BufferPtr finish() {
    close();
    return std::move(closed_);
  }

 private:
  void clear_open() {
    std::array<std::byte, 8> number;
    Accumulator id = identity(c_.op, c_.type);
    if (c_.type == RegType::i32 && c_.op == Op::max) id.integer = std::numeric_limits<std::int32_t>::min();
    if (c_.type == RegType::i32 && c_.op == Op::min) id.integer = std::numeric_limits<std::int32_t>::max();
    write(c_.type, number.data(), id);
    kernels_.fill(c_.type, open_.data(), number.data(), static_cast<std::size_t>(columns_));
    rows_ = 0;
  }

  void close() {
    auto* closed = reinterpret_cast<Accumulator*>(closed_.data());
    if (c_.type == RegType::f32) {
      const auto* open = reinterpret_cast<const float*>(open_.data());
      combine_reals(c_.op, closed, columns_, [open](std::int64_t i) { return static_cast<double>(open[i]); });
    } else {
      const auto size = static_cast<std::int64_t>(size_of(c_.type));
      for (std::int64_t i = 0; i < columns_; ++i)
        combine(c_.op, c_.type, closed[i], read(c_.type, open_.data() + i * size));
    }
    clear_open();
  }

  const ColumnReduce& c_;
  std::int64_t columns_;
  const TileKernels& kernels_;
  BufferPtr open_, closed_;
  int rows_ = 0;
};

}  // namespace ebb::cpu
