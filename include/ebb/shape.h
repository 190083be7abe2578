// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace ebb {

// Sizes of a tensor's dimensions, outermost first. At most eight dimensions, stored inline: shapes are copied for every
// node of the graph and must not cost an allocation.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), static_cast<int>(sizes.size())) {}
  Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.data(), static_cast<int>(sizes.size())) {}
  Shape(const std::int64_t* sizes, int rank);  // throws Error for a negative size, too many dimensions or overflow

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::int64_t numel() const { return numel_; }

  bool operator==(const Shape& o) const;
  bool operator!=(const Shape& o) const { return !(*this == o); }

  Shape with(int axis, std::int64_t size) const;      // the same shape with one size replaced
  Shape without(int axis) const;                      // one dimension fewer
  Shape inserted(int axis, std::int64_t size) const;  // one dimension more, before `axis`

  std::string str() const;  // "[2, 3]"

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& os, const Shape& shape);  // as str()

// Sizes as an argument, where −1 has a special meaning: {2, −1}, a vector, or another tensor's shape.
class Sizes {
 public:
  Sizes(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Sizes(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  Sizes(const Shape& shape) : sizes_(shape.begin(), shape.end()) {}
  std::size_t size() const { return sizes_.size(); }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }
  std::int64_t operator[](std::size_t k) const { return sizes_[k]; }

 private:
  std::vector<std::int64_t> sizes_;
};

// A set of axes: 1, {0, -1} or a vector. The empty set stands for all axes, as in PyTorch.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis} {}
  Axes(std::int64_t axis) : axes_{axis} {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  Axes(std::vector<std::int64_t> axes) : axes_(std::move(axes)) {}
  bool empty() const { return axes_.empty(); }
  std::size_t size() const { return axes_.size(); }
  auto begin() const { return axes_.begin(); }
  auto end() const { return axes_.end(); }
  std::int64_t operator[](std::size_t k) const { return axes_[k]; }

 private:
  std::vector<std::int64_t> axes_;
};

// Elements (not bytes) between neighbours along each dimension. 0 repeats one element; a negative stride runs
// backwards.
struct Strides {
  std::array<std::int64_t, Shape::kMaxRank> of{};
  std::int64_t& operator[](int axis) { return of[static_cast<std::size_t>(axis)]; }
  std::int64_t operator[](int axis) const { return of[static_cast<std::size_t>(axis)]; }
};

Strides contiguous_strides(const Shape& shape);
// Dense and row-major: dimensions of size 1 may have any stride, an empty tensor is always contiguous.
bool is_contiguous(const Shape& shape, const Strides& strides);

// NumPy's rule: align at the right, sizes must be equal or one of them 1. `op` is named in the error.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

// Maps -1 to the last axis and so on; throws Error(index) naming `op` when the axis does not exist.
int normalize_axis(const char* op, std::int64_t axis, int rank);

}  // namespace ebb
