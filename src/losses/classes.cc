// SPDX-License-Identifier: MIT
#include "losses/classes.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/reduce_parts.h"

namespace ebb {

int class_axis(const char* op, const Tensor& input) {
  require(input.rank() >= 1, "{}: the input must be [C], [N, C] or [N, C, ...], but it is a scalar", op);
  const int axis = input.rank() == 1 ? 0 : 1;
  require(input.size(axis) > 0, "{}: the input of shape {} has no classes", op, input.shape());
  return axis;
}

void require_class_indices(const char* op, const Tensor& input, int axis, const Tensor& target) {
  require(target.defined(), "{}: the target is an empty Tensor; give it a value", op);
  require(is_integer(target.dtype()), Error::Kind::type,
          "{}: class indices must be integers, but the target has dtype {}", op, target.dtype());
  const Shape expected = input.shape().without(axis);
  const bool classes_last = input.rank() > 2 && target.shape() == input.shape().without(input.rank() - 1);
  require(target.shape() == expected, "{}: target of shape {} for an input of shape {} must have shape {}{}", op,
          target.shape(), input.shape(), expected,
          classes_last ? fmt::format("; the classes are axis 1, so flatten input and target to {} and {}",
                                     Shape{target.numel(), input.size(input.rank() - 1)}, Shape{target.numel()})
                       : "");
}

void require_class_weight(const char* op, const char* name, const Tensor& weight, std::int64_t classes) {
  require(weight.rank() == 1 && weight.numel() == classes,
          "{}: {} of shape {} must hold one number for each of the {} classes", op, name, weight.shape(), classes);
}

Tensor along_classes(const Tensor& weight, const Tensor& input, int axis) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.rank()), 1);
  sizes[static_cast<std::size_t>(axis)] = weight.numel();
  return reshape(weight, sizes);
}

Targets prepare_targets(const Tensor& target, int axis, std::int64_t classes, std::int64_t ignore_index,
                        const Tensor& class_weight, DType dtype) {
  const Tensor y = unsqueeze(cast(target, DType::i64), axis);
  Targets t;
  t.keep = y != ignore_index;
  t.index = where(t.keep, y, 0);
  if (class_weight.defined()) {
    // The pick reports an index out of range, with its position; here it must only do no harm.
    const Tensor safe = clamp(t.index, 0, classes - 1);
    const Tensor each = index_select(cast(class_weight, dtype), 0, reshape(safe, {-1}));
    t.weight = where(t.keep, reshape(each, y.shape()), 0);
  } else {
    t.weight = cast(t.keep, dtype);
  }
  t.total = sum(t.weight);
  return t;
}

Tensor token_weights(const char* op, const Tensor& given, const Shape& losses, DType dtype) {
  if (!given.defined()) return {};
  require(given.shape() == losses, "{}: token_weight of shape {} does not fit losses of shape {}; give one per loss",
          op, given.shape(), losses);
  require(is_floating(given.dtype()), Error::Kind::type, "{}: token_weight must be floating, got {}", op,
          given.dtype());
  return stop_gradient(cast(given, dtype));
}

LogSoftmax log_softmax_parts(const Tensor& x, int axis) {
  const ShiftedExp e = shifted_exp(x, 1u << axis);
  LogSoftmax p;
  p.z = x - e.shift;
  p.log_s = log(e.total);
  p.lse = e.shift + p.log_s;
  return p;
}

namespace {
Tensor at_class(Op op, const Tensor& x, int axis, const Tensor& index, const char* label) {
  Attrs attrs;
  attrs.i[0] = axis;
  return make_node(op, x.dtype(), index.shape(), {x, index}, attrs, label);
}
}  // namespace

Tensor pick_class(const Tensor& x, int axis, const Tensor& index, const char* label) {
  return at_class(Op::pick, x, axis, index, label);
}
// Its gradient is a call too: zeros are written fastest by a kernel that writes only zeros.
Tensor gather_class(const Tensor& x, int axis, const Tensor& index, const char* label) {
  return custom_function([=](const std::vector<Tensor>& v) { return at_class(Op::gather, v[0], axis, index, label); },
                         [=](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
                           Attrs attrs;
                           attrs.i[0] = axis;
                           return std::vector<Tensor>{make_node(Op::scatter_zero_add, grad.dtype(), v[0].shape(),
                                                                {grad, index}, attrs, label)};
                         },
                         {x});
}

}  // namespace ebb
