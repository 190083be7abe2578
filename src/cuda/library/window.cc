// SPDX-License-Identifier: MIT
// Convolutions by cuDNN where it is there. Otherwise as products: the elements that windows look at are laid out as
// columns, some images at a time, so that memory stays bounded. Every sum has one order.
//   col[n, g, (c, r, s), (p, q)] = x[n, g·C/G + c, p·stride + r·dilation − padding, q·…], zero outside
//   convolution            y[n, g] = w[g]·col[n, g]
//   conv_transpose         col[n, g] = w[g]ᵀ·y[n, g], and each element of x adds up those that are it
//   conv_weight_gradient   dw[g] = Σ_n y[n, g]·col[n, g]ᵀ
// max_pool_index: a thread per window.
#include <algorithm>

#include "calls/convolution.h"
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr std::int64_t kColumnBytes = std::int64_t{128} << 20;  // of columns at a time

struct Sizes {
  ConvCall o;
  std::int64_t images, channels, height, width, outputs, rows, columns, taps_h, taps_w;

  Sizes(const Attrs& attrs, const View& x, const View& w, const View& y)
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
  std::int64_t together(DType dtype) const {  // images
    const std::int64_t bytes = o.groups * depth() * places() * static_cast<std::int64_t>(size_of(dtype));
    return std::clamp<std::int64_t>(kColumnBytes / std::max<std::int64_t>(1, bytes), 1,
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

void make_columns(Gpu& gpu, const Sizes& z, const View& x, const View& col, bool images_inside) {
  launch_elements(gpu, {bits_text(x.dtype) + texts::columns}, "lay_out", col.shape.numel(),
                  ColumnsArgs<void>{.x = x.data,
                                    .col = col.data,
                                    .n = col.shape.numel(),
                                    .images = x.shape[0],
                                    .images_inside = images_inside,
                                    .step_n = x.strides[0],
                                    .step_c = x.strides[1],
                                    .step_h = x.strides[2],
                                    .step_w = x.strides[3],
                                    .windows = z.windows()});
}

// to[n, k, ..] = from[n, k, ..] + bias[k]; both dense, `from` in the compute dtype.
void add_bias(Gpu& gpu, const View& to, const View& from, const View& bias) {
  launch_elements(gpu, {element_text(to.dtype) + texts::add_bias}, "add_bias", to.shape.numel(),
                  AddBiasArgs<void, void>{.to = to.data,
                                          .from = from.data,
                                          .bias = bias.data,
                                          .n = to.shape.numel(),
                                          .channels = to.shape[1],
                                          .inner = to.shape[2] * to.shape[3],
                                          .bias_step = bias.strides[0]});
}

// [K, C/G, R, S] as [1.., G, K/G, C/G·R·S], the same for all images.
View window_matrices(const View& dense_w, const Sizes& z, std::int64_t images) {
  View w = reshaped(dense_w, Shape{1, z.o.groups, z.outputs, z.depth()});
  w.shape = w.shape.with(0, images);
  w.strides[0] = 0;
  return w;
}
View transposed(View v) {
  const int rank = v.shape.rank();
  const std::int64_t rows = v.shape[rank - 2], columns = v.shape[rank - 1];
  v.shape = v.shape.with(rank - 2, columns).with(rank - 1, rows);
  std::swap(v.strides[rank - 2], v.strides[rank - 1]);
  return v;
}

// The same elements as cuDNN's engines want them, densely in the order NCHW or NHWC; a copy where they lie otherwise.
View dense_images(Gpu& gpu, const View& v, BufferPtr& keep, const char* what) {
  View canonical = v;
  canonical.strides = contiguous_strides(v.shape);
  const std::int64_t channels = v.shape[1], height = v.shape[2], width = v.shape[3];
  if (is_contiguous(v.shape, v.strides)) return canonical;
  const Strides last{height * width * channels, 1, width * channels, channels};
  bool is_last = true;
  for (int d = 0; d < 4; ++d) is_last &= v.shape[d] == 1 || v.strides[d] == last[d];
  if (!is_last) return packed(gpu, v, keep, what);
  canonical.strides = last;
  return canonical;
}

}  // namespace

void run_convolution(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &w = call.inputs[1], &y = call.outputs[0];
  if (y.shape.numel() == 0) return;
  const Sizes z(call.attrs, x, w, y);
  const bool bias = call.inputs.size() > 2;
  BufferPtr keep_x, keep_w, keep_col, keep_sums;
  const View windows = packed(gpu, w, keep_w, "convolution");
  if (cudnn_table() && x.shape.numel() > 0) {
    const View images = dense_images(gpu, x, keep_x, "convolution");
    if (bias && is_half(y.dtype)) {
      // The sum is rounded once where cuDNN can leave its results in f32, and twice where it cannot, as in PyTorch.
      const View sums = workspace(gpu, DType::f32, y.shape, keep_sums, "convolution");
      bool done = run_by_cudnn(gpu, ConvolutionResult::y, z.o, images, windows, sums);
      if (!done && (done = run_by_cudnn(gpu, ConvolutionResult::y, z.o, images, windows, y)))
        convert_elements(gpu, sums, y);
      if (done) return add_bias(gpu, y, sums, call.inputs[2]);
    } else if (run_by_cudnn(gpu, ConvolutionResult::y, z.o, images, windows, y)) {
      if (bias) add_bias(gpu, y, y, call.inputs[2]);
      return;
    }
  }
  const std::int64_t together = z.together(x.dtype);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n);
    const View col = workspace(gpu, x.dtype, Shape{count, z.o.groups, z.depth(), z.places()}, keep_col, "convolution");
    make_columns(gpu, z, part_of(x, 0, n, count), col, false);
    const View to = part_of(y, 0, n, count);
    View sums = to;
    if (bias && is_half(y.dtype)) sums = workspace(gpu, DType::f32, to.shape, keep_sums, "convolution");
    multiply_floats(gpu, window_matrices(windows, z, count), col,
                    reshaped(sums, Shape{count, z.o.groups, z.outputs, z.places()}));
    if (bias) add_bias(gpu, to, sums, call.inputs[2]);
  }
}

void run_conv_transpose(const LibraryCall& call, Gpu& gpu) {
  const View &y = call.inputs[0], &w = call.inputs[1], &x = call.outputs[0];
  if (x.shape.numel() == 0) return;
  const Sizes z(call.attrs, x, w, y);
  const KernelSource source{element_text(x.dtype) + texts::add_columns_up};
  BufferPtr keep_w, keep_y, keep_col;
  const DType dtype = compute_dtype(x.dtype);
  const View windows = packed(gpu, w, keep_w, "conv_transpose");
  if (cudnn_table() && y.shape.numel() > 0 &&
      run_by_cudnn(gpu, ConvolutionResult::x, z.o, x, windows, dense_images(gpu, y, keep_y, "conv_transpose")))
    return;
  const View dense_y = packed(gpu, y, keep_y, "conv_transpose");
  const std::int64_t together = z.together(dtype);
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

void run_conv_weight_gradient(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &y = call.inputs[1], &w = call.outputs[0];
  if (w.shape.numel() == 0) return;
  const Sizes z(call.attrs, x, w, y);
  if (z.images == 0 || z.places() == 0)
    return gpu.clear(w.data, static_cast<std::size_t>(w.shape.numel()) * size_of(w.dtype));
  BufferPtr keep_x, keep_col, keep_y, keep_sums;
  if (cudnn_table() && x.shape.numel() > 0 &&
      run_by_cudnn(gpu, ConvolutionResult::w, z.o, dense_images(gpu, x, keep_x, "conv_weight_gradient"), w,
                   dense_images(gpu, y, keep_y, "conv_weight_gradient")))
    return;
  const std::int64_t together = z.together(x.dtype), groups = z.o.groups;
  const Shape matrices{groups, z.outputs, z.depth()};
  const bool in_parts = is_half(w.dtype) && together < z.images;  // sums are rounded once
  const View sums =
      in_parts ? workspace(gpu, DType::f32, matrices, keep_sums, "conv_weight_gradient") : reshaped(w, matrices);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n), length = count * z.places();
    const View col = workspace(gpu, x.dtype, Shape{groups, z.depth(), length}, keep_col, "conv_weight_gradient");
    make_columns(gpu, z, part_of(x, 0, n, count), col, true);
    // [n, g·k, p, q] -> [g·k, n, p, q]
    View turned = part_of(y, 0, n, count);
    turned.shape = Shape{y.shape[1], count, y.shape[2], y.shape[3]};
    std::swap(turned.strides[0], turned.strides[1]);
    const View g = packed(gpu, turned, keep_y, "conv_weight_gradient");
    multiply_floats(gpu, reshaped(g, Shape{groups, z.outputs, length}), transposed(col), sums, n > 0);
  }
  if (in_parts) convert_elements(gpu, w, sums);
}

void run_max_pool_index(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const MaxPoolCall o = options_as<MaxPoolCall>(call.attrs);
  launch_elements(gpu, {element_text(x.dtype) + texts::max_pool}, "largest", out.shape.numel(),
                  MaxPoolArgs<void>{.x = x.data,
                                    .out = elements<i64>(out),
                                    .n = out.shape.numel(),
                                    .channels = x.shape[1],
                                    .height = x.shape[2],
                                    .width = x.shape[3],
                                    .rows = out.shape[2],
                                    .columns = out.shape[3],
                                    .step_n = x.strides[0],
                                    .step_c = x.strides[1],
                                    .step_h = x.strides[2],
                                    .step_w = x.strides[3],
                                    .taps_h = o.window[0],
                                    .taps_w = o.window[1],
                                    .stride_h = o.conv.stride[0],
                                    .stride_w = o.conv.stride[1],
                                    .padding_h = o.conv.padding[0],
                                    .padding_w = o.conv.padding[1],
                                    .dilation_h = o.conv.dilation[0],
                                    .dilation_w = o.conv.dilation[1]});
}

}  // namespace ebb::cuda
