// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
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

// A matrix along each of some neighbouring axes: which of them are one call, and their tables.
class BandedProduct {
 public:
  BandedProduct(const std::vector<Band>& bands, bool in_f64);
  // x multiplied by the matrices, the first along `axis`, in its compute dtype, and rounded once.
  Tensor of(const Tensor& x, int axis) const;
  std::size_t bytes() const;  // of the tables

 private:
  struct Axis {
    std::int64_t rows, columns;
  };
  struct Call {
    int first = 0;  // of its axes, counted from the product's
    std::vector<Axis> axes;
    BandedCall options;
    Tensor index, weights;
  };
  std::vector<Call> calls_;
};

// See calls/banded.h; `shape`: of the result.
Tensor banded_node(const Tensor& x, const Tensor& index, const Tensor& weights, const BandedCall& call,
                   const Shape& shape);

}  // namespace ebb
