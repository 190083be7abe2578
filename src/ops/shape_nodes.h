// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"

// The nodes of the public shape operations and the gradient rules.
namespace ebb {

// Elements start, start + step, ... along an axis; returns x itself if that is all of it. Positions must exist.
Tensor narrow_node(const Tensor& x, int axis, std::int64_t start, std::int64_t length, std::int64_t step);

// Zeros before and after along an axis; amounts must not be negative.
Tensor pad_zero(const Tensor& x, int axis, std::int64_t before, std::int64_t after);

// NumPy's start:stop:step on an axis of `size` elements, resolved.
struct SliceRange {
  std::int64_t start, length, step;
};
SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t stop, std::int64_t step);

// Sums and products of sizes; throws an Error naming `op` if the result does not fit.
std::int64_t checked_sum(const char* op, std::int64_t a, std::int64_t b);
std::int64_t checked_product(const char* op, std::int64_t a, std::int64_t b);
// Throws an Error if there is no memory for this many numbers, before they are listed one by one.
void require_memory_for(const char* op, std::int64_t numbers);

}  // namespace ebb
