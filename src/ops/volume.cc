// SPDX-License-Identifier: MIT
#include "ebb/ops/volume.h"

#include <algorithm>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/formula.h"
#include "ops/pool_parts.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

void require_volume(const char* op, const Tensor& x) {
  require(x.rank() == 5, "{}: needs an input [N, C, D, H, W] or one without N, got shape {}", op, x.shape());
}

}  // namespace

// The kd planes of a window become further channels of its first: one convolution of planes, N·D' of them.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv3dOptions& o) {
  if (x.rank() == 4) return select(conv3d(unsqueeze(x, 0), weight, bias, o), 0, 0);
  require_volume("conv3d", x);
  require(weight.rank() == 5, "conv3d: needs a weight [O, C/groups, kd, kh, kw], got shape {}", weight.shape());
  const std::int64_t n = x.size(0), channels = x.size(1), taps = weight.size(2), out = weight.size(0);
  require(o.stride[0] >= 1 && o.dilation[0] >= 1 && o.padding[0] >= 0 && o.groups >= 1,
          "conv3d: stride, dilation and groups must be positive and padding not negative, got {}, {}, {} and {}",
          o.stride[0], o.dilation[0], o.groups, o.padding[0]);
  require(checked_product("conv3d", weight.size(1), o.groups) == channels,
          "conv3d: an input of shape {} with {} groups does not fit a weight of shape {}", x.shape(), o.groups,
          weight.shape());
  const std::int64_t reach = checked_sum("conv3d", checked_product("conv3d", o.dilation[0], taps - 1), 1);
  const std::int64_t padded = checked_sum("conv3d", x.size(2), checked_product("conv3d", 2, o.padding[0]));
  require(taps >= 1 && padded >= reach, "conv3d: a window of {} planes is larger than the padded input ({})", reach,
          padded);
  const std::int64_t depth = (padded - reach) / o.stride[0] + 1, h = x.size(3), w = x.size(4);
  const Tensor volume = pad(x, {0, 0, 0, 0, o.padding[0], o.padding[0]});
  std::vector<Tensor> planes;
  for (std::int64_t k = 0; k < taps; ++k) {
    const std::int64_t first = k * o.dilation[0];
    planes.push_back(slice(volume, 2, first, first + (depth - 1) * o.stride[0] + 1, o.stride[0]));
  }
  const Tensor windows = permute(stack(planes, 2), {0, 3, 1, 2, 4, 5});  // [N, D', C, kd, H, W]
  const Tensor y = conv2d(reshape(windows, {n * depth, channels * taps, h, w}),
                          reshape(weight, {out, weight.size(1) * taps, weight.size(3), weight.size(4)}), bias,
                          {.stride = {o.stride[1], o.stride[2]},
                           .padding = {o.padding[1], o.padding[2]},
                           .dilation = {o.dilation[1], o.dilation[2]},
                           .groups = o.groups});
  return permute(reshape(y, {n, depth, out, y.size(2), y.size(3)}), {0, 2, 1, 3, 4});
}

namespace {

// Adds planes [N, C, D, kd, ...] where they land: plane k of position d at d·stride + k·dilation, of `size` planes.
Tensor overlaid(const Tensor& taps, std::int64_t stride, std::int64_t dilation, std::int64_t size) {
  const std::int64_t n = taps.size(0), c = taps.size(1), depth = taps.size(2), h = taps.size(4), w = taps.size(5);
  // Without dilation, a position's first `stride` planes are contiguous: only those beyond overlap.
  const std::int64_t together = dilation == 1 ? stride : 1;
  Tensor total;
  for (std::int64_t k = 0; k < taps.size(3); k += together) {
    Tensor planes = narrow(taps, 3, k, std::min(together, taps.size(3) - k));  // [N, C, D, up to stride, H, W]
    planes = pad(planes, {0, 0, 0, 0, 0, stride - planes.size(3)});
    const std::int64_t before = k * dilation, count = std::min(depth * stride, size - before);
    planes = narrow(reshape(planes, {n, c, depth * stride, h, w}), 2, 0, count);
    planes = pad(planes, {0, 0, 0, 0, before, size - before - count});
    total = total.defined() ? total + planes : planes;
  }
  return total;
}

}  // namespace

// Each plane separately, with the kd planes of a window as further channels, and the results overlaid.
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTranspose3dOptions& o) {
  const char* op = "conv_transpose3d";
  if (x.rank() == 4) return select(conv_transpose3d(unsqueeze(x, 0), weight, bias, o), 0, 0);
  require_volume(op, x);
  require(weight.rank() == 5 && weight.size(0) == x.size(1),
          "{}: an input of shape {} does not fit a weight of shape {}; give [C, O/groups, kd, kh, kw]", op, x.shape(),
          weight.shape());
  require(o.stride[0] >= 1 && o.dilation[0] >= 1 && o.padding[0] >= 0 && o.groups >= 1,
          "{}: stride, dilation and groups must be positive and padding not negative, got {}, {}, {} and {}", op,
          o.stride[0], o.dilation[0], o.groups, o.padding[0]);
  require(o.output_padding[0] >= 0 && o.output_padding[0] < std::max(o.stride[0], o.dilation[0]),
          "{}: output_padding must be less than the stride or the dilation, got {}", op, o.output_padding[0]);
  const DType dtype = promote(x.dtype(), weight.dtype()), wide = compute_dtype(dtype);  // rounded once
  const std::int64_t n = x.size(0), channels = x.size(1), depth = x.size(2), taps = weight.size(2);
  const std::int64_t each = weight.size(1), out = each * o.groups;
  const Tensor planes = reshape(transpose(cast(x, wide), 1, 2), {n * depth, channels, x.size(3), x.size(4)});
  const Tensor y =
      conv_transpose2d(planes, reshape(cast(weight, wide), {channels, each * taps, weight.size(3), weight.size(4)}), {},
                       {.stride = {o.stride[1], o.stride[2]},
                        .padding = {o.padding[1], o.padding[2]},
                        .output_padding = {o.output_padding[1], o.output_padding[2]},
                        .groups = o.groups,
                        .dilation = {o.dilation[1], o.dilation[2]}});
  const Tensor parts = permute(reshape(y, {n, depth, out, taps, y.size(2), y.size(3)}), {0, 2, 1, 3, 4, 5});
  const std::int64_t reach = (depth - 1) * o.stride[0] + o.dilation[0] * (taps - 1) + 1;
  const std::int64_t size = reach - 2 * o.padding[0] + o.output_padding[0];
  require(size > 0, "{}: padding of {} leaves nothing of {} planes", op, o.padding[0], reach);
  Tensor all = overlaid(parts, o.stride[0], o.dilation[0], reach + o.output_padding[0]);
  all = narrow(all, 2, o.padding[0], size);
  if (bias.defined()) {
    require(bias.shape() == Shape{out}, "{}: a bias of shape {} does not fit {} channels", op, bias.shape(), out);
    all = all + reshape(cast(bias, wide), {1, out, 1, 1, 1});
  }
  return cast(all, dtype);
}

namespace {

// Along the planes, then along the depth, which is the rows of planes whose columns are pixels: maxima and means of
// boxes are separable.
template <class OfPlanes, class OfDepth>
Tensor pooled(const char* op, const Tensor& x, OfPlanes of_planes, OfDepth of_depth) {
  if (x.rank() == 4) return select(pooled(op, unsqueeze(x, 0), of_planes, of_depth), 0, 0);
  require_volume(op, x);
  const std::int64_t n = x.size(0), channels = x.size(1), depth = x.size(2);
  const Tensor planes = of_planes(reshape(x, {n, channels * depth, x.size(3), x.size(4)}));
  const std::int64_t h = planes.size(2), w = planes.size(3);
  const Tensor boxes = of_depth(reshape(planes, {n, channels, depth, h * w}));
  return reshape(boxes, {n, channels, boxes.size(2), h, w});
}

// A pool as a formula.
template <Tensor (*pool)(const Tensor& x, SizeTriple window, const Pool3dOptions& o)>
Tensor deferred_pool(const Tensor& x, const SizeTriple& window, const Pool3dOptions& o) {
  const SizeTriple stride = o.stride.value_or(window);
  return deferred({&x},
                  {window[0], window[1], window[2], stride[0], stride[1], stride[2], o.padding[0], o.padding[1],
                   o.padding[2], o.dilation[0], o.dilation[1], o.dilation[2], o.ceil_mode, o.count_include_pad},
                  [](Formula::Operands in, Formula::Options p) {
                    return pool(in[0], {p[0], p[1], p[2]},
                                {.stride = SizeTriple{p[3], p[4], p[5]},
                                 .padding = {p[6], p[7], p[8]},
                                 .ceil_mode = p[12] != 0,
                                 .dilation = {p[9], p[10], p[11]},
                                 .count_include_pad = p[13] != 0});
                  });
}

Tensor max_pool_formula(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  const SizeTriple stride = o.stride.value_or(window);
  return pooled(
      "max_pool3d", x,
      [&](const Tensor& planes) {
        return max_pool2d(planes, {window[1], window[2]},
                          {.stride = SizePair{stride[1], stride[2]},
                           .padding = {o.padding[1], o.padding[2]},
                           .dilation = {o.dilation[1], o.dilation[2]},
                           .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& depth) {
        return max_pool2d(depth, {window[0], 1},
                          {.stride = SizePair{stride[0], 1},
                           .padding = {o.padding[0], 0},
                           .dilation = {o.dilation[0], 1},
                           .ceil_mode = o.ceil_mode});
      });
}

}  // namespace

Tensor max_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  return deferred_pool<max_pool_formula>(x, window, o);
}

namespace {

// The same with positions: the place in its plane, and the plane, of each.
template <class Planes, class Depth>
std::pair<Tensor, Tensor> pooled_with_indices(const char* op, const Tensor& x, Planes pool_planes, Depth pool_depth) {
  if (x.rank() == 4) {
    const auto [values, at] = pooled_with_indices(op, unsqueeze(x, 0), pool_planes, pool_depth);
    return {select(values, 0, 0), select(at, 0, 0)};
  }
  require_volume(op, x);
  const std::int64_t n = x.size(0), channels = x.size(1), depth = x.size(2), area = x.size(3) * x.size(4);
  const auto [planes, in_plane] = pool_planes(reshape(x, {n, channels * depth, x.size(3), x.size(4)}));
  const std::int64_t h = planes.size(2), w = planes.size(3), pixels = h * w;
  const auto [values, from] = pool_depth(reshape(planes, {n, channels, depth, pixels}));
  const Shape shape{n, channels, values.size(2), h, w};
  const Tensor flat = reshape(from, {n, channels, values.size(2) * pixels});
  const Tensor at =
      floor_divide(flat, pixels) * area + gather(reshape(in_plane, {n, channels, depth * pixels}), 2, flat);
  return {reshape(values, shape), reshape(at, shape)};
}

}  // namespace

std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  const SizeTriple stride = o.stride.value_or(window);
  return pooled_with_indices(
      "max_pool3d", x,
      [&](const Tensor& planes) {
        return max_pool2d_with_indices(planes, {window[1], window[2]},
                                       {.stride = SizePair{stride[1], stride[2]},
                                        .padding = {o.padding[1], o.padding[2]},
                                        .dilation = {o.dilation[1], o.dilation[2]},
                                        .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& depth) {
        return max_pool2d_with_indices(depth, {window[0], 1},
                                       {.stride = SizePair{stride[0], 1},
                                        .padding = {o.padding[0], 0},
                                        .dilation = {o.dilation[0], 1},
                                        .ceil_mode = o.ceil_mode});
      });
}

std::pair<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& x, SizeTriple output) {
  return pooled_with_indices(
      "adaptive_max_pool3d", x,
      [&](const Tensor& planes) {
        return adaptive_max_pool2d_with_indices(planes, {output[1], output[2]});
      },
      [&](const Tensor& depth) {
        return adaptive_max_pool2d_with_indices(depth, {output[0], depth.size(3)});
      });
}

Tensor adaptive_max_pool3d(const Tensor& x, SizeTriple output) {
  return pooled(
      "adaptive_max_pool3d", x,
      [&](const Tensor& planes) {
        return adaptive_max_pool2d(planes, {output[1], output[2]});
      },
      [&](const Tensor& depth) {
        return adaptive_max_pool2d(depth, {output[0], depth.size(3)});
      });
}

Tensor adaptive_avg_pool3d(const Tensor& x, SizeTriple output) {
  const Tensor wide = is_half(x.dtype()) ? cast(x, DType::f32) : x;  // rounded once
  return cast(pooled(
                  "adaptive_avg_pool3d", wide,
                  [&](const Tensor& planes) {
                    return adaptive_avg_pool2d(planes, {output[1], output[2]});
                  },
                  [&](const Tensor& depth) {
                    return adaptive_avg_pool2d(depth, {output[0], depth.size(3)});
                  }),
              x.dtype());
}

namespace {

Tensor avg_pool_formula(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  const SizeTriple stride = o.stride.value_or(window);
  const Tensor y = pooled(
      "avg_pool3d", x,
      [&](const Tensor& planes) {
        return avg_pool2d_widened(planes, {window[1], window[2]},
                                  {.stride = SizePair{stride[1], stride[2]},
                                   .padding = {o.padding[1], o.padding[2]},
                                   .ceil_mode = o.ceil_mode,
                                   .count_include_pad = o.count_include_pad});
      },
      [&](const Tensor& depth) {
        return avg_pool2d(depth, {window[0], 1},
                          {.stride = SizePair{stride[0], 1},
                           .padding = {o.padding[0], 0},
                           .ceil_mode = o.ceil_mode,
                           .count_include_pad = o.count_include_pad});
      });
  return cast(y, x.dtype());
}

}  // namespace

Tensor avg_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  return deferred_pool<avg_pool_formula>(x, window, o);
}

}  // namespace ebb
