// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cases/cases.h"
#include "ebb/backward/pool.h"
#include "ops/conv_nodes.h"

// Convolutions and pools against loops over every window.
namespace ebb::table {

namespace {

struct Window {
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
  ConvOptions options() const {
    ConvOptions o;
    o.stride = {stride[0], stride[1]};
    o.padding = {padding[0], padding[1]};
    o.dilation = {dilation[0], dilation[1]};
    o.groups = groups;
    return o;
  }
  std::int64_t outputs(std::int64_t size, std::int64_t window, int d) const {
    return (size + 2 * padding[d] - dilation[d] * (window - 1) - 1) / stride[d] + 1;
  }
};

// Calls body(x index, w index, y index) for every product of the sum Σ x·w·y.
template <class Body>
void each_product(const Window& o, const Index& x, const Index& w, const Index& y, Body body) {
  each_index({y[0], y[1], y[2], y[3], w[1], w[2], w[3]}, [&](const Index& i) {
    const std::int64_t group = i[1] / (w[0] / o.groups);
    const std::int64_t h = i[2] * o.stride[0] + i[5] * o.dilation[0] - o.padding[0];
    const std::int64_t v = i[3] * o.stride[1] + i[6] * o.dilation[1] - o.padding[1];
    if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) return;
    body({i[0], group * w[1] + i[4], h, v}, {i[1], i[4], i[5], i[6]}, {i[0], i[1], i[2], i[3]});
  });
}

}  // namespace

std::vector<Case> window_cases() {
  std::vector<Case> cases;
  struct Setting {
    const char* name;
    Window window;
    std::vector<std::vector<Index>> shapes;  // of x and w; the last set is the large one
  };
  const Setting settings[] = {
      {"plain",
       {},
       {{{1, 2, 4, 4}, {2, 2, 3, 2}},
        {{2, 1, 5, 7}, {3, 1, 2, 3}},
        {{2, 3, 9, 70}, {5, 3, 3, 3}},
        {{0, 2, 4, 4}, {2, 2, 3, 3}},
        {{3, 33, 5, 5}, {17, 33, 1, 1}},
        {{8, 16, 20, 30}, {20, 16, 3, 3}}}},
      {"strided",
       {{2, 3}, {1, 2}, {1, 1}, 1},
       {{{1, 2, 4, 4}, {1, 2, 3, 3}},
        {{2, 3, 11, 17}, {9, 3, 3, 5}},
        {{1, 1, 3, 2}, {2, 1, 1, 1}},
        {{2, 8, 40, 40}, {16, 8, 3, 3}}}},
      {"dilated",
       {{1, 2}, {2, 3}, {2, 3}, 1},
       {{{1, 2, 3, 4}, {2, 2, 2, 2}}, {{2, 3, 12, 13}, {4, 3, 3, 3}}, {{4, 8, 30, 30}, {8, 8, 3, 3}}}},
      {"grouped",
       {{1, 1}, {1, 1}, {1, 1}, 2},
       {{{1, 4, 3, 3}, {4, 2, 2, 2}}, {{3, 6, 7, 9}, {10, 3, 3, 3}}, {{4, 16, 30, 30}, {32, 8, 3, 3}}}},
      {"depthwise",
       {{2, 1}, {1, 1}, {1, 1}, 4},
       {{{1, 4, 3, 3}, {4, 1, 3, 2}},
        {{2, 4, 9, 33}, {8, 1, 3, 3}},
        {{2, 4, 5, 6}, {12, 1, 2, 2}},
        {{16, 4, 50, 50}, {4, 1, 3, 3}}}},
  };
  for (const Setting& s : settings) {
    const Window o = s.window;
    auto shapes = s.shapes;
    const auto outputs = [o](const Index& x, const Index& w) {
      return Index{x[0], w[0], o.outputs(x[2], w[2], 0), o.outputs(x[3], w[3], 1)};
    };
    Case c;
    c.sums_products = true;
    c.loose = 2;            // sums of tens of products, in another order than the formula's
    c.loose_gradient = 30;  // differences of long sums: their rounding, divided by the step
    c.inputs.resize(2);

    c.op = Op::convolution;
    c.name = std::string("convolution_") + s.name;
    c.large = shapes.back();
    c.shapes.assign(shapes.begin(), shapes.end() - 1);
    c.call = [o](const Tensors& x) { return conv2d(x[0], x[1], {}, o.options()); };
    c.reference = [o, outputs](const Arrays& a) {
      Array y(outputs(a[0].shape, a[1].shape));
      each_product(o, a[0].shape, a[1].shape, y.shape,
                   [&](const Index& i, const Index& j, const Index& k) { y.at(k) += a[0].at(i) * a[1].at(j); });
      return y;
    };
    cases.push_back(c);

    // The others take y instead of x, or of w; their results have the shape of the one replaced.
    const auto swapped = [&](int which) {
      const auto change = [&](const std::vector<Index>& set) {
        const Index y = outputs(set[0], set[1]);
        return which == 0 ? std::vector<Index>{y, set[1]} : std::vector<Index>{set[0], y};
      };
      c.large = change(shapes.back());
      c.shapes.clear();
      for (std::size_t i = 0; i + 1 < shapes.size(); ++i) c.shapes.push_back(change(shapes[i]));
    };
    // The size of x is not a function of y's: it is looked up among the shapes of the case.
    const auto partner = [shapes, outputs](const Index& a, const Index& b, int which) {
      for (const auto& set : shapes) {
        const Index y = outputs(set[0], set[1]);
        if (which == 0 ? a == y && b == set[1] : a == set[0] && b == y) return set[static_cast<std::size_t>(which)];
      }
      return Index{};
    };
    const auto sizes = [](const Tensor& t) { return Index(t.shape().begin(), t.shape().end()); };
    ConvCall call;
    call.stride = {o.stride[0], o.stride[1]};
    call.padding = {o.padding[0], o.padding[1]};
    call.dilation = {o.dilation[0], o.dilation[1]};
    call.groups = o.groups;

    c.op = Op::conv_transpose;
    c.name = std::string("conv_transpose_") + s.name;
    swapped(0);
    c.call = [=](const Tensors& x) {
      return conv_transpose_node(x[0], x[1], call, Shape(partner(sizes(x[0]), sizes(x[1]), 0)));
    };
    c.reference = [=](const Arrays& a) {
      Array x(partner(a[0].shape, a[1].shape, 0));
      each_product(o, x.shape, a[1].shape, a[0].shape,
                   [&](const Index& i, const Index& j, const Index& k) { x.at(i) += a[0].at(k) * a[1].at(j); });
      return x;
    };
    cases.push_back(c);

    c.op = Op::conv_weight_gradient;
    c.name = std::string("conv_weight_gradient_") + s.name;
    swapped(1);
    c.call = [=](const Tensors& x) {
      return conv_weight_gradient_node(x[0], x[1], call, Shape(partner(sizes(x[0]), sizes(x[1]), 1)));
    };
    c.reference = [=](const Arrays& a) {
      Array w(partner(a[0].shape, a[1].shape, 1));
      each_product(o, a[0].shape, w.shape, a[1].shape,
                   [&](const Index& i, const Index& j, const Index& k) { w.at(j) += a[0].at(i) * a[1].at(k); });
      return w;
    };
    cases.push_back(c);
  }

  // The position of the largest element of each window; the gradients below distinguish values.
  struct Pool {
    const char* name;
    std::int64_t window[2];
    MaxPoolOptions options;
  };
  MaxPoolOptions padded, dilated;
  padded.stride = SizePair(2, 1);
  padded.padding = {1, 0};
  padded.ceil_mode = true;
  dilated.stride = SizePair(1);
  dilated.dilation = {1, 2};
  for (const Pool& p : {Pool{"plain", {2, 2}, {}}, Pool{"padded", {3, 2}, padded}, Pool{"dilated", {2, 2}, dilated}}) {
    const auto find = [p](const Array& x, bool index) {
      const SizePair stride = p.options.stride.value_or(SizePair(p.window[0], p.window[1]));
      std::int64_t out[2];
      for (int d : {0, 1}) {
        const std::int64_t room = x.shape[static_cast<std::size_t>(d) + 2] + 2 * p.options.padding[d] -
                                  p.options.dilation[d] * (p.window[d] - 1) - 1;
        out[d] = (room + (p.options.ceil_mode ? stride[d] - 1 : 0)) / stride[d] + 1;
        const std::int64_t last = (out[d] - 1) * stride[d];
        if (last >= x.shape[static_cast<std::size_t>(d) + 2] + p.options.padding[d]) --out[d];
      }
      Array y({x.shape[0], x.shape[1], out[0], out[1]});
      each_index(y.shape, [&](const Index& i) {
        double best = -1e300, at = -1;
        for (std::int64_t r = 0; r < p.window[0]; ++r) {
          for (std::int64_t s = 0; s < p.window[1]; ++s) {
            const std::int64_t h = i[2] * stride[0] + r * p.options.dilation[0] - p.options.padding[0];
            const std::int64_t w = i[3] * stride[1] + s * p.options.dilation[1] - p.options.padding[1];
            if (h < 0 || h >= x.shape[2] || w < 0 || w >= x.shape[3]) continue;
            const double value = x.at({i[0], i[1], h, w});
            if (value > best) best = value, at = static_cast<double>(h * x.shape[3] + w);
          }
        }
        y.at(i) = index ? at : best;
      });
      return y;
    };
    Case c;
    c.inputs.resize(1);
    c.shapes = {{{1, 2, 4, 5}}, {{2, 1, 3, 3}}, {{3, 5, 9, 17}}, {{0, 2, 4, 4}}, {{2, 3, 33, 4}}};
    c.large = {{16, 8, 40, 40}};
    c.kink_at_ties = true;
    c.op = Op::max_pool_index;
    c.name = std::string("max_pool_index_") + p.name;
    c.call = [p](const Tensors& x) {
      return max_pool2d_with_indices(x[0], {p.window[0], p.window[1]}, p.options).second;
    };
    c.reference = [find](const Arrays& x) { return find(x[0], true); };
    cases.push_back(c);
    c.op = Op::gather;
    c.name = std::string("max_pool2d_") + p.name;
    c.call = [p](const Tensors& x) { return max_pool2d(x[0], {p.window[0], p.window[1]}, p.options); };
    c.reference = [find](const Arrays& x) { return find(x[0], false); };
    cases.push_back(c);
  }

  // Means of windows.
  for (const bool include : {true, false}) {
    AvgPoolOptions o;
    o.stride = SizePair(2, 1);
    o.padding = {1, 1};
    o.ceil_mode = true;
    o.count_include_pad = include;
    Case c;
    c.inputs.resize(1);
    c.shapes = {{{1, 2, 4, 4}}, {{2, 1, 3, 3}}, {{3, 5, 9, 17}}, {{0, 2, 4, 4}}};
    c.large = {{16, 8, 40, 40}};
    c.sums_products = true;
    c.loose = 2;            // as above
    c.loose_gradient = 10;  // as above
    c.op = Op::window_sum;
    c.name = include ? "avg_pool2d" : "avg_pool2d_of_what_exists";
    c.call = [o](const Tensors& x) { return avg_pool2d(x[0], {3, 2}, o); };
    c.reference = [include](const Arrays& a) {
      const Array& x = a[0];
      const std::int64_t height = x.shape[2], width = x.shape[3];
      std::int64_t rows = (height + 2 - 3 + 1) / 2 + 1;
      if ((rows - 1) * 2 >= height + 1) --rows;
      Array y({x.shape[0], x.shape[1], rows, width + 2 - 2 + 1});
      each_index(y.shape, [&](const Index& i) {
        double total = 0, count = 0;
        for (std::int64_t r = 0; r < 3; ++r) {
          for (std::int64_t s = 0; s < 2; ++s) {
            const std::int64_t h = i[2] * 2 + r - 1, w = i[3] + s - 1;
            const bool inside = h >= 0 && h < height && w >= 0 && w < width;
            if (inside) total += x.at({i[0], i[1], h, w});
            count += include ? h <= height && w <= width : inside;
          }
        }
        y.at(i) = total / count;
      });
      return y;
    };
    cases.push_back(c);
  }

  // Windows that cover an image, 3 along its height and 2 along its width.
  const auto covers = [](std::int64_t i, std::int64_t outputs, std::int64_t size, std::int64_t at) {
    return at >= i * size / outputs && at * outputs < (i + 1) * size;
  };
  // Calls body(place in the image, window, elements of it) for every element of every window.
  const auto each_element = [covers](const Index& image, auto body) {
    each_index({image[0], image[1], 3, 2, image[2], image[3]}, [&](const Index& i) {
      if (!covers(i[2], 3, image[2], i[4]) || !covers(i[3], 2, image[3], i[5])) return;
      double count[2] = {};
      for (std::int64_t h = 0; h < image[2]; ++h) count[0] += covers(i[2], 3, image[2], h);
      for (std::int64_t w = 0; w < image[3]; ++w) count[1] += covers(i[3], 2, image[3], w);
      body(Index{i[0], i[1], i[4], i[5]}, Index{i[0], i[1], i[2], i[3]}, count[0] * count[1]);
    });
  };
  Case c;
  c.inputs.resize(1);
  c.shapes = {{{1, 2, 4, 5}}, {{2, 1, 1, 1}}, {{3, 5, 9, 17}}, {{0, 2, 4, 4}}, {{2, 3, 33, 4}}, {{1, 2, 70, 65}}};
  c.large = {{16, 8, 40, 41}};
  c.sums_products = true;
  c.loose = 2;
  c.loose_gradient = 10;
  c.op = Op::window_sum;
  c.name = "adaptive_avg_pool2d";
  c.call = [](const Tensors& x) { return adaptive_avg_pool2d(x[0], {3, 2}); };
  c.reference = [each_element](const Arrays& x) {
    Array y({x[0].shape[0], x[0].shape[1], 3, 2});
    each_element(x[0].shape, [&](const Index& i, const Index& j, double count) { y.at(j) += x[0].at(i) / count; });
    return y;
  };
  cases.push_back(c);

  c.op = Op::window_spread;
  c.name = "adaptive_avg_pool2d_backward";
  c.shapes = {{{1, 2, 3, 2}}, {{2, 1, 3, 2}}, {{0, 2, 3, 2}}};
  c.large = {{64, 33, 3, 2}};
  c.call = [](const Tensors& x) { return adaptive_avg_pool2d_backward(x[0], {x[0].size(0), x[0].size(1), 7, 11}); };
  c.reference = [each_element](const Arrays& g) {
    Array x({g[0].shape[0], g[0].shape[1], 7, 11});
    each_element(x.shape, [&](const Index& i, const Index& j, double count) { x.at(i) += g[0].at(j) / count; });
    return x;
  };
  cases.push_back(c);

  c = {};
  c.inputs.resize(1);
  c.shapes = {{{1, 2, 4, 5}}, {{2, 1, 3, 3}}, {{3, 5, 9, 17}}, {{0, 2, 4, 4}}, {{2, 3, 33, 4}}};
  c.large = {{16, 8, 40, 40}};
  c.kink_at_ties = true;
  c.op = Op::max_pool_index;
  c.name = "adaptive_max_pool_index";
  c.call = [](const Tensors& x) { return adaptive_max_pool2d_with_indices(x[0], {3, 2}).second; };
  c.reference = [each_element](const Arrays& x) {
    Array best({x[0].shape[0], x[0].shape[1], 3, 2}), at(best.shape);
    each_index(best.shape, [&](const Index& i) { best.at(i) = -1e300; });
    each_element(x[0].shape, [&](const Index& i, const Index& j, double) {
      if (x[0].at(i) > best.at(j)) best.at(j) = x[0].at(i), at.at(j) = static_cast<double>(i[2] * x[0].shape[3] + i[3]);
    });
    return at;
  };
  cases.push_back(c);
  return cases;
}

}  // namespace ebb::table
