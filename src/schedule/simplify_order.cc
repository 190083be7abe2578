// SPDX-License-Identifier: MIT
// Images whose channels lie last in memory, [N, C, H, W] as a view of [N, H, W, C], on devices whose convolutions want
// them so. A convolution makes such a view; an elementwise operation on some is done as they lie, so that the order
// lasts from one convolution to the next, through norms, activations and residual sums, and nobody has to think of it.
#include <utility>

#include "schedule/simplifier.h"

namespace ebb {
namespace {

// [N, C, ...] -> [N, ..., C]
Shape channels_last(const Shape& shape) {
  Shape last = shape.without(1);
  return last.inserted(last.rank(), shape[1]);
}

// Permutation of axes, packed as an attribute, that shows [N, C, ...] as [N, ..., C], and the one back.
std::int64_t to_last(int rank) {
  std::vector<int> axes{0};
  for (int d = 2; d < rank; ++d) axes.push_back(d);
  axes.push_back(1);
  return static_cast<std::int64_t>(pack_axes(axes));
}
std::int64_t to_second(int rank) {
  std::vector<int> axes{0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) axes.push_back(d);
  return static_cast<std::int64_t>(pack_axes(axes));
}

}  // namespace

std::int32_t Simplifier::permuted(std::int32_t v, const Shape& shape, std::int64_t axes) {
  const Value& x = at(v);
  if (x.op == Op::permute && !x.is_leaf && at(x.inputs[0]).shape == shape) {  // back where it came from
    const Value& from = at(x.inputs[0]);
    const auto there = unpack_axes(x.attrs.i[0]), back = unpack_axes(axes);
    bool same = true;
    for (int d = 0; d < from.shape.rank(); ++d) same = same && there[back[d]] == d;
    if (same) return x.inputs[0];
  }
  if (widens(x) && at(x.inputs[0]).op == Op::expand) {  // what repeats is widened by each reader
    Value wide = x;
    wide.shape = shape;
    wide.node = -1;
    wide.inputs = {permuted(wide.inputs[0], shape, axes)};
    return add_elementwise(std::move(wide), true);
  }
  Value p;
  p.op = Op::permute;
  p.dtype = x.dtype;
  p.shape = shape;
  p.attrs.i[0] = axes;
  p.inputs = {v};
  return add_view(std::move(p));
}

Simplifier::Order Simplifier::order_of(std::int32_t v) const {
  const Value& x = at(v);
  const Strides strides = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
  if (is_contiguous(x.shape, strides)) return Order::usual;
  const Shape last = channels_last(x.shape);
  const Strides dense = contiguous_strides(last);
  const int rank = x.shape.rank();
  for (int d = 0; d < rank; ++d) {
    const int at_last = d == 0 ? 0 : d == 1 ? rank - 1 : d - 1;
    if (x.shape[d] > 1 && strides[d] != dense[at_last]) return Order::other;
  }
  return Order::channels_last;
}

std::int32_t Simplifier::with_channels_last(Value call) {
  if (!backend_ || !call.attrs.options || !backend_->wants_channels_last(call.dtype)) return -1;
  const OptionsPtr options = call.attrs.options->channels_last();
  if (!options) return -1;
  for (std::int32_t& in : call.inputs) {
    const Shape shape = at(in).shape;
    if (shape.rank() != call.shape.rank()) continue;  // a bias
    const Shape last = channels_last(shape);
    const std::int32_t seen = permuted(in, last, to_last(shape.rank()));
    const Value& x = at(seen);
    if (!x.is_view() || is_contiguous(last, x.strides)) continue;
    // Copied once for all calls that read it.
    Value copy;
    copy.op = Op::copy;
    copy.dtype = x.dtype;
    copy.shape = last;
    copy.inputs = {seen};
    in = permuted(intern(std::move(copy)), shape, to_second(shape.rank()));
  }
  const Shape shape = call.shape;
  call.shape = channels_last(shape);
  call.attrs.options = options;
  return permuted(intern(std::move(call)), shape, to_second(shape.rank()));
}

std::int32_t Simplifier::as_inputs_lie(const Value& v) {
  const int rank = v.shape.rank();
  if (!keeps_order_ || rank < 3 || v.shape.numel() == 0) return -1;
  if (v.op == Op::check || v.op == Op::copy) return -1;  // positions are counted, or the usual order is asked for
  int last = 0, usual = 0;
  for (std::int32_t in : v.inputs) {
    const Order order = order_of(in);
    last += order == Order::channels_last;
    usual += order == Order::usual;
  }
  if (last == 0 || last < usual) return -1;  // where both are as many, whoever reads the result is likely a convolution
  Value turned = v;
  turned.shape = channels_last(v.shape);
  for (std::int32_t& in : turned.inputs) in = permuted(in, turned.shape, to_last(rank));
  return permuted(add_elementwise(std::move(turned), true), v.shape, to_second(rank));
}

std::int32_t Simplifier::reduced_as_it_lies(const Value& v) {
  const int rank = v.shape.rank();
  if (!keeps_order_ || rank < 3 || order_of(v.inputs[0]) != Order::channels_last) return -1;
  Value turned = v;
  turned.shape = channels_last(v.shape);  // axes that were reduced have one element
  turned.inputs = {permuted(v.inputs[0], channels_last(at(v.inputs[0]).shape), to_last(rank))};
  turned.attrs.axes = (v.attrs.axes & 1u) | (v.attrs.axes >> 2) << 1 | (v.attrs.axes >> 1 & 1u) << (rank - 1);
  turned.node = -1;
  const std::uint32_t all_but_channels = (1u << (rank - 1)) - 1;
  std::uint32_t one = 0;  // axes of one element are not named
  for (int d = 0; d < rank; ++d) one |= at(turned.inputs[0]).shape[d] == 1 ? 1u << d : 0;
  const bool over_images = (turned.attrs.axes | one) == (all_but_channels | one);
  const std::int32_t product = over_images ? without_factor(turned) : -1;
  return permuted(product >= 0 ? product : add_reduce(std::move(turned)), v.shape, to_second(rank));
}

}  // namespace ebb
