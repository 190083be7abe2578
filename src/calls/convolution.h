// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/node.h"

// The three operations of a convolution of images x [N, C, H, W] with windows w [K, C/groups, R, S] into
// y [N, K, P, Q]:
//
//   y[n, k, p, q] = Σ_{c, r, s} x[n, c, p·stride + r·dilation − padding, q·… ] · w[k, c, r, s],   zeros outside
//
// convolution (x, w, bias?) -> y,  conv_transpose (y, w) -> x,  conv_weight_gradient (x, y) -> w. The sum
// Σ x·w·y is linear in each, so the gradient of each is given by the other two. The end of an axis follows from the
// shapes: padding counts the zeros before the first element; those after the last one may be fewer or more.
namespace ebb {

struct ConvCall {
  using Pair = std::array<std::int64_t, 2>;  // along H, along W
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool last = false;  // the result's channels are its last axis: [N, P, Q, K], [N, H, W, C] or [K, R, S, C/groups]

  static constexpr std::int64_t kMost =
      (std::int64_t{1} << 31) - 1;  // of each number: products of them must not overflow

  bool operator==(const ConvCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("stride", stride);
    visit("padding", padding);
    visit("dilation", dilation);
    visit("groups", groups);
    visit("last", last);
  }
  // A layout with channels last does not help windows of one channel.
  OptionsPtr channels_last() const {
    if (groups != 1 || last) return nullptr;
    ConvCall other = *this;
    other.last = true;
    return make_options(other);
  }
};

// max_pool_index (x [N, C, H, W]) -> i64 [N, C, P, Q]: position of each window's first largest element in its plane.
// window_sum (x) -> [N, C, P, Q] in the compute dtype, and its transpose window_spread, of any floating dtype; with
// each_tap they are unfold and fold.
// On GPUs, schedules also use window_spread (y [N, C, P, Q], places) -> [N, C, H, W], which adds y only at the places
// max_pool_index found; where images are stored channels-last, max_pool_index (x) -> [N, P, Q, C], and window_spread
// (y [N, P, Q, C], places) -> [N, H, W, C].
struct PoolCall {
  ConvCall conv;  // groups are ignored; summed windows have no dilation, unless each_tap
  ConvCall::Pair window{1, 1};
  bool each_tap = false;  // nothing is added: [N, C·taps, P, Q] are the windows' elements, in the dtype of x
  bool adaptive = false;  // window i of an axis is [⌊i·size/outputs⌋, ⌈(i + 1)·size/outputs⌉) instead

  bool operator==(const PoolCall&) const = default;
  // Windows that an element of such planes may be in, at most.
  std::int64_t most_windows(const std::array<std::int64_t, 2>& sizes,
                            const std::array<std::int64_t, 2>& outputs) const {
    std::int64_t most = 1;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t reach = conv.dilation[d] * (window[d] - 1) + 1, step = conv.stride[d];
      const std::int64_t each =
          adaptive ? outputs[d] / std::max<std::int64_t>(1, sizes[d]) + 2 : (reach - 1) / step + 1;
      most *= std::min(each, std::max<std::int64_t>(1, outputs[d]));
    }
    return most;
  }
  OptionsPtr channels_last() const {
    if (each_tap) return {};  // a channel's taps are channels of the result, in the usual order
    PoolCall other = *this;
    other.conv.last = true;
    return make_options(other);
  }
  template <class Visit>
  void each_field(Visit&& visit) const {
    conv.each_field(visit);
    visit("window", window);
    visit("each_tap", each_tap);
    visit("adaptive", adaptive);
  }
};

// Range of elements that a window of an axis covers, and of windows that cover an element; first to last, inclusive.
struct PoolAxis {
  std::int64_t size, outputs, window, stride, padding;
  bool adaptive;

  struct Range {
    std::int64_t first, last;
  };
  PoolAxis(const PoolCall& p, int axis, std::int64_t size, std::int64_t outputs)
      : size(size),
        outputs(outputs),
        window(p.window[static_cast<std::size_t>(axis)]),
        stride(p.conv.stride[static_cast<std::size_t>(axis)]),
        padding(p.conv.padding[static_cast<std::size_t>(axis)]),
        adaptive(p.adaptive) {}
  Range elements(std::int64_t i) const {
    if (adaptive) return {i * size / outputs, ((i + 1) * size + outputs - 1) / outputs - 1};
    const std::int64_t begin = i * stride - padding;
    return {begin > 0 ? begin : 0, (begin + window < size ? begin + window : size) - 1};
  }
};

}  // namespace ebb
