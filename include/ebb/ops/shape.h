// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "ebb/ops/reduce.h"
#include "ebb/tensor.h"

namespace ebb {

// The same elements in row-major order; one size may be −1 and is inferred.
Tensor reshape(const Tensor& x, const Sizes& sizes);
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
Tensor squeeze(const Tensor& x, const Axes& axes = {});  // all axes of size 1, or those among the given ones
Tensor unsqueeze(const Tensor& x, std::int64_t axis);

Tensor permute(const Tensor& x, const Axes& axes);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor t(const Tensor& x);  // rank 2 or less

// Repeats axes of size 1 (and new leading ones) without copying. −1 keeps a size.
Tensor expand(const Tensor& x, const Sizes& sizes);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
// The reverse: sums x over the axes along which `shape` was broadcast to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length);
// NumPy's x[start:stop:step] along an axis: negative positions count from the end, positions outside are clamped.
// kEnd as stop runs to the last element in the direction of the step.
inline constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t stop = kEnd, std::int64_t step = 1);
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);  // one position; the axis disappears

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0);  // the last may be smaller
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis = 0);
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

enum class PadMode { constant, reflect, replicate };
// pad lists (before, after) pairs from the last axis backwards, as in PyTorch. Negative amounts crop.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& pad, PadMode mode = PadMode::constant, Scalar value = 0.0);

Tensor flip(const Tensor& x, const Axes& axes = {});
Tensor roll(const Tensor& x, const Axes& shifts, const Axes& axes = {});  // without axes: of the flattened tensor
Tensor repeat(const Tensor& x, const Sizes& repeats);                     // tiles, as torch.Tensor.repeat

Tensor tril(const Tensor& x, std::int64_t diagonal = 0);  // of the last two axes; zero above (below) the diagonal
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);  // rank 1: a matrix with that diagonal; rank 2: its diagonal
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t a = 0, std::int64_t b = 1);  // comes last

Tensor contiguous(const Tensor& x);  // laid out row-major; x itself where it already is

}  // namespace ebb
