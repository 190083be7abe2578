// SPDX-License-Identifier: MIT
// Channels-last images, [N, C, H, W] as a view of [N, H, W, C], on devices whose convolutions prefer them. A
// convolution makes such a view; elementwise operations on them work in memory order, so that the order persists from
// one convolution to the next, through norms, activations and residual sums, transparently to the user.
#include <utility>

#include "calls/convolution.h"
#include "calls/index_lines.h"
#include "schedule/schedule_model.h"
#include "schedule/simplifier.h"

namespace ebb {
namespace {

// [N, C, ...] -> [N, ..., C]
Shape channels_last(const Shape& shape) {
  Shape last = shape.without(1);
  return last.inserted(last.rank(), shape[1]);
}

// Axis permutation, packed as an attribute, that views [N, C, ...] as [N, ..., C], and its inverse.
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

// Whatever the stride between pixels: the gradient of an image that is a slice of something larger, as in a vision
// transformer.
bool channels_are_neighbours(const Value& x) {
  if (x.shape[1] == 1 || x.strides[1] != 1) return false;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d != 1 && x.shape[d] > 1 && x.strides[d] < x.shape[1]) return false;
  }
  return true;
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
  const Strides strides = strides_of(x);
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

std::int32_t Simplifier::places_with_channels_last(std::int32_t index) const {
  const Value& x = at(index);
  if (!x.is_view() || x.shape.rank() != 3 || order_of(index) != Order::channels_last) return -1;
  const Value& b = at(x.base);
  if (b.op != Op::max_pool_index || b.is_leaf || b.shape.numel() != x.shape.numel()) return -1;
  const bool whole = x.shape[0] == b.shape[0] && x.shape[1] == b.shape[3] && at(b.inputs[0]).shape[1] == b.shape[3];
  return whole && x.offset == 0 ? x.base : -1;
}

std::int32_t Simplifier::pooled_as_it_lies(const Value& v) {
  if (!keeps_order_ || v.shape.numel() == 0) return -1;
  Value call = v;
  call.node = -1;
  if (v.op == Op::max_pool_index) {
    if (order_of(v.inputs[0]) != Order::channels_last) return -1;
    call.shape = channels_last(v.shape);
    call.attrs.options = v.attrs.options->channels_last();
    return permuted(intern(std::move(call)), v.shape, to_second(4));
  }
  const bool gathers = v.op == Op::gather;
  if ((!gathers && v.op != Op::scatter_zero_add) || v.attrs.i[0] != 2) return -1;
  const std::int32_t places = places_with_channels_last(v.inputs[1]);
  if (places < 0) return -1;
  if (gathers) {
    if (order_of(v.inputs[0]) != Order::channels_last) return -1;
    call.shape = channels_last(v.shape);
    for (std::int32_t& in : call.inputs) in = permuted(in, channels_last(at(in).shape), to_last(3));
    call.attrs.i[0] = 1;
    return permuted(intern(std::move(call)), v.shape, to_second(3));
  }
  // Every element looks at the windows that contain it.
  const Shape image = at(at(places).inputs[0]).shape, windows = at(places).shape;
  if (v.shape[2] != image[2] * image[3]) return -1;
  const std::int32_t g = reshaped(v.inputs[0], Shape{windows[0], windows[3], windows[1], windows[2]});
  call.op = Op::window_spread;
  call.attrs = Attrs();
  call.attrs.options = at(places).attrs.options;
  call.shape = channels_last(image);
  call.inputs = {permuted(g, windows, to_last(4)), places};
  return reshaped(permuted(intern(std::move(call)), image, to_second(4)), v.shape);
}

std::int32_t Simplifier::spread_in_planes(const Value& v) {
  if (!backend_ || !backend_->spreads_to_places() || v.op != Op::scatter_zero_add || v.attrs.i[0] != 2) return -1;
  if (static_cast<IndexLines>(v.attrs.i[1]) == IndexLines::different) return -1;  // no sums: elements are put
  const Value& index = at(v.inputs[1]);
  if (!index.is_view() || index.shape.rank() != 3 || order_of(v.inputs[1]) != Order::usual || index.offset != 0)
    return -1;
  const Value& places = at(index.base);
  if (places.op != Op::max_pool_index || places.is_leaf || places.shape.numel() != index.shape.numel()) return -1;
  const PoolCall& pool = options_as<PoolCall>(places.attrs);
  const Shape image = at(places.inputs[0]).shape, windows = places.shape;
  const bool whole = index.shape[0] == windows[0] && index.shape[1] == windows[1] && v.shape[2] == image[2] * image[3];
  if (pool.conv.last || !whole || v.shape.numel() == 0 ||
      pool.most_windows({image[2], image[3]}, {windows[2], windows[3]}) > kScheduleModel.most_windows_of_element)
    return -1;
  Value call = v;
  call.node = -1;
  call.op = Op::window_spread;
  call.attrs = Attrs();
  call.attrs.options = places.attrs.options;
  call.shape = image;
  const std::int32_t base = index.base;
  call.inputs = {reshaped(v.inputs[0], windows), base};
  return reshaped(intern(std::move(call)), v.shape);
}

std::int32_t Simplifier::with_channels_last(Value call) {
  if (call.op == Op::window_spread) return -1;
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
  if (v.op == Op::check || v.op == Op::copy) return -1;  // positions are counted, or the usual order is required
  int last = 0, usual = 0;
  for (std::int32_t in : v.inputs) {
    const Order order = order_of(in);
    last += order == Order::channels_last;
    usual += order == Order::usual;
  }
  if (last == 0 || last < usual) return -1;  // in a tie, the reader of the result is likely a convolution
  Value turned = v;
  turned.shape = channels_last(v.shape);
  for (std::int32_t& in : turned.inputs) in = permuted(in, turned.shape, to_last(rank));
  return permuted(add_elementwise(std::move(turned), true), v.shape, to_second(rank));
}

std::int32_t Simplifier::reduced_as_it_lies(const Value& v) {
  const int rank = v.shape.rank();
  if (!keeps_order_ || rank < 3) return -1;
  const std::int32_t in = v.inputs[0];
  const Value x = at(in);  // a copy: values may move
  const Shape last = channels_last(x.shape);
  Value turned = v;
  if (order_of(in) == Order::channels_last || channels_are_neighbours(x)) {
    turned.inputs = {permuted(in, last, to_last(rank))};
  } else if (widens(x) && channels_are_neighbours(at(x.inputs[0]))) {
    Value wide = x;
    wide.shape = last;
    wide.inputs = {permuted(x.inputs[0], last, to_last(rank))};
    wide.node = -1;
    turned.inputs = {add_elementwise(std::move(wide), true)};
  } else {
    return -1;
  }
  turned.shape = channels_last(v.shape);  // axes that were reduced have one element
  turned.attrs.axes = (v.attrs.axes & 1u) | (v.attrs.axes >> 2) << 1 | (v.attrs.axes >> 1 & 1u) << (rank - 1);
  turned.node = -1;
  const std::uint32_t all_but_channels = (1u << (rank - 1)) - 1;
  std::uint32_t one = 0;  // axes of one element are not named
  for (int d = 0; d < rank; ++d) one |= at(turned.inputs[0]).shape[d] == 1 ? 1u << d : 0;
  const bool over_images = (turned.attrs.axes | one) == (all_but_channels | one);
  const std::int32_t sum = over_images ? squares_about_mean(turned) : -1;
  return permuted(sum >= 0 ? sum : add_reduce(std::move(turned)), v.shape, to_second(rank));
}

}  // namespace ebb
