// SPDX-License-Identifier: MIT
// Shape operations that join tensors: cat and the operations based on it.
#include <algorithm>
#include <numeric>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/axes.h"
#include "ops/shape_nodes.h"

namespace ebb {

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis) {
  require(!tensors.empty(), "cat: no tensors were given");
  const Shape& first = tensors[0].shape();
  require(first.rank() > 0, "cat: tensors of rank 0 have no axis to be joined along; use stack");
  const int a = normalize_axis("cat", axis, first.rank());
  DType dtype = tensors[0].dtype();
  std::int64_t total = 0;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const Shape& shape = tensors[k].shape();
    require(shape.rank() == first.rank() && shape.with(a, 0) == first.with(a, 0),
            "cat: tensor {} has shape {}, which differs from {} in an axis other than {}", k, shape, first, a);
    dtype = promote(dtype, tensors[k].dtype());
    total = checked_sum("cat", total, shape[a]);
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> parts;
  for (const Tensor& part : tensors) {
    if (part.shape()[a] > 0) parts.push_back(cast(part, dtype));  // empty parts add nothing, not even a gradient
  }
  if (parts.empty()) return cast(tensors[0], dtype);
  if (parts.size() == 1) return parts[0];
  Attrs attrs;
  attrs.i[0] = a;
  return make_node(Op::cat, dtype, first.with(a, total), parts, attrs);
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  require(!tensors.empty(), "stack: no tensors were given");
  const Shape& first = tensors[0].shape();
  const int a = normalize_axis("stack", axis, first.rank() + 1);
  std::vector<Tensor> slices;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    require(tensors[k].shape() == first, "stack: tensor {} has shape {}, the first has {}", k, tensors[k].shape(),
            first);
    slices.push_back(unsqueeze(tensors[k], a));
  }
  return cat(slices, a);
}

// ---- pad ------------------------------------------------------------------------------------------------------------

namespace {

// `count` elements next to an edge of x, by mode.
Tensor border(const Tensor& x, int axis, std::int64_t count, bool before, PadMode mode, Scalar value) {
  const std::int64_t n = x.shape()[axis];
  const Shape shape = x.shape().with(axis, count);
  switch (mode) {
    case PadMode::constant:
      return full(shape, value, x.dtype());
    case PadMode::replicate: {
      require(n > 0, "pad: an empty axis of shape {} has no edge to replicate", x.shape());
      return expand(narrow_node(x, axis, before ? 0 : n - 1, 1, 1), shape);
    }
    case PadMode::reflect: {
      require(count < n, "pad: reflection by {} needs more than {} elements along axis {} of shape {}", count, n, axis,
              x.shape());
      return narrow_node(x, axis, before ? count : n - 2, count, -1);
    }
  }
  fail(Error::Kind::value, "pad: unknown mode");
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts, PadMode mode, Scalar value) {
  require(amounts.size() % 2 == 0 && static_cast<int>(amounts.size()) <= 2 * x.rank(),
          "pad: needs a pair of amounts per axis, from the last axis backwards, got {} for shape {}", amounts.size(),
          x.shape());
  Tensor y = x;
  for (std::size_t k = 0; k < amounts.size() / 2; ++k) {
    const int axis = x.rank() - 1 - static_cast<int>(k);
    std::int64_t before = amounts[2 * k], after = amounts[2 * k + 1];
    const std::int64_t n = y.shape()[axis];
    require(before >= -n && after >= -n && std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0) >= -n,
            "pad: cropping by {} and {} leaves nothing of axis {} of shape {}", before, after, axis, x.shape());
    // Borders come from the tensor as it was before cropping.
    std::vector<Tensor> parts;
    const bool zero = mode == PadMode::constant && value.real() == 0;
    if (before > 0 && !zero) parts.push_back(border(y, axis, before, true, mode, value));
    parts.push_back(narrow_node(y, axis, std::max<std::int64_t>(-before, 0),
                                n + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0), 1));
    if (after > 0 && !zero) parts.push_back(border(y, axis, after, false, mode, value));
    y = zero ? pad_zero(parts[0], axis, std::max<std::int64_t>(before, 0), std::max<std::int64_t>(after, 0))
             : cat(parts, axis);
  }
  return y;
}

// ---- order and repetition -------------------------------------------------------------------------------------------

Tensor flip(const Tensor& x, const Axes& axes) {
  const std::uint32_t mask = axes_mask("flip", axes, x.rank());
  Tensor y = x;
  for (int a = 0; a < x.rank(); ++a) {
    const std::int64_t n = x.shape()[a];
    if (in_mask(mask, a) && n > 1) y = narrow_node(y, a, n - 1, n, -1);
  }
  return y;
}

Tensor roll(const Tensor& x, const Axes& shifts, const Axes& axes) {
  if (axes.empty()) {
    require(shifts.size() == 1, "roll: without axes there is one shift, got {}", shifts.size());
    return reshape(roll(reshape(x, {-1}), shifts, 0), x.shape());
  }
  require(shifts.size() == axes.size(), "roll: {} shifts were given for {} axes", shifts.size(), axes.size());
  Tensor y = x;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int a = normalize_axis("roll", axes[k], x.rank());
    const std::int64_t n = x.shape()[a];
    if (n == 0) continue;
    const std::int64_t shift = (shifts[k] % n + n) % n;  // the last `shift` elements come to the front
    if (shift) y = cat({narrow_node(y, a, n - shift, shift, 1), narrow_node(y, a, 0, n - shift, 1)}, a);
  }
  return y;
}

Tensor repeat(const Tensor& x, const Sizes& repeats) {
  const int rank = static_cast<int>(repeats.size()), fresh = rank - x.rank();
  require(fresh >= 0, "repeat: {} numbers of repeats are too few for shape {}", rank, x.shape());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(fresh), 1);
  sizes.insert(sizes.end(), x.shape().begin(), x.shape().end());
  Tensor y = reshape(x, sizes);
  for (int a = 0; a < rank; ++a) {
    const std::int64_t times = repeats[static_cast<std::size_t>(a)];
    require(times >= 0, "repeat: the number of repeats must not be negative, got {}", times);
    if (times == 1) continue;
    // Everything from this axis on, as one block, repeated.
    const Shape now = y.shape();
    const std::int64_t size = checked_product("repeat", now[a], times);
    std::int64_t outer = 1, block = 1;
    for (int d = 0; d < rank; ++d) (d < a ? outer : block) *= now[d];
    y = reshape(expand(reshape(y, {outer, 1, block}), {outer, times, block}), now.with(a, size));
  }
  return y;
}

}  // namespace ebb
