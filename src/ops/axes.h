// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/ops/reduce.h"
#include "ebb/shape.h"

// Sets of axes as bit masks, and the shapes of reductions over them.
namespace ebb {

// The mask of these axes; the empty set means all of them. Throws Error naming `op` for an axis that does not exist or
// is given twice.
std::uint32_t axes_mask(const char* op, const Axes& axes, int rank);

// The axes of the last `count` dimensions.
std::uint32_t trailing_axes(int rank, int count);

Axes axes_of(std::uint32_t mask, int rank);
inline bool in_mask(std::uint32_t mask, int axis) { return mask >> axis & 1u; }

Shape kept_shape(const Shape& shape, std::uint32_t mask);     // reduced axes have size 1
Shape reduced_shape(const Shape& shape, std::uint32_t mask);  // reduced axes are removed
std::int64_t reduced_count(const Shape& shape, std::uint32_t mask);

}  // namespace ebb
