// SPDX-License-Identifier: MIT
// Convolutions by kernels of our own where those are faster (direct_convolution.h, weight_gradient.h), else by cuDNN if
// available. Otherwise as products: the elements of the windows are laid out as columns, some
// images at a time, so that memory stays bounded. Every sum has one order.
//   col[n, g, (c, r, s), (p, q)] = x[n, g·C/G + c, p·stride + r·dilation − padding, q·…], zero outside
//   convolution            y[n, g] = w[g]·col[n, g]
//   conv_transpose         col[n, g] = w[g]ᵀ·y[n, g], and each element of x adds up those that are it
//   conv_weight_gradient   dw[g] = Σ_n y[n, g]·col[n, g]ᵀ
// Pools: kernels/max_pool.cuh and kernels/window_sum.cuh.
// For calls with channels last (ConvCall::last), cuDNN accesses them in place; products work on copies.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "calls/convolution.h"
#include "core/ceil_div.h"
#include "core/divisor.h"
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/library/direct_convolution.h"
#include "cuda/library/kernels.h"
#include "cuda/library/patches.h"
#include "cuda/library/weight_gradient.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

struct WindowSizes {
  ConvCall o;
  std::int64_t images, channels, height, width, outputs, rows, columns, taps_h, taps_w;

  WindowSizes(const Attrs& attrs, const View& x, const View& w, const View& y)
      : o(options_as<ConvCall>(attrs)),
        images(x.shape[0]),
        channels(x.shape[1] / o.groups),
        height(x.shape[2]),
        width(x.shape[3]),
        outputs(y.shape[1] / o.groups),
        rows(y.shape[2]),
        columns(y.shape[3]),
        taps_h(w.shape[2]),
        taps_w(w.shape[3]) {}
  std::int64_t depth() const { return channels * taps_h * taps_w; }
  std::int64_t places() const { return rows * columns; }
  std::int64_t together(const GpuModel& model, DType dtype) const {  // images
    const std::int64_t bytes = o.groups * depth() * places() * static_cast<std::int64_t>(size_of(dtype));
    return std::clamp<std::int64_t>(model.window_column_bytes / std::max<std::int64_t>(1, bytes), 1,
                                    std::max<std::int64_t>(1, images));
  }
  Windows windows() const {
    return {.groups = o.groups,
            .channels = channels,
            .height = height,
            .width = width,
            .rows = rows,
            .columns = columns,
            .taps_h = taps_h,
            .taps_w = taps_w,
            .stride_h = o.stride[0],
            .stride_w = o.stride[1],
            .padding_h = o.padding[0],
            .padding_w = o.padding[1],
            .dilation_h = o.dilation[0],
            .dilation_w = o.dilation[1]};
  }
};

void make_columns(Gpu& gpu, const Windows& windows, const View& x, const View& col, bool images_inside) {
  const std::int64_t n = col.shape.numel() / (windows.taps_h * windows.taps_w);
  launch_elements(gpu, {bits_text(x.dtype) + texts::columns}, "lay_out", n,
                  ColumnsArgs<void>{.x = x.data,
                                    .col = col.data,
                                    .n = n,
                                    .images = x.shape[0],
                                    .images_inside = images_inside,
                                    .step_n = x.strides[0],
                                    .step_c = x.strides[1],
                                    .step_h = x.strides[2],
                                    .step_w = x.strides[3],
                                    .windows = windows});
}

// Adds up columns of the compute dtype, or of that of the result.
KernelSource source_of_adding_up(DType dtype, bool wide) {
  return {element_text(dtype) +
          (wide ? "typedef A C;\nEBB A of_column(C x) { return x; }\n"
                : "typedef T C;\nEBB A of_column(C x) { return load(x); }\n") +
          texts::add_columns_up};
}

// to[n, k, ..] = from[n, k, ..] + bias[k]; both dense in the same order, `from` in the compute dtype.
void add_bias(Gpu& gpu, const View& to, const View& from, const View& bias) {
  const bool is_usual = is_contiguous(to.shape, to.strides);
  launch_elements(gpu, {element_text(to.dtype) + texts::add_bias}, "add_bias", to.shape.numel(),
                  AddBiasArgs<void, void>{.to = to.data,
                                          .from = from.data,
                                          .bias = bias.data,
                                          .n = to.shape.numel(),
                                          .channels = to.shape[1],
                                          .inner = is_usual ? to.shape[2] * to.shape[3] : 1,
                                          .bias_step = bias.strides[0]});
}

// [K, C/G, R, S] as [1.., G, K/G, C/G·R·S], the same for all images.
View window_matrices(const View& dense_w, const WindowSizes& z, std::int64_t images) {
  View w = reshaped(dense_w, Shape{1, z.o.groups, z.outputs, z.depth()});
  w.shape = w.shape.with(0, images);
  w.strides[0] = 0;
  return w;
}

// [N, C, H, W] -> [N, H, W, C], and back
View channels_last(View v) {
  v.shape = Shape{v.shape[0], v.shape[2], v.shape[3], v.shape[1]};
  v.strides = Strides{v.strides[0], v.strides[2], v.strides[3], v.strides[1]};
  return v;
}
View channels_second(View v) {
  v.shape = Shape{v.shape[0], v.shape[3], v.shape[1], v.shape[2]};
  v.strides = Strides{v.strides[0], v.strides[3], v.strides[1], v.strides[2]};
  return v;
}

bool are_last(const View& v, Strides& last) {
  const std::int64_t channels = v.shape[1], height = v.shape[2], width = v.shape[3];
  last = Strides{height * width * channels, 1, width * channels, channels};
  for (int d = 0; d < 4; ++d) {
    if (v.shape[d] != 1 && v.strides[d] != last[d]) return false;
  }
  return true;
}

// The same elements as cuDNN's engines want them, dense in the order NCHW or, preferably if `last`, NHWC; a copy if
// they have another layout. Axes of one element get the strides of their neighbours: cuDNN inspects them, too.
View dense_images(Gpu& gpu, const View& v, bool last, BufferPtr& keep, const char* what) {
  View canonical = v;
  Strides order;
  const bool is_last = are_last(v, order), is_usual = is_contiguous(v.shape, v.strides);
  if (!is_last && !is_usual) return packed(gpu, v, keep, what);
  canonical.strides = is_last && (last || !is_usual) ? order : contiguous_strides(v.shape);
  return canonical;
}

// A channels-last result, in the usual shape.
View result_of(const LibraryCall& call) {
  View v = call.outputs[0];
  if (!options_as<ConvCall>(call.attrs).last) return v;
  v.shape = Shape{v.shape[0], v.shape[3], v.shape[1], v.shape[2]};
  Strides order;
  are_last(v, order);
  v.strides = order;
  return v;
}

// A channels-last call in the usual order: on copies.
void run_in_usual_order(const LibraryCall& call, Gpu& gpu, void (*run)(const LibraryCall&, Gpu&)) {
  ConvCall o = options_as<ConvCall>(call.attrs);
  o.last = false;
  BufferPtr keep[3];
  const View result = result_of(call), usual = workspace(gpu, result.dtype, result.shape, keep[0], label_of(call));
  std::vector<View> inputs(call.inputs.begin(), call.inputs.end());
  for (std::size_t i = 0; i < 2; ++i) inputs[i] = packed(gpu, inputs[i], keep[i + 1], label_of(call));
  LibraryCall other = call;
  other.attrs.options = make_options(o);
  other.inputs = inputs;
  other.outputs = {&usual, 1};
  run(other, gpu);
  copy_elements(gpu, result, usual);
}

// The same pixels with that many channels, the new ones zeros; dense.
View with_channels(Gpu& gpu, const View& v, std::int64_t channels, BufferPtr& keep, const char* what) {
  BufferPtr keep_dense;
  const View from = packed(gpu, channels_last(v), keep_dense, what);
  const std::int64_t pixels = v.shape[0] * v.shape[2] * v.shape[3];
  const View to = workspace(gpu, v.dtype, from.shape.with(3, channels), keep, what);
  copy_padded(gpu, reshaped(to, Shape{pixels, channels}), reshaped(from, Shape{pixels, v.shape[1]}));
  return channels_second(to);
}

// cuDNN's engines for tensor cores load 16 bytes of a pixel's channels. Pictures of three channels, and their windows,
// are padded with zeros to that; a result is computed with the padding channels and copied without them.
bool by_cudnn_padded(Gpu& gpu, ConvolutionResult kind, const ConvCall& o, const View& x, const View& w, const View& y,
                     const char* what) {
  const auto each = static_cast<std::int64_t>(16 / size_of(x.dtype));
  const std::int64_t channels = (x.shape[1] + each - 1) / each * each;
  if (!o.last || o.groups != 1 || !is_half(x.dtype) || channels == x.shape[1]) return false;
  BufferPtr keep_x, keep_w, keep_y;
  const auto padded = [&](ConvolutionResult which, const View& v, BufferPtr& keep) {
    if (kind != which) return with_channels(gpu, v, channels, keep, what);
    return channels_second(workspace(gpu, v.dtype, channels_last(v).shape.with(3, channels), keep, what));
  };
  const View wide_x = padded(ConvolutionResult::x, x, keep_x), wide_w = padded(ConvolutionResult::w, w, keep_w);
  const View dense_y = kind == ConvolutionResult::y ? y : dense_images(gpu, y, true, keep_y, what);
  if (!run_by_cudnn(gpu, kind, o, wide_x, wide_w, dense_y)) return false;
  if (kind == ConvolutionResult::x) copy_elements(gpu, x, part_of(wide_x, 1, 0, x.shape[1]));
  if (kind == ConvolutionResult::w) copy_elements(gpu, w, part_of(wide_w, 1, 0, w.shape[1]));
  return true;
}

// By cuDNN in the order of the result; false if it has no engine for that.
bool by_cudnn(Gpu& gpu, ConvolutionResult kind, const ConvCall& o, const View& x, const View& w, const View& y,
              const char* what) {
  if (!cudnn_table() || x.shape.numel() == 0 || y.shape.numel() == 0) return false;
  if (by_cudnn_padded(gpu, kind, o, x, w, y, what)) return true;
  BufferPtr keep_x, keep_w, keep_y;
  const auto images = [&](ConvolutionResult which, const View& v, BufferPtr& keep) {
    if (kind == which) return v;
    return which == ConvolutionResult::w && !o.last ? packed(gpu, v, keep, what)
                                                    : dense_images(gpu, v, o.last, keep, what);
  };
  return run_by_cudnn(gpu, kind, o, images(ConvolutionResult::x, x, keep_x), images(ConvolutionResult::w, w, keep_w),
                      images(ConvolutionResult::y, y, keep_y));
}

// With windows side by side, x is a convolution of y with the windows turned around, their channels exchanged. In exact
// f32, cuDNN's engines for that take a third to a tenth of the time of those for gradients of images (H200: 3 to 17
// channels, windows of 3 and 3x3).
bool by_cudnn_turned(Gpu& gpu, const ConvCall& o, const View& x, const View& w, const View& y, const char* what) {
  if (!cudnn_table() || x.dtype != DType::f32 || tf32() || o.last || o.groups != 1) return false;
  ConvCall forward = o;
  View turned = w;
  turned.shape = w.shape.with(0, w.shape[1]).with(1, w.shape[0]);
  std::swap(turned.strides[0], turned.strides[1]);
  for (const std::size_t axis : {0U, 1U}) {
    const int d = static_cast<int>(axis) + 2;
    forward.padding[axis] = o.dilation[axis] * (w.shape[d] - 1) - o.padding[axis];
    if (o.stride[axis] != 1 || forward.padding[axis] < 0) return false;
    turned.data = element_at(turned, (w.shape[d] - 1) * w.strides[d]);
    turned.strides[d] = -w.strides[d];
  }
  BufferPtr keep;
  const View windows = workspace(gpu, w.dtype, turned.shape, keep, what);
  copy_elements(gpu, windows, turned);
  return by_cudnn(gpu, ConvolutionResult::y, forward, y, windows, x, what);
}

}  // namespace

void run_convolution(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &w = call.inputs[1], result = result_of(call);
  if (result.shape.numel() == 0) return;
  const WindowSizes z(call.attrs, x, w, result);
  const bool bias = call.inputs.size() > 2;
  if (run_as_patches(gpu, ConvolutionResult::y, z.o, x, w, result, bias ? call.inputs[2] : View{}, "convolution"))
    return;
  if (const auto plan = plan_direct_convolution(ConvolutionResult::y, z.o, x, w, result, gpu.model()))
    return run_direct_convolution(gpu, ConvolutionResult::y, z.o, x, w, result, bias ? call.inputs[2] : View{}, *plan);
  BufferPtr keep_w, keep_col, keep_sums;
  const auto done = [&](const View& y) { return by_cudnn(gpu, ConvolutionResult::y, z.o, x, w, y, "convolution"); };
  if (bias && is_half(result.dtype) && cudnn_table()) {
    // The sum is rounded once if cuDNN can leave its results in f32, and twice if it cannot, as in PyTorch.
    View sums = workspace(gpu, DType::f32, result.shape, keep_sums, "convolution");
    sums.strides = result.strides;
    bool made = done(sums);
    if (!made && !z.o.last && (made = done(result))) convert_elements(gpu, sums, result);
    if (made) return add_bias(gpu, result, sums, call.inputs[2]);
  } else if (done(result)) {
    if (bias) add_bias(gpu, result, result, call.inputs[2]);
    return;
  }
  if (z.o.last) return run_in_usual_order(call, gpu, run_convolution);
  const View windows = packed(gpu, w, keep_w, "convolution");
  const std::int64_t together = z.together(gpu.model(), x.dtype);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n);
    const View col = workspace(gpu, x.dtype, Shape{count, z.o.groups, z.depth(), z.places()}, keep_col, "convolution");
    make_columns(gpu, z.windows(), part_of(x, 0, n, count), col, false);
    const View to = part_of(result, 0, n, count);
    View sums = to;
    if (bias && is_half(to.dtype)) sums = workspace(gpu, DType::f32, to.shape, keep_sums, "convolution");
    multiply_floats(gpu, window_matrices(windows, z, count), col,
                    reshaped(sums, Shape{count, z.o.groups, z.outputs, z.places()}));
    if (bias) add_bias(gpu, to, sums, call.inputs[2]);
  }
}

void run_conv_transpose(const LibraryCall& call, Gpu& gpu) {
  const View &y = call.inputs[0], &w = call.inputs[1], x = result_of(call);
  if (x.shape.numel() == 0) return;
  const WindowSizes z(call.attrs, x, w, y);
  const KernelSource source = source_of_adding_up(x.dtype, true);
  BufferPtr keep_w, keep_y, keep_col;
  if (run_as_patches(gpu, ConvolutionResult::x, z.o, x, w, y, {}, "conv_transpose")) return;
  if (const auto plan = plan_direct_convolution(ConvolutionResult::x, z.o, x, w, y, gpu.model()))
    return run_direct_convolution(gpu, ConvolutionResult::x, z.o, x, w, y, {}, *plan);
  if (by_cudnn_turned(gpu, z.o, x, w, y, "conv_transpose")) return;
  if (by_cudnn(gpu, ConvolutionResult::x, z.o, x, w, y, "conv_transpose")) return;
  if (z.o.last) return run_in_usual_order(call, gpu, run_conv_transpose);
  const DType dtype = compute_dtype(x.dtype);
  const View windows = packed(gpu, w, keep_w, "conv_transpose"), dense_y = packed(gpu, y, keep_y, "conv_transpose");
  const std::int64_t together = z.together(gpu.model(), dtype);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n);
    const View col = workspace(gpu, dtype, Shape{count, z.o.groups, z.depth(), z.places()}, keep_col, "conv_transpose");
    multiply_floats(gpu, transposed(window_matrices(windows, z, count)),
                    reshaped(part_of(dense_y, 0, n, count), Shape{count, z.o.groups, z.outputs, z.places()}), col);
    const View to = part_of(x, 0, n, count);
    launch_elements(
        gpu, source, "add_up", to.shape.numel(),
        AddUpArgs<void, void>{.x = to.data, .col = col.data, .n = to.shape.numel(), .windows = z.windows()});
  }
}

std::string describe_convolution(const LibraryCall& call, const GpuModel& model) {
  const ConvCall& o = options_as<ConvCall>(call.attrs);
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (call.op == Op::conv_weight_gradient) {
    if (const auto plan = plan_depthwise_gradient(o, a, out, b, model)) return describe(*plan);
    const auto plan = plan_weight_gradient(call, model);
    return plan ? describe(*plan) : "";
  }
  const auto plan = call.op == Op::convolution ? plan_direct_convolution(ConvolutionResult::y, o, a, b, out, model)
                                               : plan_direct_convolution(ConvolutionResult::x, o, out, b, a, model);
  return plan ? describe(*plan) : "";
}

void run_conv_weight_gradient(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &y = call.inputs[1], w = result_of(call);
  if (w.shape.numel() == 0) return;
  const WindowSizes z(call.attrs, x, w, y);
  if (z.images == 0 || z.places() == 0)
    return gpu.clear(w.data, static_cast<std::size_t>(w.shape.numel()) * size_of(w.dtype));
  if (run_as_patches(gpu, ConvolutionResult::w, z.o, x, w, y, {}, "conv_weight_gradient")) return;
  if (const auto plan = plan_depthwise_gradient(z.o, x, w, y, gpu.model()))
    return run_depthwise_gradient(gpu, z.o, x, w, y, *plan);
  if (const auto plan = plan_weight_gradient(call, gpu.model())) return run_weight_gradient(call, gpu, *plan);
  if (by_cudnn(gpu, ConvolutionResult::w, z.o, x, w, y, "conv_weight_gradient")) return;
  if (z.o.last) return run_in_usual_order(call, gpu, run_conv_weight_gradient);
  BufferPtr keep_col, keep_y, keep_sums;
  const std::int64_t together = z.together(gpu.model(), x.dtype), groups = z.o.groups;
  const Shape matrices{groups, z.outputs, z.depth()};
  const bool in_parts = is_half(w.dtype) && together < z.images;  // sums are rounded once
  const View sums =
      in_parts ? workspace(gpu, DType::f32, matrices, keep_sums, "conv_weight_gradient") : reshaped(w, matrices);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n), length = count * z.places();
    const View col = workspace(gpu, x.dtype, Shape{groups, z.depth(), length}, keep_col, "conv_weight_gradient");
    make_columns(gpu, z.windows(), part_of(x, 0, n, count), col, true);
    // [n, g·k, p, q] -> [g·k, n, p, q]
    View turned = part_of(y, 0, n, count);
    turned.shape = Shape{y.shape[1], count, y.shape[2], y.shape[3]};
    std::swap(turned.strides[0], turned.strides[1]);
    const View g = packed(gpu, turned, keep_y, "conv_weight_gradient");
    multiply_floats(gpu, reshaped(g, Shape{groups, z.outputs, length}), transposed(col), sums, n > 0);
  }
  if (in_parts) convert_elements(gpu, w, sums);
}

namespace {

PoolSide pool_side(const PoolCall& p, std::size_t axis, std::int64_t size, std::int64_t outputs) {
  return {.size = size,
          .outputs = outputs,
          .window = p.window[axis],
          .stride = p.conv.stride[axis],
          .padding = p.conv.padding[axis],
          .dilation = p.conv.dilation[axis],
          .adaptive = p.adaptive,
          .by_size = divisor_word(size),
          .by_outputs = divisor_word(outputs),
          .by_stride = divisor_word(p.conv.stride[axis])};
}
PoolArgs<void, void> pool_args(const LibraryCall& call, const View& image, const View& windows, std::int64_t n) {
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  return {.image = image.data,
          .sums = windows.data,
          .places = static_cast<i64*>(windows.data),
          .n = n,
          .channels = image.shape[1],
          .step_n = image.strides[0],
          .step_c = image.strides[1],
          .step_h = image.strides[2],
          .step_w = image.strides[3],
          .rows = pool_side(p, 0, image.shape[2], windows.shape[2]),
          .columns = pool_side(p, 1, image.shape[3], windows.shape[3])};
}

// The type of places and sizes in kernels of pools (parts/pool.cuh); `rows`: their axis.
std::string place_text(const PoolCall& p, const Shape& image, const Shape& windows, int rows = 2) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  bool small = image.numel() < kMost && windows.numel() < kMost;
  for (const std::size_t axis : {0U, 1U}) {
    const int d = static_cast<int>(axis) + rows;
    const std::int64_t size = image[d], outputs = windows[d];
    const std::int64_t reach[] = {p.window[axis] * p.conv.dilation[axis], outputs * p.conv.stride[axis],
                                  p.conv.padding[axis], p.adaptive ? (size + 1) * (outputs + 1) : 0};
    small = small && *std::max_element(std::begin(reach), std::end(reach)) < kMost / 4;
  }
  return small ? "typedef int P;\n" : "typedef i64 P;\n";
}

// The most elements of a window: its size alone decides how many lanes share one.
std::int64_t taps_of_window(const LibraryCall& call, const View& image, const View& sums) {
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  std::int64_t taps = 1;
  for (int d : {0, 1}) {
    const std::int64_t size = image.shape[d + 2], outputs = sums.shape[d + 2];
    taps *= p.adaptive ? (size + outputs - 1) / outputs : std::min(p.window[static_cast<std::size_t>(d)], size);
  }
  return taps;
}

}  // namespace

namespace {

// Contiguous channels per thread: 16 bytes of them, or one if that does not divide them.
std::int64_t channels_together(const View& image, std::int64_t channels) {
  const auto each = static_cast<std::int64_t>(16 / size_of(image.dtype));
  bool whole = channels % each == 0 && reinterpret_cast<std::uintptr_t>(image.data) % 16 == 0;
  for (int d : {0, 1, 2}) whole = whole && (image.strides[d] % each == 0 || image.shape[d] == 1);
  return whole && image.strides[3] == 1 ? each : 1;
}
KernelSource channels_last_source(DType dtype, std::int64_t each, const std::string& places) {
  return {element_text(dtype) + places + fmt::format("constexpr int kEach = {};\n", each) + texts::max_pool_last};
}

void spread_to_largest(const LibraryCall& call, Gpu& gpu) {
  const View &g = call.inputs[0], &places = call.inputs[1], &x = call.outputs[0];
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  if (!p.conv.last) {
    BufferPtr keep;
    return launch_elements(gpu, {element_text(x.dtype) + place_text(p, x.shape, places.shape) + texts::max_pool_spread},
                           "spread_in_planes", ceil_div(x.shape.numel(), kSpreadEach),
                           SpreadInPlanesArgs<void>{.g = packed(gpu, g, keep, "max_pool").data,
                                                    .places = elements<i64>(places),
                                                    .x = x.data,
                                                    .n = x.shape.numel(),
                                                    .rows = pool_side(p, 0, x.shape[2], places.shape[2]),
                                                    .columns = pool_side(p, 1, x.shape[3], places.shape[3])});
  }
  const std::int64_t each = channels_together(g, x.shape[3]);
  launch_elements(gpu, channels_last_source(x.dtype, each, place_text(p, x.shape, places.shape, 1)),
                  "spread_to_largest", x.shape.numel() / each,
                  SpreadToLargestArgs<void>{.g = g.data,
                                            .places = elements<i64>(places),
                                            .x = x.data,
                                            .n = x.shape.numel(),
                                            .channels = x.shape[3],
                                            .step_n = g.strides[0],
                                            .step_h = g.strides[1],
                                            .step_w = g.strides[2],
                                            .step_c = g.strides[3],
                                            .rows = pool_side(p, 0, x.shape[1], places.shape[1]),
                                            .columns = pool_side(p, 1, x.shape[2], places.shape[2])});
}

}  // namespace

constexpr std::int64_t kMostTaps = std::int64_t{1} << 31;  // that lanes count in 32 bits

void run_max_pool_index(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  if (options_as<PoolCall>(call.attrs).conv.last) {
    const std::int64_t each = channels_together(channels_last(x), x.shape[1]);
    const View windows = channels_second(out);
    const std::string places = place_text(options_as<PoolCall>(call.attrs), x.shape, windows.shape);
    return launch_elements(gpu, channels_last_source(x.dtype, each, places), "largest", out.shape.numel() / each,
                           pool_args(call, x, windows, out.shape.numel()));
  }
  const std::int64_t n = out.shape.numel(), taps = taps_of_window(call, x, out);
  const int lanes = taps < 64 || taps > kMostTaps ? 1 : taps < 512 ? 8 : taps < 4096 ? 32 : kThreads;  // chosen
  const KernelSource source{element_text(x.dtype) + place_text(options_as<PoolCall>(call.attrs), x.shape, out.shape) +
                            fmt::format("constexpr int kLanes = {};\n", lanes) + texts::max_pool};
  const PoolArgs<void, void> args = pool_args(call, x, out, n);
  if (lanes == 1) return launch_elements(gpu, source, "largest", n, args);
  launch_blocks(gpu, source, "largest_by_lanes", ceil_div(n, kThreads / lanes), args);
}

namespace {

Windows windows_of_taps(const PoolCall& p, const View& image, const View& columns) {
  return {.groups = 1,
          .channels = image.shape[1],
          .height = image.shape[2],
          .width = image.shape[3],
          .rows = columns.shape[2],
          .columns = columns.shape[3],
          .taps_h = p.window[0],
          .taps_w = p.window[1],
          .stride_h = p.conv.stride[0],
          .stride_w = p.conv.stride[1],
          .padding_h = p.conv.padding[0],
          .padding_w = p.conv.padding[1],
          .dilation_h = p.conv.dilation[0],
          .dilation_w = p.conv.dilation[1]};
}

}  // namespace

void run_window_sum(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const std::int64_t n = out.shape.numel();
  if (n == 0) return;
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  if (p.each_tap) return make_columns(gpu, windows_of_taps(p, x, out), x, out, false);
  const std::int64_t taps = taps_of_window(call, x, out);
  const int lanes = taps < 32 ? 1 : taps < 256 ? 8 : 32;  // one where neighbours read neighbours; chosen, not measured
  launch_elements(gpu,
                  {element_text(x.dtype) + place_text(p, x.shape, out.shape) +
                   fmt::format("constexpr int kLanes = {};\n", lanes) + texts::window_sum},
                  "add_windows", n * lanes, pool_args(call, x, out, n));
}

void run_window_spread(const LibraryCall& call, Gpu& gpu) {
  if (call.inputs.size() == 2) return spread_to_largest(call, gpu);
  const View& x = call.outputs[0];
  BufferPtr keep;
  const View sums = packed(gpu, call.inputs[0], keep, "avg_pool");
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  if (p.each_tap)
    return launch_elements(
        gpu, source_of_adding_up(x.dtype, false), "add_up", x.shape.numel(),
        AddUpArgs<void, void>{
            .x = x.data, .col = sums.data, .n = x.shape.numel(), .windows = windows_of_taps(p, x, sums)});
  launch_elements(
      gpu,
      {element_text(x.dtype) + place_text(p, x.shape, sums.shape) + "constexpr int kLanes = 1;\n" + texts::window_sum},
      "spread_windows", ceil_div(x.shape.numel(), kSpreadEach), pool_args(call, x, sums, x.shape.numel()));
}

}  // namespace ebb::cuda
