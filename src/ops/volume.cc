#include "ebb/ops/volume.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

void require_volume(const char* op, const Tensor& x) {
  require(x.rank() == 5, "{}: needs an input [N, C, D, H, W] or one without N, got shape {}", op, x.shape());
}

}  // namespace

// The kd planes of a window as further channels of its first: one convolution of planes, N·D' of them.
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

// Along the planes, then along the depth: largest elements and means of boxes are those of their sides.
template <class OfPlanes, class OfDepth>
Tensor pooled(const char* op, const Tensor& x, OfPlanes of_planes, OfDepth of_depth) {
  if (x.rank() == 4) return select(pooled(op, unsqueeze(x, 0), of_planes, of_depth), 0, 0);
  require_volume(op, x);
  const std::int64_t n = x.size(0), channels = x.size(1), depth = x.size(2);
  const Tensor planes = of_planes(reshape(x, {n, channels * depth, x.size(3), x.size(4)}));
  const std::int64_t h = planes.size(2), w = planes.size(3);
  const Tensor lines = of_depth(transpose(reshape(planes, {n * channels, depth, h * w}), 1, 2));
  return reshape(transpose(lines, 1, 2), {n, channels, lines.size(2), h, w});
}

}  // namespace

Tensor max_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
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
      [&](const Tensor& lines) {
        return max_pool1d(lines, window[0],
                          {.stride = SizePair{stride[0]},
                           .padding = o.padding[0],
                           .dilation = o.dilation[0],
                           .ceil_mode = o.ceil_mode});
      });
}

Tensor avg_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& o) {
  const SizeTriple stride = o.stride.value_or(window);
  const Tensor wide = is_half(x.dtype()) ? cast(x, DType::f32) : x;  // rounded once
  const Tensor y = pooled(
      "avg_pool3d", wide,
      [&](const Tensor& planes) {
        return avg_pool2d(planes, {window[1], window[2]},
                          {.stride = SizePair{stride[1], stride[2]},
                           .padding = {o.padding[1], o.padding[2]},
                           .ceil_mode = o.ceil_mode,
                           .count_include_pad = o.count_include_pad});
      },
      [&](const Tensor& lines) {
        return avg_pool1d(lines, window[0],
                          {.stride = SizePair{stride[0]},
                           .padding = o.padding[0],
                           .ceil_mode = o.ceil_mode,
                           .count_include_pad = o.count_include_pad});
      });
  return cast(y, x.dtype());
}

}  // namespace ebb
