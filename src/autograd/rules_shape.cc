// SPDX-License-Identifier: MIT
#include <algorithm>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/shape.h"
#include "ebb/ops.h"
#include "ops/shape_nodes.h"

// Gradient rules of the shape operations. An operation that only moves elements has the rule that moves them back; one
// that repeats elements has the rule that sums the copies.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// The product of the sizes before, or from, an axis: a tensor as [outer, size·inner...].
std::int64_t sizes_before(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int a = 0; a < axis; ++a) n *= shape[a];
  return n;
}
std::int64_t sizes_after(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int a = axis + 1; a < shape.rank(); ++a) n *= shape[a];
  return n;
}

Axes negated(const Axes& shifts) {
  std::vector<std::int64_t> result;
  for (std::int64_t s : shifts) result.push_back(-s);
  return result;
}

// g with step − 1 zeros between its elements along an axis: [outer, n, 1, inner] padded to [outer, n, step, inner],
// flattened, without the zeros after the last element.
Tensor spread(const Tensor& g, int axis, std::int64_t step) {
  const std::int64_t n = g.shape()[axis];
  if (step == 1 || n <= 1) return g;
  const Tensor apart = reshape(g, {sizes_before(g.shape(), axis), n, 1, sizes_after(g.shape(), axis)});
  const Tensor zeros_between = reshape(pad_zero(apart, 2, 0, step - 1), g.shape().with(axis, n * step));
  return narrow(zeros_between, axis, 0, (n - 1) * step + 1);
}

}  // namespace

Tensor reshape_backward(const Tensor& grad, const Shape& shape) { return reshape(grad, shape); }
Tensor flatten_backward(const Tensor& grad, const Shape& shape) { return reshape(grad, shape); }
Tensor squeeze_backward(const Tensor& grad, const Shape& shape) { return reshape(grad, shape); }
Tensor unsqueeze_backward(const Tensor& grad, const Shape& shape) { return reshape(grad, shape); }
Tensor contiguous_backward(const Tensor& grad) { return grad; }

// Axis k of the result was axes[k] of the input.
Tensor permute_backward(const Tensor& grad, const Axes& axes) {
  require(static_cast<int>(axes.size()) == grad.rank(),
          "permute_backward: {} axes were named for a gradient of shape {}", axes.size(), grad.shape());
  std::vector<std::int64_t> inverse(axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    inverse[static_cast<std::size_t>(normalize_axis("permute_backward", axes[k], grad.rank()))] =
        static_cast<std::int64_t>(k);
  }
  return permute(grad, inverse);
}
Tensor transpose_backward(const Tensor& grad, std::int64_t a, std::int64_t b) { return transpose(grad, a, b); }

Tensor expand_backward(const Tensor& grad, const Shape& shape) { return sum_to(grad, shape); }
Tensor sum_to_backward(const Tensor& grad, const Shape& shape) { return expand(grad, shape); }

// y_i = x_{start + step·i}       dx is 0 except at those positions
Tensor narrow_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t start,
                       std::int64_t step) {
  const int a = normalize_axis("narrow_backward", axis, shape.rank());
  require(grad.rank() == shape.rank() && grad.shape().with(a, shape[a]) == shape && step != 0,
          "narrow_backward: a gradient of shape {} is not a part of shape {} along axis {}", grad.shape(), shape, a);
  const std::int64_t n = grad.shape()[a], last = start + step * (n - 1);
  if (n == 0) return zeros(shape, grad.dtype());
  require(std::min(start, last) >= 0 && std::max(start, last) < shape[a], Error::Kind::index,
          "narrow_backward: positions {} to {} do not lie in axis {} of shape {}", start, last, a, shape);
  const Tensor forwards = spread(step < 0 ? flip(grad, a) : grad, a, step < 0 ? -step : step);
  return pad_zero(forwards, a, std::min(start, last), shape[a] - 1 - std::max(start, last));
}

Tensor slice_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t start, std::int64_t stop,
                      std::int64_t step) {
  const SliceRange r = slice_range(shape[normalize_axis("slice_backward", axis, shape.rank())], start, stop, step);
  return narrow_backward(grad, shape, axis, r.start, r.step);
}

Tensor select_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, std::int64_t index) {
  const int a = normalize_axis("select_backward", axis, shape.rank());
  return narrow_backward(unsqueeze(grad, a), shape, a, index < 0 ? index + shape[a] : index);
}

Tensor split_backward(const std::vector<Tensor>& grads, std::int64_t axis) { return cat(grads, axis); }
Tensor chunk_backward(const std::vector<Tensor>& grads, std::int64_t axis) { return cat(grads, axis); }
std::vector<Tensor> cat_backward(const Tensor& grad, const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  return split(grad, sizes, axis);
}
std::vector<Tensor> stack_backward(const Tensor& grad, std::int64_t axis) {
  const int a = normalize_axis("stack_backward", axis, grad.rank());
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < grad.shape()[a]; ++k) parts.push_back(select(grad, a, k));
  return parts;
}

// The cotangents of the borders return to the elements they came from; axes in the reverse order of pad's.
Tensor pad_backward(const Tensor& grad, const Shape& shape, const std::vector<std::int64_t>& amounts, PadMode mode) {
  require(amounts.size() % 2 == 0 && static_cast<int>(amounts.size()) <= 2 * shape.rank(),
          "pad_backward: needs a pair of amounts per axis, got {} for shape {}", amounts.size(), shape);
  Tensor g = grad;
  for (std::size_t k = amounts.size() / 2; k-- > 0;) {
    const int a = shape.rank() - 1 - static_cast<int>(k);
    const std::int64_t before = std::max<std::int64_t>(amounts[2 * k], 0), crop = before - amounts[2 * k];
    const std::int64_t after = std::max<std::int64_t>(amounts[2 * k + 1], 0), n = shape[a];
    require(g.rank() == shape.rank() && g.shape()[a] == n + amounts[2 * k] + amounts[2 * k + 1],
            "pad_backward: a gradient of shape {} does not belong to an input of shape {}", grad.shape(), shape);
    const Shape inner = g.shape().with(a, n);
    Tensor sum_of_parts = narrow_backward(narrow(g, a, before, g.shape()[a] - before - after), inner, a, crop);
    auto give_back = [&](const Tensor& part, std::int64_t edge, std::int64_t first) {
      sum_of_parts = sum_of_parts + (mode == PadMode::replicate ? narrow_backward(sum(part, a, true), inner, a, edge)
                                                                : narrow_backward(part, inner, a, first, -1));
    };
    if (mode != PadMode::constant && before > 0) give_back(narrow(g, a, 0, before), 0, before);
    if (mode != PadMode::constant && after > 0) give_back(narrow(g, a, g.shape()[a] - after, after), n - 1, n - 2);
    g = sum_of_parts;
  }
  return g;
}

Tensor flip_backward(const Tensor& grad, const Axes& axes) { return flip(grad, axes); }
Tensor roll_backward(const Tensor& grad, const Axes& shifts, const Axes& axes) {
  return roll(grad, negated(shifts), axes);
}

// The copies of every block are summed, axis by axis, the last one first.
Tensor repeat_backward(const Tensor& grad, const Shape& shape, const Sizes& repeats) {
  const int rank = static_cast<int>(repeats.size()), fresh = rank - shape.rank();
  require(fresh >= 0 && grad.rank() == rank, "repeat_backward: a gradient of shape {} is not a repetition of shape {}",
          grad.shape(), shape);
  Tensor g = grad;
  for (int a = rank - 1; a >= 0; --a) {
    const std::int64_t size = a < fresh ? 1 : shape[a - fresh], times = repeats[static_cast<std::size_t>(a)];
    require(g.shape()[a] == size * times, "repeat_backward: a gradient of shape {} is not a repetition of shape {}",
            grad.shape(), shape);
    const Shape once = g.shape().with(a, size);
    const std::int64_t outer = sizes_before(once, a), block = size * sizes_after(once, a);
    if (times != 1) g = reshape(sum(reshape(g, {outer, times, block}), 1), once);
  }
  return reshape(g, shape);
}

Tensor tril_backward(const Tensor& grad, std::int64_t diagonal) { return tril(grad, diagonal); }
Tensor triu_backward(const Tensor& grad, std::int64_t diagonal) { return triu(grad, diagonal); }

Tensor diag_backward(const Tensor& grad, const Shape& shape, std::int64_t offset) {
  return shape.rank() == 1 ? diagonal(grad, offset) : diagonal_backward(grad, shape, offset);
}

// Writes back to every (columns+1)-th element of the flattened matrices.
Tensor diagonal_backward(const Tensor& grad, const Shape& shape, std::int64_t offset, std::int64_t a, std::int64_t b) {
  require(shape.rank() >= 2, "diagonal_backward: needs at least two axes, got shape {}", shape);
  const int row = normalize_axis("diagonal_backward", a, shape.rank());
  const int column = normalize_axis("diagonal_backward", b, shape.rank());
  std::vector<std::int64_t> order, sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis != row && axis != column) order.push_back(axis);
  }
  order.insert(order.end(), {row, column});
  for (std::int64_t axis : order) sizes.push_back(shape[static_cast<int>(axis)]);
  const std::int64_t columns = shape[column];
  const Shape run_together = grad.shape().with(grad.rank() - 1, shape[row] * columns);
  const Tensor placed = narrow_backward(grad, run_together, -1, offset >= 0 ? offset : -offset * columns, columns + 1);
  return permute_backward(reshape(placed, sizes), order);
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

const Shape& input_shape(const RuleContext& c) { return c.inputs[0].shape(); }

Cotangents reshape_rule(const RuleContext& c) { return {reshape_backward(c.grad, input_shape(c))}; }
Cotangents expand_rule(const RuleContext& c) { return {expand_backward(c.grad, input_shape(c))}; }
Cotangents permute_rule(const RuleContext& c) {
  const auto axes = unpack_axes(c.attrs.i[0]);
  return {permute_backward(c.grad, std::vector<std::int64_t>(axes.begin(), axes.begin() + c.grad.rank()))};
}
Cotangents narrow_rule(const RuleContext& c) {
  return {narrow_backward(c.grad, input_shape(c), c.attrs.i[0], c.attrs.i[1], c.attrs.i[2])};
}
Cotangents cat_rule(const RuleContext& c) {
  std::vector<std::int64_t> sizes;
  for (const Tensor& x : c.inputs) sizes.push_back(x.shape()[static_cast<int>(c.attrs.i[0])]);
  return cat_backward(c.grad, sizes, c.attrs.i[0]);
}
Cotangents pad_zero_rule(const RuleContext& c) {
  const int axis = static_cast<int>(c.attrs.i[0]);
  return {narrow(c.grad, axis, c.attrs.i[1], input_shape(c)[axis])};
}

// The gradient moves back. A value that belongs to no device takes it unmoved.
Cotangents to_device_rule(const RuleContext& c) {
  const Node& from = *c.inputs[0].node();
  return {from.homeless ? c.grad : c.grad.to(from.device)};
}

constexpr RuleRow kShapeRules[] = {
    {Op::reshape, reshape_rule},     {Op::expand, expand_rule}, {Op::permute, permute_rule},
    {Op::narrow, narrow_rule},       {Op::cat, cat_rule},       {Op::pad_zero, pad_zero_rule},
    {Op::to_device, to_device_rule},
};

}  // namespace

std::span<const RuleRow> shape_rules() { return kShapeRules; }

}  // namespace ebb
