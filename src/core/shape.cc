// SPDX-License-Identifier: MIT
#include "ebb/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ostream>

#include "core/format_error.h"

namespace ebb {
namespace {

std::string text_of(const std::int64_t* sizes, int rank) {
  return fmt::format("[{}]", fmt::join(sizes, sizes + rank, ", "));
}

// The number of elements, or -1 when a tensor of eight-byte elements would not be addressable. As in NumPy the nonzero
// sizes determine that, so strides never overflow, not even those of an empty tensor.
std::int64_t checked_numel(const std::int64_t* sizes, int rank) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t product = 1;
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] == 0) {
      empty = true;
    } else if (sizes[i] > kLargest / product) {
      return -1;
    } else {
      product *= sizes[i];
    }
  }
  return empty ? 0 : product;
}

}  // namespace

Shape::Shape(const std::int64_t* sizes, int rank) : rank_(rank) {
  require(rank >= 0 && rank <= kMaxRank, "shape: {} dimensions requested, at most {} are possible", rank, kMaxRank);
  std::copy_n(sizes, rank, sizes_.begin());
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 0) {
      fail(Error::Kind::value, "shape: size {} of axis {} in {} is negative", sizes[i], i, text_of(sizes, rank));
    }
  }
  numel_ = checked_numel(sizes, rank);
  if (numel_ < 0) {  // the text is made only on failure: shapes are built for every node
    fail(Error::Kind::value, "shape: {} has more elements than memory can address", text_of(sizes, rank));
  }
}

bool Shape::operator==(const Shape& o) const { return rank_ == o.rank_ && std::equal(begin(), end(), o.begin()); }

Shape Shape::with(int axis, std::int64_t size) const {
  auto sizes = sizes_;
  sizes[static_cast<std::size_t>(normalize_axis("shape", axis, rank_))] = size;
  return Shape(sizes.data(), rank_);
}

Shape Shape::without(int axis) const {
  auto sizes = sizes_;
  auto at = sizes.begin() + normalize_axis("shape", axis, rank_);
  std::copy(at + 1, sizes.end(), at);
  return Shape(sizes.data(), rank_ - 1);
}

Shape Shape::inserted(int axis, std::int64_t size) const {
  require(rank_ < kMaxRank, "shape: {} has {} dimensions already, at most {} are possible", *this, rank_, kMaxRank);
  auto sizes = sizes_;
  auto at = sizes.begin() + normalize_axis("shape", axis, rank_ + 1);
  std::copy_backward(at, sizes.end() - 1, sizes.end());
  *at = size;
  return Shape(sizes.data(), rank_ + 1);
}

std::string Shape::str() const { return text_of(begin(), rank_); }
std::ostream& operator<<(std::ostream& os, const Shape& shape) { return os << shape.str(); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return true;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != step) return false;
    step *= shape[axis];
  }
  return true;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const std::int64_t size_a = in_a < 0 ? 1 : a[in_a], size_b = in_b < 0 ? 1 : b[in_b];
    // If the ranks differ, only an axis counted from the right means the same in both shapes.
    require(size_a == size_b || size_a == 1 || size_b == 1,
            "{}: shapes {} and {} do not broadcast: sizes {} and {} of axis {} differ", op, a, b, size_a, size_b,
            a.rank() == b.rank() ? axis : axis - rank);
    sizes[static_cast<std::size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  if (checked_numel(sizes.data(), rank) < 0) {
    fail(Error::Kind::value, "{}: shapes {} and {} broadcast to {}, which has more elements than memory can address",
         op, a, b, text_of(sizes.data(), rank));
  }
  return Shape(sizes.data(), rank);
}

int normalize_axis(const char* op, std::int64_t axis, int rank) {
  require(rank > 0, Error::Kind::index, "{}: axis {} does not exist, a scalar has no axes", op, axis);
  require(axis >= -rank && axis < rank, Error::Kind::index,
          "{}: axis {} does not exist, {} dimension{} allow{} -{} to {}", op, axis, rank, rank == 1 ? "" : "s",
          rank == 1 ? "s" : "", rank, rank - 1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace ebb
