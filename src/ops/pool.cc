// SPDX-License-Identifier: MIT
#include "ebb/ops/pool.h"

#include <algorithm>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/formula.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/pool_parts.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

// The caller's shape as [N, C, H, W].
Shape image_shape(const char* op, int axes, const Shape& shape) {
  require(shape.rank() == axes + 1 || shape.rank() == axes + 2, "{}: needs {} or the same without N, got shape {}", op,
          axes == 1 ? "[N, C, L]" : "[N, C, H, W]", shape);
  Shape image = shape.rank() == axes + 1 ? shape.inserted(0, 1) : shape;
  return axes == 1 ? image.inserted(2, 1) : image;
}

void set_outputs(PoolWindows& p, int axes, const Shape& shape, const std::int64_t (&out)[2]) {
  p.output = {p.image[0], p.image[1], out[0], out[1]};
  p.result = axes == 1 ? p.output.without(2) : p.output;
  if (shape.rank() == axes + 1) p.result = p.result.without(0);
}

PoolWindows pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                         const std::optional<SizePair>& stride, const SizePair& padding, const SizePair& dilation,
                         bool ceil_mode) {
  PoolWindows p;
  p.image = image_shape(op, axes, shape);
  std::int64_t out[2] = {1, 1};
  for (int d = 2 - axes; d < 2; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t step = stride ? (*stride)[d] : window[d];
    require(window[d] >= 1 && step >= 1 && dilation[d] >= 1,
            "{}: window, stride and dilation must be positive, got {}, {} and {}", op, window[d], step, dilation[d]);
    require(padding[d] >= 0 && padding[d] <= window[d] / 2,
            "{}: padding must be between 0 and half the window of {}, got {}", op, window[d], padding[d]);
    require(window[d] <= ConvCall::kMost && step <= ConvCall::kMost && dilation[d] <= ConvCall::kMost,
            "{}: window, stride or dilation is too large", op);
    const std::int64_t size = p.image[d + 2], reach = dilation[d] * (window[d] - 1) + 1;
    const std::int64_t room = size + 2 * padding[d] - reach;
    require(room >= 0 && size > 0, "{}: a window of {} elements is larger than the padded input ({}), for shape {}", op,
            reach, size + 2 * padding[d], shape);
    out[d] = (room + (ceil_mode ? step - 1 : 0)) / step + 1;
    if (ceil_mode && (out[d] - 1) * step >= size + padding[d]) --out[d];  // a window starts inside or before the input
    p.call.window[k] = window[d];
    p.call.conv.stride[k] = step;
    p.call.conv.padding[k] = padding[d];
    p.call.conv.dilation[k] = dilation[d];
  }
  set_outputs(p, axes, shape, out);
  return p;
}

void require_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, x.dtype());
}

// Whether no element is in two windows: those of one axis never meet, or there is only one.
bool are_disjoint(const PoolWindows& p) {
  for (int d = 0; d < 2; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t outputs = p.output[d + 2], reach = p.call.conv.dilation[k] * (p.call.window[k] - 1) + 1;
    if (outputs > 1 && (p.call.adaptive ? p.image[d + 2] % outputs != 0 : p.call.conv.stride[k] < reach)) return false;
  }
  return true;
}

std::pair<Tensor, Tensor> largest_elements(const Tensor& x, const PoolWindows& p) {
  const Tensor image = reshape(x, p.image);
  const Tensor index = make_node(Op::max_pool_index, DType::i64, p.output, {image}, with_options(p.call));
  // Along planes, regardless of where an image's channels are: no copy for channels-last memory.
  const std::int64_t images = p.image[0], channels = p.image[1];
  const Tensor values = gather_node(reshape(image, {images, channels, p.image[2] * p.image[3]}), 2,
                                    reshape(index, {images, channels, p.output[2] * p.output[3]}),
                                    are_disjoint(p) ? IndexLines::different : IndexLines::any);
  return {reshape(values, p.result), reshape(index, p.result)};
}

constexpr const char* kMaxPool[] = {"max_pool1d", "max_pool2d"};
constexpr const char* kAvgPool[] = {"avg_pool1d", "avg_pool2d"};

std::pair<Tensor, Tensor> max_pool(const char* op, int axes, const Tensor& x, const SizePair& window,
                                   const MaxPoolOptions& o) {
  require_floating(op, x);
  return largest_elements(x, pool_windows(op, axes, x.shape(), window, o.stride, o.padding, o.dilation, o.ceil_mode));
}

// The values only, as a formula.
Tensor largest(int axes, const Tensor& x, const SizePair& window, const MaxPoolOptions& o) {
  const SizePair step = o.stride.value_or(window);
  return deferred(
      {&x},
      {axes, window[0], window[1], step[0], step[1], o.padding[0], o.padding[1], o.dilation[0], o.dilation[1],
       o.ceil_mode},
      [](Formula::Operands in, Formula::Options p) {
        const MaxPoolOptions with{
            .stride = SizePair{p[3], p[4]}, .padding = {p[5], p[6]}, .dilation = {p[7], p[8]}, .ceil_mode = p[9] != 0};
        const auto n = static_cast<int>(p[0]);
        return max_pool(kMaxPool[n - 1], n, in[0], {p[1], p[2]}, with).first;
      });
}

Tensor wide_means(const Tensor& x, const PoolWindows& p, bool count_include_pad) {
  const Tensor sums = window_sum_node(reshape(x, p.image), p.call, p.output);
  return reshape(sums / avg_pool_divisors(p, count_include_pad, sums.dtype()), p.result);
}
Tensor means(const Tensor& x, const PoolWindows& p, bool count_include_pad) {
  return cast(wide_means(x, p, count_include_pad), x.dtype());
}

Tensor avg_pool(int axes, const Tensor& x, const SizePair& window, const AvgPoolOptions& o) {
  const SizePair step = o.stride.value_or(window);
  return deferred(
      {&x},
      {axes, window[0], window[1], step[0], step[1], o.padding[0], o.padding[1], o.ceil_mode, o.count_include_pad},
      [](Formula::Operands in, Formula::Options p) {
        const AvgPoolOptions with{.stride = SizePair{p[3], p[4]},
                                  .padding = {p[5], p[6]},
                                  .ceil_mode = p[7] != 0,
                                  .count_include_pad = p[8] != 0};
        const auto n = static_cast<int>(p[0]);
        const char* op = kAvgPool[n - 1];
        require_floating(op, in[0]);
        const PoolWindows windows = avg_pool_windows(op, n, in[0].shape(), {p[1], p[2]}, with);
        return means(in[0], windows, with.count_include_pad);
      });
}

}  // namespace

Tensor window_sum_node(const Tensor& x, const PoolCall& call, const Shape& output) {
  const DType dtype = call.each_tap ? x.dtype() : compute_dtype(x.dtype());
  return make_node(Op::window_sum, dtype, output, {x}, with_options(call));
}
Tensor window_spread_node(const Tensor& y, const PoolCall& call, const Shape& image, DType dtype) {
  return make_node(Op::window_spread, dtype, image, {y}, with_options(call));
}

Tensor avg_pool2d_widened(const Tensor& x, const SizePair& window, const AvgPoolOptions& o) {
  require_floating(kAvgPool[1], x);
  return wide_means(x, avg_pool_windows(kAvgPool[1], 2, x.shape(), window, o), o.count_include_pad);
}

PoolWindows avg_pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                             const AvgPoolOptions& o) {
  return pool_windows(op, axes, shape, window, o.stride, o.padding, 1, o.ceil_mode);
}

Tensor avg_pool_divisors(const PoolWindows& p, bool count_include_pad, DType dtype) {
  // A window counts the part of the input that it covers, padded or not, along each axis.
  std::vector<double> counts[2];
  for (int d : {0, 1}) {
    const auto k = static_cast<std::size_t>(d);
    const PoolAxis axis(p.call, d, p.image[d + 2], p.output[d + 2]);
    for (std::int64_t i = 0; i < p.output[d + 2]; ++i) {
      const PoolAxis::Range inside = axis.elements(i);
      const std::int64_t first = i * axis.stride - axis.padding,
                         with_padding = std::min(first + axis.window, axis.size + axis.padding) - first;
      counts[k].push_back(static_cast<double>(count_include_pad ? with_padding : inside.last - inside.first + 1));
    }
  }
  const auto all_equal = [](const std::vector<double>& v) {
    return std::all_of(v.begin(), v.end(), [&](double x) { return x == v[0]; });
  };
  if (!counts[0].empty() && !counts[1].empty() && all_equal(counts[0]) && all_equal(counts[1]))
    return full({}, counts[0][0] * counts[1][0], dtype);
  return cast(outer(numbers_of_formula(counts[0], {p.output[2]}), numbers_of_formula(counts[1], {p.output[3]})), dtype);
}

PoolWindows adaptive_windows(const char* op, int axes, const Shape& shape, const SizePair& output) {
  PoolWindows p;
  p.image = image_shape(op, axes, shape);
  p.call.adaptive = true;
  std::int64_t out[2] = {1, 1};
  for (int d = 2 - axes; d < 2; ++d) {
    out[d] = output[d];
    require(out[d] >= 1 && p.image[d + 2] >= 1, "{}: cannot make {} outputs of an axis of {}, for shape {}", op, out[d],
            p.image[d + 2], shape);
    checked_product(op, checked_sum(op, out[d], 1), p.image[d + 2]);
    require_memory_for(op, out[d]);
  }
  set_outputs(p, axes, shape, out);
  return p;
}

Tensor max_pool2d(const Tensor& x, SizePair window, const MaxPoolOptions& options) {
  return largest(2, x, window, options);
}
Tensor max_pool1d(const Tensor& x, std::int64_t window, const MaxPoolOptions& options) {
  return largest(1, x, window, options);
}
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, SizePair window, const MaxPoolOptions& options) {
  return max_pool("max_pool2d_with_indices", 2, x, window, options);
}
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, std::int64_t window, const MaxPoolOptions& options) {
  return max_pool("max_pool1d_with_indices", 1, x, window, options);
}

Tensor avg_pool2d(const Tensor& x, SizePair window, const AvgPoolOptions& options) {
  return avg_pool(2, x, window, options);
}
Tensor avg_pool1d(const Tensor& x, std::int64_t window, const AvgPoolOptions& options) {
  return avg_pool(1, x, window, options);
}

namespace {

// Large windows that do not overlap are reductions, which add in double precision.
Tensor adaptive_avg_pool(const char* op, int axes, const Tensor& x, const SizePair& output) {
  require_floating(op, x);
  const PoolWindows p = adaptive_windows(op, axes, x.shape(), output);
  constexpr std::int64_t kLargeWindow = 1024;
  const std::int64_t rows = p.output[2], columns = p.output[3], high = p.image[2] / rows, wide = p.image[3] / columns;
  if (high * rows != p.image[2] || wide * columns != p.image[3] || high * wide < kLargeWindow)
    return means(x, p, false);
  return reshape(mean(reshape(x, {p.image[0], p.image[1], rows, high, columns, wide}), {3, 5}), p.result);
}

std::pair<Tensor, Tensor> adaptive_max_pool(const char* op, int axes, const Tensor& x, const SizePair& output) {
  require_floating(op, x);
  return largest_elements(x, adaptive_windows(op, axes, x.shape(), output));
}

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, SizePair output) {
  return adaptive_avg_pool("adaptive_avg_pool2d", 2, x, output);
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output) {
  return adaptive_avg_pool("adaptive_avg_pool1d", 1, x, output);
}
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, SizePair output) {
  return adaptive_max_pool("adaptive_max_pool2d", 2, x, output);
}
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x, std::int64_t output) {
  return adaptive_max_pool("adaptive_max_pool1d", 1, x, output);
}
Tensor adaptive_max_pool2d(const Tensor& x, SizePair output) {
  return adaptive_max_pool2d_with_indices(x, output).first;
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output) {
  return adaptive_max_pool1d_with_indices(x, output).first;
}

namespace {

Axes after_channels(const char* op, const Shape& shape) {
  require(shape.rank() >= 3, "{}: needs [N, C, ...] with something after the channels, got shape {}", op, shape);
  std::vector<std::int64_t> axes;
  for (int d = 2; d < shape.rank(); ++d) axes.push_back(d);
  return axes;
}

}  // namespace

Tensor global_avg_pool(const Tensor& x) { return mean(x, after_channels("global_avg_pool", x.shape()), true); }
Tensor global_max_pool(const Tensor& x) { return max(x, after_channels("global_max_pool", x.shape()), true); }

}  // namespace ebb
