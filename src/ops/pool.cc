// SPDX-License-Identifier: MIT
#include "ebb/ops/pool.h"

#include <algorithm>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/conv_nodes.h"
#include "ops/pool_parts.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

// [N, C, H, W] of whatever the caller has.
Shape image_shape(const char* op, int axes, const Shape& shape) {
  require(shape.rank() == axes + 1 || shape.rank() == axes + 2, "{}: needs {} or the same without N, got shape {}", op,
          axes == 1 ? "[N, C, L]" : "[N, C, H, W]", shape);
  Shape image = shape.rank() == axes + 1 ? shape.inserted(0, 1) : shape;
  return axes == 1 ? image.inserted(2, 1) : image;
}

PoolWindows pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                         const std::optional<SizePair>& stride, const SizePair& padding, const SizePair& dilation,
                         bool ceil_mode) {
  PoolWindows p;
  p.image = image_shape(op, axes, shape);
  p.call.groups = std::max<std::int64_t>(1, p.image[1]);  // backends divide by it
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
    p.window[k] = window[d];
    p.call.stride[k] = step;
    p.call.padding[k] = padding[d];
    p.call.dilation[k] = dilation[d];
  }
  p.output = {p.image[0], p.image[1], out[0], out[1]};
  p.result = axes == 1 ? p.output.without(2) : p.output;
  if (shape.rank() == axes + 1) p.result = p.result.without(0);
  return p;
}

void require_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), Error::Kind::type, "{}: needs floating elements, got {}", op, x.dtype());
}

std::pair<Tensor, Tensor> max_pool(const char* op, int axes, const Tensor& x, const SizePair& window,
                                   const MaxPoolOptions& o) {
  require_floating(op, x);
  const PoolWindows p = pool_windows(op, axes, x.shape(), window, o.stride, o.padding, o.dilation, o.ceil_mode);
  const Tensor image = reshape(x, p.image);
  const Tensor index =
      make_node(Op::max_pool_index, DType::i64, p.output, {image}, with_options(MaxPoolCall{p.call, p.window}));
  // Along planes, wherever those of an image's channels lie: no copy where channels are last in memory.
  const std::int64_t images = p.image[0], channels = p.image[1];
  const Tensor values = gather(reshape(image, {images, channels, p.image[2] * p.image[3]}), 2,
                               reshape(index, {images, channels, p.output[2] * p.output[3]}));
  return {reshape(values, p.result), reshape(index, p.result)};
}

Tensor avg_pool(const char* op, int axes, const Tensor& x, const SizePair& window, const AvgPoolOptions& o) {
  require_floating(op, x);
  const PoolWindows p = avg_pool_windows(op, axes, x.shape(), window, o);
  const Tensor image = reshape(widen(x), p.image);
  const Tensor sums = convolution_node(image, p.ones(image.dtype()), {}, p.call, p.output);
  return cast(reshape(sums / avg_pool_divisors(p, o.count_include_pad, image.dtype()), p.result), x.dtype());
}

}  // namespace

Tensor PoolWindows::ones(DType dtype) const {
  return expand(full({1, 1, 1, 1}, 1, dtype), {image[1], 1, window[0], window[1]});
}

PoolWindows avg_pool_windows(const char* op, int axes, const Shape& shape, const SizePair& window,
                             const AvgPoolOptions& o) {
  return pool_windows(op, axes, shape, window, o.stride, o.padding, 1, o.ceil_mode);
}

Tensor avg_pool_divisors(const PoolWindows& p, bool count_include_pad, DType dtype) {
  // A window counts what it covers of the input, padded or not, along each axis.
  std::vector<double> counts[2];
  for (int d : {0, 1}) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t before = p.call.padding[k], size = p.image[d + 2];
    for (std::int64_t i = 0; i < p.output[d + 2]; ++i) {
      const std::int64_t first = i * p.call.stride[k] - before, last = first + p.window[k];
      const std::int64_t covered = count_include_pad ? std::min(last, size + before) - first
                                                     : std::min(last, size) - std::max<std::int64_t>(first, 0);
      counts[k].push_back(static_cast<double>(covered));
    }
  }
  const auto all_equal = [](const std::vector<double>& v) {
    return std::all_of(v.begin(), v.end(), [&](double x) { return x == v[0]; });
  };
  if (!counts[0].empty() && !counts[1].empty() && all_equal(counts[0]) && all_equal(counts[1]))
    return full({}, counts[0][0] * counts[1][0], dtype);
  return cast(outer(numbers_of_formula(counts[0], {p.output[2]}), numbers_of_formula(counts[1], {p.output[3]})), dtype);
}

namespace {

// Elements [first, last) of window i of those that cover an axis.
struct Window {
  std::int64_t first, last;
  Window(std::int64_t i, std::int64_t size, std::int64_t outputs)
      : first(i * size / outputs), last(((i + 1) * size + outputs - 1) / outputs) {}
  double weight() const { return 1.0 / static_cast<double>(last - first); }
};

}  // namespace

Tensor averaging_matrix(std::int64_t size, std::int64_t outputs, DType dtype) {
  const Shape matrix{outputs, size};
  require_memory_for("adaptive_avg_pool", matrix.numel());
  std::vector<double> weights(static_cast<std::size_t>(matrix.numel()), 0.0);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const Window window(i, size, outputs);
    for (std::int64_t j = window.first; j < window.last; ++j)
      weights[static_cast<std::size_t>(i * size + j)] = window.weight();
  }
  return cast(numbers_of_formula(weights, matrix), dtype);
}

Tensor max_pool2d(const Tensor& x, SizePair window, const MaxPoolOptions& options) {
  return max_pool("max_pool2d", 2, x, window, options).first;
}
Tensor max_pool1d(const Tensor& x, std::int64_t window, const MaxPoolOptions& options) {
  return max_pool("max_pool1d", 1, x, window, options).first;
}
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, SizePair window, const MaxPoolOptions& options) {
  return max_pool("max_pool2d_with_indices", 2, x, window, options);
}
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, std::int64_t window, const MaxPoolOptions& options) {
  return max_pool("max_pool1d_with_indices", 1, x, window, options);
}

Tensor avg_pool2d(const Tensor& x, SizePair window, const AvgPoolOptions& options) {
  return avg_pool("avg_pool2d", 2, x, window, options);
}
Tensor avg_pool1d(const Tensor& x, std::int64_t window, const AvgPoolOptions& options) {
  return avg_pool("avg_pool1d", 1, x, window, options);
}

namespace {

// Windows of up to `length` elements: the first elements of all, the second ones, ..., each with its weight.
Tensor averaged_short_windows(const Tensor& x, int axis, std::int64_t outputs, std::int64_t length) {
  const std::int64_t size = x.size(axis);
  const Shape row{outputs};
  require_memory_for("adaptive_avg_pool", outputs);
  Shape along;
  for (int k = 0; k < x.rank(); ++k) along = along.inserted(k, k == axis ? outputs : 1);
  Tensor y;
  for (std::int64_t k = 0; k < length; ++k) {
    std::vector<std::int64_t> at;
    std::vector<double> weight;
    for (std::int64_t i = 0; i < outputs; ++i) {
      const Window window(i, size, outputs);
      at.push_back(std::min(window.first + k, window.last - 1));
      weight.push_back(window.first + k < window.last ? window.weight() : 0.0);
    }
    const Tensor weights = reshape(cast(numbers_of_formula(weight, row), x.dtype()), along);
    const Tensor part = index_select(x, axis, numbers_of_formula(at, row)) * weights;
    y = y.defined() ? y + part : part;
  }
  return y;
}

// The means of windows that cover an axis, one of the last two: reductions where windows are long or all of one size,
// sums of slices where they are short, else a product with weights.
Tensor averaged_axis(const Tensor& x, int axis, std::int64_t outputs) {
  const std::int64_t size = x.size(axis);
  if (size == outputs) return x;
  if (size % outputs == 0)
    return mean(reshape(x, x.shape().with(axis, outputs).inserted(axis + 1, size / outputs)), axis + 1);
  constexpr std::int64_t kFew = 16, kLongAxis = 16384, kShort = 8;  // a product is faster in between
  if (outputs <= kFew && size >= kLongAxis) {
    std::vector<Tensor> means;
    for (std::int64_t i = 0; i < outputs; ++i) {
      const Window window(i, size, outputs);
      means.push_back(mean(narrow(x, axis, window.first, window.last - window.first), axis, true));
    }
    return cat(means, axis);
  }
  const std::int64_t length = size / outputs + 2;  // at most
  if (size > 64 && length <= kShort) return averaged_short_windows(x, axis, outputs, length);
  const Tensor weights = averaging_matrix(size, outputs, x.dtype());
  return axis == x.rank() - 1 ? matmul(x, t(weights)) : matmul(weights, x);
}

constexpr std::int64_t kSmallWindow = 64;  // of which avg_pool is faster than a reduction along each axis

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, SizePair output) {
  const char* op = "adaptive_avg_pool2d";
  require_floating(op, x);
  image_shape(op, 2, x.shape());
  const std::int64_t h = x.size(-2), w = x.size(-1);
  require(output[0] >= 1 && output[1] >= 1 && h >= 1 && w >= 1, "{}: cannot make [{}, {}] outputs of shape {}", op,
          output[0], output[1], x.shape());
  const std::int64_t high = h / output[0], wide = w / output[1];
  if (high * output[0] == h && wide * output[1] == w && high * wide <= kSmallWindow) return avg_pool2d(x, {high, wide});
  const Tensor columns = averaged_axis(widen(x), x.rank() - 1, output[1]);
  return cast(averaged_axis(columns, x.rank() - 2, output[0]), x.dtype());
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output) {
  const char* op = "adaptive_avg_pool1d";
  require_floating(op, x);
  image_shape(op, 1, x.shape());
  const std::int64_t size = x.size(-1);
  require(output >= 1 && size >= 1, "{}: cannot make {} outputs of shape {}", op, output, x.shape());
  if (size % output == 0 && size / output <= kSmallWindow) return avg_pool1d(x, size / output);
  return cast(averaged_axis(widen(x), x.rank() - 1, output), x.dtype());
}

namespace {

// An axis with the lines of each window after one another. Windows that are shorter repeat their last line, which
// changes no maximum (the first of equal elements counts), so that all have one length.
struct SpreadAxis {
  Tensor x;
  std::int64_t length;  // of a window
  Tensor lines;         // which line each was; undefined where all are where they were
};

SpreadAxis spread_windows(const Tensor& x, std::int64_t axis, std::int64_t outputs) {
  const std::int64_t size = x.size(axis);
  if (size % outputs == 0) return {x, size / outputs, {}};
  const auto first = [&](std::int64_t i) { return Window(i, size, outputs).first; };
  const auto last = [&](std::int64_t i) { return Window(i, size, outputs).last - 1; };
  checked_product("adaptive_max_pool", checked_sum("adaptive_max_pool", outputs, 1), size);
  std::vector<std::int64_t> lines;
  require_memory_for("adaptive_max_pool", outputs);
  std::int64_t length = 0;
  for (std::int64_t i = 0; i < outputs; ++i) length = std::max(length, last(i) - first(i) + 1);
  const Shape spread{checked_product("adaptive_max_pool", outputs, length)};
  require_memory_for("adaptive_max_pool", spread.numel());
  for (std::int64_t i = 0; i < outputs; ++i) {
    for (std::int64_t k = 0; k < length; ++k) lines.push_back(std::min(first(i) + k, last(i)));
  }
  const Tensor which = numbers_of_formula(lines, spread);
  return {index_select(x, axis, which), length, which};
}

Tensor line_before(const SpreadAxis& axis, const Tensor& line) {
  if (!axis.lines.defined()) return line;
  return reshape(index_select(axis.lines, 0, reshape(line, {line.numel()})), line.shape());
}

}  // namespace

std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, SizePair output) {
  const char* op = "adaptive_max_pool2d";
  require_floating(op, x);
  image_shape(op, 2, x.shape());
  require(output[0] >= 1 && output[1] >= 1 && x.size(-2) >= 1 && x.size(-1) >= 1,
          "{}: cannot make [{}, {}] outputs of shape {}", op, output[0], output[1], x.shape());
  const SpreadAxis rows = spread_windows(x, x.rank() - 2, output[0]);
  const SpreadAxis columns = spread_windows(rows.x, x.rank() - 1, output[1]);
  const auto [values, at] = max_pool2d_with_indices(columns.x, {rows.length, columns.length});
  if (!rows.lines.defined() && !columns.lines.defined()) return {values, at};
  const std::int64_t width = columns.x.size(-1);
  return {values, line_before(rows, floor_divide(at, width)) * x.size(-1) + line_before(columns, remainder(at, width))};
}
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x, std::int64_t output) {
  const char* op = "adaptive_max_pool1d";
  require_floating(op, x);
  image_shape(op, 1, x.shape());
  require(output >= 1 && x.size(-1) >= 1, "{}: cannot make {} outputs of shape {}", op, output, x.shape());
  const SpreadAxis spread = spread_windows(x, x.rank() - 1, output);
  const auto [values, at] = max_pool1d_with_indices(spread.x, spread.length);
  return {values, line_before(spread, at)};
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
