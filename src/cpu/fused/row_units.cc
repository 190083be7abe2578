// SPDX-License-Identifier: MIT
#include "cpu/fused/row_units.h"

#include "core/buffer.h"
#include "cpu/library/copy.h"

// The function that computes the cotangents gets tensors of its own, equal in shape for every `count` units: the graph
// it builds of them then has the same structure for every group of units, and is scheduled once.
namespace ebb::cpu {
namespace {

// Takes a view [units, ..] or [sides·units, ..], or one number, which is passed whole.
Tensor part(const View& all, std::int64_t units, std::int64_t first, std::int64_t count) {
  const bool whole = all.shape.rank() == 0;
  const std::int64_t sides = whole ? 1 : all.shape[0] / units;
  const Shape one_side = whole ? all.shape : all.shape.with(0, count);
  const Shape shape = whole ? all.shape : all.shape.with(0, sides * count);
  const std::int64_t n = one_side.numel();
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(all.dtype);
  const BufferPtr memory = BufferPtr::allocate(bytes ? bytes : 1, "linear_cross_entropy");
  const View to{memory.data(), all.dtype, one_side, contiguous_strides(one_side)};
  for (std::int64_t s = 0; s < sides; ++s) {
    View from = all, here = to;
    from.shape = one_side;
    if (!whole) from.data = element_at(all, (s * units + first) * all.strides[0]);
    here.data = element_at(to, s * n);
    copy_elements(here, from);
  }
  return make_data(all.dtype, shape, memory);
}

}  // namespace

Tensor ask_for_cotangents(const RowUnits& units, std::int64_t first, std::int64_t count, const View& losses,
                          std::span<const View> further) {
  const Shape rows{units.sides * units.units, units.tokens};
  std::vector<Tensor> parts;
  for (const View& v : further) parts.push_back(part(v, units.units, first, count));
  return units.cotangents(part({losses.data, losses.dtype, rows, contiguous_strides(rows)}, units.units, first, count),
                          parts);
}

}  // namespace ebb::cpu
