// SPDX-License-Identifier: MIT
#include "ebb/ops/image.h"

#include <algorithm>
#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/pool_parts.h"
#include "ops/shape_nodes.h"

namespace ebb {
namespace {

// ---- windows as columns ---------------------------------------------------------------------------------------------

// Where the windows of a padded plane begin and how far they reach.
struct Windows {
  std::int64_t padded[2], count[2];
};

Windows windows_of(const char* op, SizePair size, SizePair window, const UnfoldOptions& o) {
  Windows w{};
  for (int d : {0, 1}) {
    require(window[d] >= 1 && o.stride[d] >= 1 && o.dilation[d] >= 1 && o.padding[d] >= 0,
            "{}: window, stride and dilation must be positive and padding not negative, got {}, {}, {} and {}", op,
            window[d], o.stride[d], o.dilation[d], o.padding[d]);
    const std::int64_t reach = checked_sum(op, checked_product(op, o.dilation[d], window[d] - 1), 1);
    require(size[d] >= 0, "{}: a plane of [{}, {}] elements has a negative size", op, size[0], size[1]);
    w.padded[d] = checked_sum(op, size[d], checked_product(op, 2, o.padding[d]));
    require(w.padded[d] >= reach, "{}: a window of {} elements is larger than the padded input ({})", op, reach,
            w.padded[d]);
    w.count[d] = (w.padded[d] - reach) / o.stride[d] + 1;
  }
  for (const auto* pair : {w.padded, w.count}) checked_product(op, pair[0], pair[1]);
  return w;
}

// [kh, kw, windows down, windows across]: the position in the padded plane that each element of each window has.
Tensor positions(const Windows& w, SizePair window, const UnfoldOptions& o) {
  Tensor along[2];
  for (int d : {0, 1}) {
    const Tensor start = arange(w.count[d]) * o.stride[d], offset = arange(window[d]) * o.dilation[d];
    along[d] = d == 0 ? reshape(offset, {-1, 1, 1, 1}) + reshape(start, {1, 1, -1, 1})
                      : reshape(offset, {1, -1, 1, 1}) + reshape(start, {1, 1, 1, -1});
  }
  return along[0] * w.padded[1] + along[1];
}

PoolCall call_of_taps(SizePair window, const UnfoldOptions& o) {
  PoolCall call;
  call.each_tap = true;
  for (const int d : {0, 1}) {
    const auto k = static_cast<std::size_t>(d);
    call.window[k] = window[d];
    call.conv.stride[k] = o.stride[d];
    call.conv.padding[k] = o.padding[d];
    call.conv.dilation[k] = o.dilation[d];
  }
  return call;
}

}  // namespace

Tensor unfold(const Tensor& x, SizePair window, const UnfoldOptions& o) {
  if (x.rank() == 3) return select(unfold(unsqueeze(x, 0), window, o), 0, 0);
  require(x.rank() == 4, "unfold: needs [N, C, H, W] or [C, H, W], got shape {}", x.shape());
  const Windows w = windows_of("unfold", {x.shape()[2], x.shape()[3]}, window, o);
  const std::int64_t n = x.shape()[0], channels = x.shape()[1];
  const std::int64_t rows = checked_product("unfold", channels, checked_product("unfold", window[0], window[1]));
  checked_product("unfold", n, checked_product("unfold", rows, w.count[0] * w.count[1]));
  if (is_floating(x.dtype()))
    return reshape(window_sum_node(x, call_of_taps(window, o), {n, rows, w.count[0], w.count[1]}),
                   {n, rows, w.count[0] * w.count[1]});
  const Tensor padded = pad(x, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]});
  const Tensor plane = reshape(padded, {n, channels, w.padded[0] * w.padded[1]});
  const Tensor at = positions(w, window, o);
  return reshape(index_select(plane, 2, reshape(at, {at.numel()})), {n, rows, w.count[0] * w.count[1]});
}

Tensor fold(const Tensor& x, SizePair output, SizePair window, const UnfoldOptions& o) {
  if (x.rank() == 2) return select(fold(unsqueeze(x, 0), output, window, o), 0, 0);
  const Windows w = windows_of("fold", output, window, o);
  const std::int64_t taps = checked_product("fold", window[0], window[1]);
  require(x.rank() == 3 && x.shape()[1] % taps == 0 && x.shape()[2] == w.count[0] * w.count[1],
          "fold: needs [N, C·{}, {}], got shape {}", taps, w.count[0] * w.count[1], x.shape());
  const std::int64_t n = x.shape()[0], channels = x.shape()[1] / taps;
  if (o.stride == window && o.dilation == SizePair(1) && w.count[0] * window[0] == w.padded[0] &&
      w.count[1] * window[1] == w.padded[1]) {  // windows that lie side by side: elements only move
    const Tensor parts = reshape(x, {n, channels, window[0], window[1], w.count[0], w.count[1]});
    return pad(reshape(permute(parts, {0, 1, 4, 2, 5, 3}), {n, channels, w.padded[0], w.padded[1]}),
               {-o.padding[1], -o.padding[1], -o.padding[0], -o.padding[0]});
  }
  checked_product("fold", n, checked_product("fold", channels, checked_product("fold", output[0], output[1])));
  if (is_floating(x.dtype()))
    return window_spread_node(reshape(x, {n, channels * taps, w.count[0], w.count[1]}), call_of_taps(window, o),
                              {n, channels, output[0], output[1]}, x.dtype());
  const Tensor at = positions(w, window, o);
  const Tensor plane = index_add(zeros({n, channels, w.padded[0] * w.padded[1]}, x.dtype()), 2,
                                 reshape(at, {at.numel()}), reshape(x, {n, channels, at.numel()}));
  return pad(reshape(plane, {n, channels, w.padded[0], w.padded[1]}),
             {-o.padding[1], -o.padding[1], -o.padding[0], -o.padding[0]});
}

// ---- channels and pixels --------------------------------------------------------------------------------------------

namespace {

// The number of pictures [C, H, W]; -1 would be ambiguous if one is empty.
std::int64_t pictures_in(const Tensor& x) {
  std::int64_t count = 1;
  for (int d = 0; d < x.rank() - 3; ++d) count *= x.size(d);
  return count;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  const std::int64_t square = checked_product("pixel_shuffle", r, r);
  require(r >= 1 && x.rank() >= 3 && x.size(-3) % square == 0,
          "pixel_shuffle: {}² does not divide the channels of shape {}", r, x.shape());
  const std::int64_t c = x.size(-3) / square, h = x.size(-2), w = x.size(-1);
  const Tensor parts = permute(reshape(x, {pictures_in(x), c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  Shape shape = x.shape().with(x.rank() - 3, c);
  return reshape(parts, shape.with(x.rank() - 2, checked_product("pixel_shuffle", h, r))
                            .with(x.rank() - 1, checked_product("pixel_shuffle", w, r)));
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  require(r >= 1 && x.rank() >= 3 && x.size(-2) % r == 0 && x.size(-1) % r == 0,
          "pixel_unshuffle: {} does not divide the last two sizes of shape {}", r, x.shape());
  const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  const Tensor parts = permute(reshape(x, {pictures_in(x), c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  const std::int64_t channels = checked_product("pixel_unshuffle", c, checked_product("pixel_unshuffle", r, r));
  Shape shape = x.shape().with(x.rank() - 3, channels);
  return reshape(parts, shape.with(x.rank() - 2, h).with(x.rank() - 1, w));
}

// ---- dropout -----------------------------------------------------------------------------------------------------

Tensor dropout2d(const Tensor& x, double p, bool training) {
  require(p >= 0 && p <= 1, "dropout2d: p must be a probability in [0, 1], got {}", p);
  require(x.rank() >= 3, "dropout2d: needs [N, C, H, W] or [C, H, W], got shape {}", x.shape());
  if (!training || p == 0) return x;
  const Tensor v = as_real(x);
  std::vector<std::int64_t> channels(static_cast<std::size_t>(x.rank()), 1);
  for (int k = 0; k < std::max(1, x.rank() - 2); ++k) channels[static_cast<std::size_t>(k)] = x.shape()[k];
  return where(rand(channels) >= p, v * (p < 1 ? 1 / (1 - p) : 0.0), 0);
}

}  // namespace ebb
