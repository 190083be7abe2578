// SPDX-License-Identifier: MIT
#include "ebb/ops/index.h"

#include "calls/order.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

Attrs along(int axis) {
  Attrs attrs;
  attrs.i[0] = axis;
  return attrs;
}

// pick and place: one position per row.
bool is_pick(const Shape& x, int axis, const Shape& index) { return index == x.with(axis, 1); }

// The index may be smaller than x along the other axes: the remaining positions are left alone.
int checked_axis(const char* op, const Tensor& x, std::int64_t axis, const Tensor& index) {
  const int a = normalize_axis(op, axis, x.rank());
  require(index.rank() == x.rank(), "{}: index of shape {} and tensor of shape {} must have the same number of axes",
          op, index.shape(), x.shape());
  for (int d = 0; d < x.rank(); ++d) {
    require(d == a || index.shape()[d] <= x.shape()[d],
            "{}: index of shape {} is larger than the tensor of shape {} along axis {}", op, index.shape(), x.shape(),
            d);
  }
  return a;
}

// The part of src that the index covers.
Tensor covered(const char* op, const Tensor& src, const Tensor& index) {
  require(src.rank() == index.rank(), "{}: src of shape {} and index of shape {} must have the same number of axes", op,
          src.shape(), index.shape());
  Tensor part = src;
  for (int d = 0; d < src.rank(); ++d) {
    require(index.shape()[d] <= src.shape()[d], "{}: index of shape {} is larger than src of shape {} along axis {}",
            op, index.shape(), src.shape(), d);
    part = narrow_node(part, d, 0, index.shape()[d], 1);
  }
  return part;
}

int checked_slices(const char* op, const Tensor& x, std::int64_t axis, const Tensor& index) {
  require(index.rank() == 1, "{}: the index must have rank 1, got shape {}", op, index.shape());
  return normalize_axis(op, axis, x.rank());
}

}  // namespace

// Labels begin the error of an index out of range: sweeps (pick, place) print "label[position] = value ...", library
// calls "label: index[position] = value ..." with the operation's own name where there is no label.

// ---- nodes ----------------------------------------------------------------------------------------------------------

Tensor index_operand(const char* op, const Tensor& index) {
  require(index.dtype() == DType::i64 || index.dtype() == DType::i32, Error::Kind::type,
          "{}: an index must be i64 or i32, got {}", op, name(index.dtype()));
  return cast(index, DType::i64);
}

Tensor gather_node(const Tensor& x, int axis, const Tensor& index, IndexLines lines) {
  const bool pick = is_pick(x.shape(), axis, index.shape());
  Attrs attrs = along(axis);
  attrs.i[1] = pick ? 0 : static_cast<std::int64_t>(lines);
  return make_node(pick ? Op::pick : Op::gather, x.dtype(), index.shape(), {x, index}, attrs,
                   pick ? "gather: index" : nullptr);
}

Tensor scatter_zero_add(const Tensor& src, int axis, const Tensor& index, const Shape& shape, IndexLines lines) {
  const bool place = is_pick(shape, axis, index.shape());
  Attrs attrs = along(axis);
  attrs.i[1] = place ? 0 : static_cast<std::int64_t>(lines);
  return make_node(place ? Op::place : Op::scatter_zero_add, src.dtype(), shape, {src, index}, attrs,
                   place ? "scatter_add: index" : "scatter_add");
}

Tensor scatter_node(const Tensor& x, int axis, const Tensor& index, const Tensor& src) {
  return make_node(Op::scatter, x.dtype(), x.shape(), {x, index, src}, along(axis));
}

Tensor index_select_node(const Tensor& x, int axis, const Tensor& index, IndexLines lines) {
  Attrs attrs = along(axis);
  attrs.i[1] = static_cast<std::int64_t>(lines);
  return make_node(Op::index_select, x.dtype(), x.shape().with(axis, index.numel()), {x, index}, attrs);
}

Tensor index_zero_add(const Tensor& src, int axis, const Tensor& index, const Shape& shape, IndexLines lines) {
  Attrs attrs = along(axis);
  attrs.i[1] = static_cast<std::int64_t>(lines);
  return make_node(Op::index_zero_add, src.dtype(), shape, {src, index}, attrs, "index_add");
}

Tensor weighted_gather_node(const Tensor& x, const Tensor& index, const Tensor& weight) {
  return make_node(Op::weighted_gather, x.dtype(), x.shape().with(2, index.size(1)), {x, index, weight});
}
Tensor weighted_scatter_node(const Tensor& y, const Tensor& index, const Tensor& weight, std::int64_t size) {
  return make_node(Op::weighted_scatter, y.dtype(), y.shape().with(2, size), {y, index, weight}, {}, "weighted_gather");
}
Tensor gather_dot_node(const Tensor& x, const Tensor& y, const Tensor& index) {
  return make_node(Op::gather_dot, compute_dtype(x.dtype()), index.shape(), {x, y, index}, {}, "weighted_gather");
}

Tensor linear_recurrence(const Tensor& g, const Tensor& x, int axis) {
  return make_node(Op::linear_recurrence, g.dtype(), g.shape(), {g, x}, along(axis));
}

Tensor argsort_range(const Tensor& x, int axis, bool descending, std::int64_t first, std::int64_t count) {
  if (count == 0) return zeros(x.shape().with(axis, 0), DType::i64);
  const Tensor numbers = x.dtype() == DType::bool_ ? cast(x, DType::u8) : x;
  return make_node(Op::argsort, DType::i64, x.shape().with(axis, count), {numbers},
                   along_axis(axis, ArgsortCall{descending, first, count}));
}

// ---- gather and scatter ---------------------------------------------------------------------------------------------

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index) {
  const Tensor at = index_operand("gather", index);
  return gather_node(x, checked_axis("gather", x, axis, index), at);
}

Tensor take_along(const Tensor& x, const Tensor& index, std::int64_t axis) {
  const Tensor at = index_operand("take_along", index);
  require(index.rank() == x.rank(), "take_along: index of shape {} and tensor of shape {} must have as many axes",
          index.shape(), x.shape());
  const int a = normalize_axis("take_along", axis, x.rank());
  const Shape common = broadcast_shapes("take_along", x.shape().with(a, 1), index.shape().with(a, 1));
  return gather_node(expand(x, common.with(a, x.shape()[a])), a, expand(at, common.with(a, index.shape()[a])));
}

Tensor weighted_gather(const Tensor& x, const Tensor& index, const Tensor& weight) {
  const char* op = "weighted_gather";
  const Tensor at = index_operand(op, index);
  require(is_floating(x.dtype()) && is_floating(weight.dtype()), Error::Kind::type,
          "{}: needs floating elements and weights, got {} and {}", op, x.dtype(), weight.dtype());
  require(x.rank() == 3 && index.rank() == 3 && x.size(0) == index.size(0) && index.shape() == weight.shape(),
          "{}: needs x [N, C, S] with index and weight [N, P, K], got {}, {} and {}", op, x.shape(), index.shape(),
          weight.shape());
  const DType dtype = promote(x.dtype(), weight.dtype());
  return weighted_gather_node(cast(x, dtype), at, cast(weight, compute_dtype(dtype)));
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const Tensor at = index_operand("scatter", index);
  const int a = checked_axis("scatter", x, axis, index);
  return scatter_node(x, a, at, cast(covered("scatter", src, index), x.dtype()));
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value) {
  return scatter(x, axis, index, full(index.shape(), value, x.dtype()));
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const Tensor at = index_operand("scatter_add", index);
  const int a = checked_axis("scatter_add", x, axis, index);
  // In f32 for halves: each of many small additions would be rounded otherwise.
  const Tensor part = cast(covered("scatter_add", src, index), x.dtype());
  return cast(widen(x) + scatter_zero_add(widen(part), a, at, x.shape()), x.dtype());
}

// ---- slices ---------------------------------------------------------------------------------------------------------

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index) {
  const Tensor at = index_operand("index_select", index);
  return index_select_node(x, checked_slices("index_select", x, axis, index), at);
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const Tensor at = index_operand("index_add", index);
  const int a = checked_slices("index_add", x, axis, index);
  require(src.rank() == x.rank() && src.shape() == x.shape().with(a, index.numel()),
          "index_add: src has shape {}, but {} slices along axis {} of a tensor of shape {} are to be added",
          src.shape(), index.numel(), a, x.shape());
  return cast(widen(x) + index_zero_add(widen(cast(src, x.dtype())), a, at, x.shape()), x.dtype());
}

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_index) {
  require(weight.rank() == 2, "embedding: the table must have rank 2, got shape {}", weight.shape());
  const Tensor at = reshape(index_operand("embedding", index), {-1});
  const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
  Tensor y = make_node(Op::index_select, weight.dtype(), {at.numel(), width}, {weight, at}, along(0), "embedding");
  if (padding_index) {
    const std::int64_t padding = *padding_index < 0 ? *padding_index + rows : *padding_index;
    require(padding >= 0 && padding < rows, Error::Kind::index,
            "embedding: padding_index {} is outside a table of {} rows", *padding_index, rows);
    const Tensor fixed = make_node(Op::stop_gradient, y.dtype(), y.shape(), {y});
    y = where(reshape(at, {-1, 1}) == padding, fixed, y);
  }
  return reshape(y, index.shape().inserted(index.rank(), width));
}

Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype) {
  const Tensor at = index_operand("one_hot", index);
  if (classes == -1) {
    require(index.numel() > 0, "one_hot: the number of classes cannot be taken from an empty index");
    classes = max(at).item<std::int64_t>() + 1;
  }
  require(classes > 0, "one_hot: the number of classes must be positive, got {}", classes);
  const Tensor in_range = check(at, logical_and(at >= 0, at < classes),
                                "one_hot: an index must not be negative and be below the number of classes");
  return cast(unsqueeze(in_range, -1) == arange(classes), dtype);
}

// ---- order ----------------------------------------------------------------------------------------------------------

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  if (x.rank() == 0) {
    normalize_axis("argsort", axis, 1);
    return zeros({}, DType::i64);
  }
  const int along = normalize_axis("argsort", axis, x.rank());
  const Tensor numbers = x.dtype() == DType::bool_ ? cast(x, DType::u8) : x;
  return make_node(Op::argsort, DType::i64, x.shape(), {numbers}, along_axis(along, ArgsortCall{descending}));
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  require(x.rank() > 0, "topk: needs at least one axis");
  const int a = normalize_axis("topk", axis, x.rank());
  require(k >= 0 && k <= x.shape()[a], "topk: k = {} is outside [0, {}], the size of axis {} of shape {}", k,
          x.shape()[a], a, x.shape());
  const Tensor first = argsort_range(x, a, largest, 0, k);
  return {gather_node(x, a, first, IndexLines::different), first};
}

}  // namespace ebb
