// SPDX-License-Identifier: MIT
#include "ops/axes.h"

#include "core/format_error.h"

namespace ebb {

std::uint32_t axes_mask(const char* op, const Axes& axes, int rank) {
  if (axes.empty()) return trailing_axes(rank, rank);
  std::uint32_t mask = 0;
  for (std::int64_t axis : axes) {
    // A scalar may be reduced over its only element as if it had one axis, as in PyTorch.
    if (rank == 0 && (axis == 0 || axis == -1)) continue;
    const std::uint32_t bit = 1u << normalize_axis(op, axis, rank);
    require(!(mask & bit), Error::Kind::index, "{}: axis {} is named twice", op, axis);
    mask |= bit;
  }
  return mask;
}

std::uint32_t trailing_axes(int rank, int count) { return ((1u << count) - 1) << (rank - count); }

Axes axes_of(std::uint32_t mask, int rank) {
  std::vector<std::int64_t> axes;
  for (int a = 0; a < rank; ++a) {
    if (in_mask(mask, a)) axes.push_back(a);
  }
  return axes;
}

Shape kept_shape(const Shape& shape, std::uint32_t mask) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  for (int a = 0; a < shape.rank(); ++a) {
    if (in_mask(mask, a)) sizes[static_cast<std::size_t>(a)] = 1;
  }
  return sizes;
}

Shape reduced_shape(const Shape& shape, std::uint32_t mask) {
  std::vector<std::int64_t> sizes;
  for (int a = 0; a < shape.rank(); ++a) {
    if (!in_mask(mask, a)) sizes.push_back(shape[a]);
  }
  return sizes;
}

std::int64_t reduced_count(const Shape& shape, std::uint32_t mask) {
  std::int64_t count = 1;
  for (int a = 0; a < shape.rank(); ++a) {
    if (in_mask(mask, a)) count *= shape[a];
  }
  return count;
}

}  // namespace ebb
