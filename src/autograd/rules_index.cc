// SPDX-License-Identifier: MIT
#include <limits>

#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/index.h"
#include "ebb/ops.h"
#include "ops/banded_nodes.h"
#include "ops/index_nodes.h"
#include "ops/shape_nodes.h"

// Gradient rules of the index operations: cotangents of elements read from a position are added there, those of
// elements written to a position are read from there.
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// Elements of src that survive a scatter: those not overwritten by a later one with the same target. Few elements per
// line are compared with one another. Otherwise they are numbered, in i32 if that is enough: half of the bytes.
Tensor stayed(const Shape& shape, int axis, const Tensor& index) {
  const std::int64_t few = index.shape()[axis];
  if (few > 0 && few <= shape[axis] / few && index.rank() < Shape::kMaxRank) {
    const int last = index.rank() - 1;
    const Tensor at = transpose(index, axis, last), place = arange(few);
    const Tensor later = unsqueeze(place, 0) > unsqueeze(place, 1);
    const Tensor same = logical_and(unsqueeze(at, -1) == unsqueeze(at, -2), later);
    return transpose(logical_not(any(same, {last + 1}, false)), axis, last);
  }
  const DType dtype = index.numel() <= std::numeric_limits<std::int32_t>::max() ? DType::i32 : DType::i64;
  const Tensor number = reshape(arange(0, index.numel(), 1, dtype), index.shape());
  const Tensor last = scatter_node(full(shape, -1, dtype), axis, index, number);
  return gather_node(last, axis, index) == number;
}

}  // namespace

// y = x[index]                   dx[index] += g
Tensor gather_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, const Tensor& index) {
  const int a = normalize_axis("gather_backward", axis, shape.rank());
  require(grad.shape() == index.shape() && grad.rank() == shape.rank(),
          "gather_backward: gradient of shape {}, index of shape {} and input of shape {} do not fit", grad.shape(),
          index.shape(), shape);
  return scatter_zero_add(grad, a, index_operand("gather_backward", index), shape);
}

Tensor take_along_backward(const Tensor& grad, const Shape& shape, const Tensor& index, std::int64_t axis) {
  const int a = normalize_axis("take_along_backward", axis, shape.rank());
  const Tensor repeated = expand(index, grad.shape());
  return sum_to(gather_backward(grad, grad.shape().with(a, shape[a]), a, repeated), shape);
}

// y = x except src at index      dx = g except 0 at index,   dsrc = g[index] where src survived
std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad, std::int64_t axis, const Tensor& index) {
  const int a = normalize_axis("scatter_backward", axis, grad.rank());
  const Tensor at = index_operand("scatter_backward", index);
  return {scatter(grad, a, at, 0.0), where(stayed(grad.shape(), a, at), gather(grad, a, at), 0)};
}

// y = x, y[index] += src         dx = g,   dsrc = g[index]
std::pair<Tensor, Tensor> scatter_add_backward(const Tensor& grad, std::int64_t axis, const Tensor& index) {
  return {grad, gather(grad, axis, index)};
}

// The same for whole slices.
Tensor index_select_backward(const Tensor& grad, const Shape& shape, std::int64_t axis, const Tensor& index) {
  const int a = normalize_axis("index_select_backward", axis, shape.rank());
  require(index.rank() == 1 && grad.rank() == shape.rank() && grad.shape() == shape.with(a, index.numel()),
          "index_select_backward: gradient of shape {}, index of shape {} and input of shape {} do not fit",
          grad.shape(), index.shape(), shape);
  return index_zero_add(grad, a, index_operand("index_select_backward", index), shape);
}

std::pair<Tensor, Tensor> index_add_backward(const Tensor& grad, std::int64_t axis, const Tensor& index) {
  return {grad, index_select(grad, axis, index)};
}

Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t rows,
                          std::optional<std::int64_t> padding_index) {
  require(grad.rank() == index.rank() + 1 && grad.shape().without(index.rank()) == index.shape(),
          "embedding_backward: gradient of shape {} and index of shape {} do not fit", grad.shape(), index.shape());
  const std::int64_t width = grad.shape()[index.rank()];
  const Tensor at = reshape(index, {index.numel()});
  Tensor g = reshape(grad, {index.numel(), width});
  if (padding_index) {
    const std::int64_t padding = *padding_index < 0 ? *padding_index + rows : *padding_index;
    g = where(reshape(at, {index.numel(), 1}) == padding, 0, g);
  }
  return index_select_backward(g, {rows, width}, 0, at);
}

// Sorting moves elements.
Tensor sort_backward(const Tensor& grad, const Tensor& indices, std::int64_t axis) {
  return grad.rank() == 0 ? grad : gather_backward(grad, grad.shape(), axis, indices);
}
Tensor topk_backward(const Tensor& grad, const Shape& shape, const Tensor& indices, std::int64_t axis) {
  return gather_backward(grad, shape, axis, indices);
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

Cotangents gather_rule(const RuleContext& c) {
  const auto axis = static_cast<int>(c.attrs.i[0]);
  return {scatter_zero_add(c.grad, axis, c.inputs[1], c.inputs[0].shape(), static_cast<IndexLines>(c.attrs.i[1])), {}};
}
Cotangents scatter_zero_add_rule(const RuleContext& c) {
  return {gather_node(c.grad, static_cast<int>(c.attrs.i[0]), c.inputs[1], static_cast<IndexLines>(c.attrs.i[1])), {}};
}
Cotangents scatter_rule(const RuleContext& c) {
  auto [x, src] = scatter_backward(c.grad, c.attrs.i[0], c.inputs[1]);
  return {x, {}, src};
}
Cotangents index_select_rule(const RuleContext& c) {
  const auto lines = static_cast<IndexLines>(c.attrs.i[1]);
  return {index_zero_add(c.grad, static_cast<int>(c.attrs.i[0]), c.inputs[1], c.inputs[0].shape(), lines), {}};
}
Cotangents index_zero_add_rule(const RuleContext& c) {
  const auto lines = static_cast<IndexLines>(c.attrs.i[1]);
  return {index_select_node(c.grad, static_cast<int>(c.attrs.i[0]), c.inputs[1], lines), {}};
}
// Σ y·w·x[index] is linear in x, w and y: see ops/index_nodes.h.
Cotangents weighted_gather_rule(const RuleContext& c) {
  if (is_banded(c.attrs)) {
    BandedCall call = options_as<BandedCall>(c.attrs);
    call.transposed = !call.transposed;
    return {banded_node(c.grad, c.inputs[1], c.inputs[2], call, c.inputs[0].shape()), {}, {}};
  }
  Cotangents out(3);
  if (c.needs[0]) out[0] = weighted_scatter_node(c.grad, c.inputs[1], c.inputs[2], c.inputs[0].size(2));
  if (c.needs[2]) out[2] = gather_dot_node(c.inputs[0], c.grad, c.inputs[1]);
  return out;
}
Cotangents weighted_scatter_rule(const RuleContext& c) {
  Cotangents out(3);
  if (c.needs[0]) out[0] = weighted_gather_node(c.grad, c.inputs[1], c.inputs[2]);
  if (c.needs[2]) out[2] = gather_dot_node(c.grad, c.inputs[0], c.inputs[1]);
  return out;
}
Cotangents gather_dot_rule(const RuleContext& c) {
  Cotangents out(3);
  if (c.needs[0]) out[0] = weighted_scatter_node(c.inputs[1], c.inputs[2], c.grad, c.inputs[0].size(2));
  if (c.needs[1]) out[1] = weighted_gather_node(c.inputs[0], c.inputs[2], c.grad);
  return out;
}

constexpr RuleRow kIndexRules[] = {
    {Op::pick, gather_rule},
    {Op::place, scatter_zero_add_rule},
    {Op::gather, gather_rule},
    {Op::scatter_zero_add, scatter_zero_add_rule},
    {Op::scatter, scatter_rule},
    {Op::index_select, index_select_rule},
    {Op::index_zero_add, index_zero_add_rule},
    {Op::weighted_gather, weighted_gather_rule},
    {Op::weighted_scatter, weighted_scatter_rule},
    {Op::gather_dot, gather_dot_rule},
};

}  // namespace

std::span<const RuleRow> index_rules() { return kIndexRules; }

}  // namespace ebb
