#pragma once
#include <algorithm>

#include "ops/conv_nodes.h"
#include "table/cases.h"

// Convolutions against loops over every window.
namespace ebb::table {

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

// body(x index, w index, y index) for every product of the sum Σ x·w·y.
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

inline std::vector<Case> window_cases() {
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
    c.loose = 100;  // long sums that nearly cancel
    c.loose_gradient = 30;
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

    // The others take y instead of x, or of w; what they give has the shape that was left out.
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
  return cases;
}

}  // namespace ebb::table
