// Convolutions as products: the elements that windows look at are laid out as columns, some images at a time, so that
// memory stays bounded. Every sum has one order.
//   col[n, g, (c, r, s), (p, q)] = x[n, g·C/G + c, p·stride + r·dilation − padding, q·…], zero outside
//   convolution            y[n, g] = w[g]·col[n, g]
//   conv_transpose         col[n, g] = w[g]ᵀ·y[n, g], and each element of x adds up those that are it
//   conv_weight_gradient   dw[g] = Σ_n y[n, g]·col[n, g]ᵀ
// max_pool_index: a thread per window.
#include <algorithm>

#include "cuda/library/kernels.h"
#include "graph/conv_calls.h"

namespace ebb::cuda {
namespace {

constexpr std::int64_t kColumnBytes = std::int64_t{128} << 20;  // of columns at a time

struct Sizes {
  ConvCall o;
  std::int64_t images, channels, height, width, outputs, rows, columns, taps_h, taps_w;

  Sizes(const Attrs& attrs, const View& x, const View& w, const View& y)
      : o(ConvCall::from(attrs)),
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
  void add_to(Words& words) const {
    words.add(o.groups).add(channels).add(height).add(width).add(rows).add(columns).add(taps_h).add(taps_w);
    words.add(o.stride[0]).add(o.stride[1]).add(o.padding[0]).add(o.padding[1]).add(o.dilation[0]).add(o.dilation[1]);
  }
};
constexpr const char* kSizesText =
    "  i64 groups, channels, height, width, rows, columns, taps_h, taps_w;\n"
    "  i64 stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;\n";

// col[n, g, (c, r, s), (p, q)] of dense memory, or col[g, (c, r, s), n, (p, q)] where images are part of the sum.
void make_columns(Gpu& gpu, const Sizes& z, const View& x, const View& col, bool images_inside) {
  const std::string text = view_text() + bits_text(x.dtype) + "struct Args {\n  const T* x;\n  T* col;\n" +
                           "  i64 n, images, images_inside, step_n, step_c, step_h, step_w;\n" + kSizesText +
                           R"cuda(};
extern "C" __global__ void __launch_bounds__(256) lay_out(const Args a) {
  EACH(i, a.n) {
    i64 rest = quotient(i, a.columns);
    const i64 q = i - rest * a.columns;
    i64 next = quotient(rest, a.rows);
    const i64 p = rest - next * a.rows;
    rest = next;
    i64 image = 0;
    if (a.images_inside) {
      next = quotient(rest, a.images);
      image = rest - next * a.images;
      rest = next;
    }
    next = quotient(rest, a.taps_w);
    const i64 s = rest - next * a.taps_w;
    rest = next;
    next = quotient(rest, a.taps_h);
    const i64 r = rest - next * a.taps_h;
    rest = next;  // c, and the group outside of it
    const i64 all = a.groups * a.channels;
    if (!a.images_inside) {
      image = quotient(rest, all);
      rest -= image * all;
    }
    const i64 h = p * a.stride_h + r * a.dilation_h - a.padding_h, w = q * a.stride_w + s * a.dilation_w - a.padding_w;
    const bool inside = h >= 0 && h < a.height && w >= 0 && w < a.width;
    a.col[i] = inside ? a.x[image * a.step_n + rest * a.step_c + h * a.step_h + w * a.step_w] : (T)0;
  }
}
)cuda";
  Words words;
  words.add(x.data).add(col.data).add(col.shape.numel()).add(x.shape[0]).add(std::int64_t{images_inside});
  for (int d = 0; d < 4; ++d) words.add(x.strides[d]);
  z.add_to(words);
  launch_elements(gpu, text, "lay_out", col.shape.numel(), words);
}

// to[n, k, ..] = from[n, k, ..] + bias[k]; both dense, `from` in the compute dtype.
void add_bias(Gpu& gpu, const View& to, const View& from, const View& bias) {
  const std::string text = view_text() + element_text(to.dtype) + R"cuda(
struct Args { T* to; const A* from; const T* bias; i64 n, channels, inner, bias_step; };
extern "C" __global__ void __launch_bounds__(256) add_bias(const Args a) {
  EACH(i, a.n) {
    const i64 outer = quotient(i, a.inner), k = outer - quotient(outer, a.channels) * a.channels;
    a.to[i] = store(a.from[i] + load(a.bias[k * a.bias_step]));
  }
}
)cuda";
  Words words;
  words.add(to.data).add(from.data).add(bias.data).add(to.shape.numel()).add(to.shape[1]);
  words.add(to.shape[2] * to.shape[3]).add(bias.strides[0]);
  launch_elements(gpu, text, "add_bias", to.shape.numel(), words);
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

}  // namespace

void run_convolution(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &w = call.inputs[1], &y = call.outputs[0];
  if (y.shape.numel() == 0) return;
  const Sizes z(call.attrs, x, w, y);
  const bool bias = call.inputs.size() > 2;
  BufferPtr keep_w, keep_col, keep_sums;
  const View windows = packed(gpu, w, keep_w, "convolution");
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
  const std::string text = view_text() + element_text(x.dtype) + "struct Args {\n  T* x;\n  const A* col;\n  i64 n;\n" +
                           kSizesText + R"cuda(};
extern "C" __global__ void __launch_bounds__(256) add_up(const Args a) {
  EACH(i, a.n) {
    i64 rest = quotient(i, a.width);
    const i64 w = i - rest * a.width + a.padding_w;
    const i64 c = quotient(rest, a.height), h = rest - c * a.height + a.padding_h;  // c: image, group and channel
    A total = 0;
    for (i64 r = 0; r < a.taps_h; ++r) {
      const i64 down = h - r * a.dilation_h;
      if (down < 0) break;
      const i64 p = quotient(down, a.stride_h);
      if (p * a.stride_h != down || p >= a.rows) continue;
      for (i64 s = 0; s < a.taps_w; ++s) {
        const i64 across = w - s * a.dilation_w;
        if (across < 0) break;
        const i64 q = quotient(across, a.stride_w);
        if (q * a.stride_w != across || q >= a.columns) continue;
        total += a.col[(((c * a.taps_h + r) * a.taps_w + s) * a.rows + p) * a.columns + q];
      }
    }
    a.x[i] = store(total);
  }
}
)cuda";
  BufferPtr keep_w, keep_y, keep_col;
  const DType dtype = compute_dtype(x.dtype);
  const View windows = packed(gpu, w, keep_w, "conv_transpose"), dense_y = packed(gpu, y, keep_y, "conv_transpose");
  const std::int64_t together = z.together(dtype);
  for (std::int64_t n = 0; n < z.images; n += together) {
    const std::int64_t count = std::min(together, z.images - n);
    const View col = workspace(gpu, dtype, Shape{count, z.o.groups, z.depth(), z.places()}, keep_col, "conv_transpose");
    multiply_floats(gpu, transposed(window_matrices(windows, z, count)),
                    reshaped(part_of(dense_y, 0, n, count), Shape{count, z.o.groups, z.outputs, z.places()}), col);
    const View to = part_of(x, 0, n, count);
    Words words;
    words.add(to.data).add(col.data).add(to.shape.numel());
    z.add_to(words);
    launch_elements(gpu, text, "add_up", to.shape.numel(), words);
  }
}

void run_conv_weight_gradient(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &y = call.inputs[1], &w = call.outputs[0];
  if (w.shape.numel() == 0) return;
  const Sizes z(call.attrs, x, w, y);
  if (z.images == 0 || z.places() == 0)
    return gpu.clear(w.data, static_cast<std::size_t>(w.shape.numel()) * size_of(w.dtype));
  BufferPtr keep_col, keep_y, keep_sums;
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

// Where in its plane each window's first largest element lies; NaN is larger than any number.
void run_max_pool_index(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const MaxPoolCall o = MaxPoolCall::from(call.attrs);
  const std::string text = view_text() + element_text(x.dtype) + R"cuda(
struct Args {
  const T* x;
  i64* out;
  i64 n, channels, height, width, rows, columns, step_n, step_c, step_h, step_w;
  i64 taps_h, taps_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
};
extern "C" __global__ void __launch_bounds__(256) largest(const Args a) {
  EACH(i, a.n) {
    i64 rest = quotient(i, a.columns);
    const i64 left = (i - rest * a.columns) * a.stride_w - a.padding_w;
    i64 next = quotient(rest, a.rows);
    const i64 top = (rest - next * a.rows) * a.stride_h - a.padding_h;
    const i64 image = quotient(next, a.channels), channel = next - image * a.channels;
    const T* const plane = a.x + image * a.step_n + channel * a.step_c;
    i64 place = -1;
    A best = 0;
    for (i64 r = 0; r < a.taps_h; ++r) {
      const i64 h = top + r * a.dilation_h;
      if (h < 0 || h >= a.height) continue;
      for (i64 s = 0; s < a.taps_w; ++s) {
        const i64 w = left + s * a.dilation_w;
        if (w < 0 || w >= a.width) continue;
        const A y = load(plane[h * a.step_h + w * a.step_w]);
        if (place < 0 || (best == best && (y > best || y != y))) best = y, place = h * a.width + w;
      }
    }
    a.out[i] = place;
  }
}
)cuda";
  Words words;
  words.add(x.data).add(out.data).add(out.shape.numel()).add(x.shape[1]).add(x.shape[2]).add(x.shape[3]);
  words.add(out.shape[2]).add(out.shape[3]);
  for (int d = 0; d < 4; ++d) words.add(x.strides[d]);
  words.add(o.window[0]).add(o.window[1]).add(o.conv.stride[0]).add(o.conv.stride[1]).add(o.conv.padding[0]);
  words.add(o.conv.padding[1]).add(o.conv.dilation[0]).add(o.conv.dilation[1]);
  launch_elements(gpu, text, "largest", out.shape.numel(), words);
}

}  // namespace ebb::cuda
