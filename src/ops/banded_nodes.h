// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "calls/banded.h"
#include "ebb/tensor.h"

// Matrices along axes whose rows have their numbers side by side.
namespace ebb {

class Band {
 public:
  Band(std::int64_t rows, std::int64_t columns) : columns_(columns) {
    rows_.reserve(static_cast<std::size_t>(rows));
    weights_.reserve(static_cast<std::size_t>(rows));
  }
  static Band identity(std::int64_t size);
  // A new row; its numbers are added in the order of their columns, in which neighbours may be equal.
  void begin_row() { rows_.push_back({0, 0, weights_.size()}); }
  void add(std::int64_t column, double weight);

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t columns() const { return columns_; }
  std::int64_t taps() const { return taps_; }  // of the longest row
  Band transposed() const;
  void append_to(std::vector<std::int64_t>& index, std::vector<double>& weights) const;  // as BandedCall has them

 private:
  struct Row {
    std::int64_t first, count;
    std::size_t at;
  };
  std::int64_t columns_, taps_ = 1;
  std::vector<Row> rows_;
  std::vector<double> weights_;
};

// x multiplied by a matrix along each axis from `axis` on, in its compute dtype, and rounded once.
Tensor multiply_by_bands(const Tensor& x, int axis, const std::vector<Band>& bands);

// See calls/banded.h; `shape`: of the result.
Tensor banded_node(const Tensor& x, const Tensor& index, const Tensor& weights, const BandedCall& call,
                   const Shape& shape);

}  // namespace ebb
