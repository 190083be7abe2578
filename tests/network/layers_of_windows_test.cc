// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/ebb.h"
#include "ebb/gradcheck.h"
#include "expect_error.h"
#include "network/compare.h"

// Properties of convolutions and pools that the op table does not cover: one axis, names of paddings, bias, errors.
namespace ebb {
namespace {

using testing::expect_close;
using testing::values;

TEST(Convolution, OfOneAxisIsThatOfTwoWithOneRow) {
  const Tensor x = values({2, 4, 11}, 1), w = values({6, 2, 3}, 2), b = values({6}, 3);
  ConvOptions o;
  o.stride = 2, o.padding = 1, o.dilation = 2, o.groups = 2;
  ConvOptions o2 = o;
  o2.stride = {1, 2}, o2.padding = Padding(0, 1), o2.dilation = {1, 2};
  expect_close(conv1d(x, w, b, o), squeeze(conv2d(unsqueeze(x, 2), unsqueeze(w, 2), b, o2), 2));
  expect_close(conv1d(select(x, 0, 1), w, b, o), select(conv1d(x, w, b, o), 0, 1));
}

TEST(Convolution, BiasIsAddedOnceAndSummedBack) {
  const Tensor x = values({2, 3, 5, 4}, 1), w = values({7, 3, 3, 3}, 2), b = values({7}, 3);
  expect_close(conv2d(x, w, b), conv2d(x, w) + reshape(b, {7, 1, 1}));
  const GradcheckReport report =
      check_gradients(FunctionOfMany([](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2]); }),
                      {narrow(x, 0, 0, 1), narrow(w, 0, 0, 2), narrow(b, 0, 0, 2)});
  EXPECT_TRUE(report.passed()) << report;
}

TEST(Convolution, SameKeepsTheSizeAndValidPadsNothing) {
  const Tensor x = values({1, 2, 6, 7}, 1), w = values({3, 2, 2, 3}, 2);
  ConvOptions same, valid, plain;
  same.padding = kSame, valid.padding = kValid;
  // An even window takes its extra zero after the last row.
  expect_close(conv2d(x, w, {}, same), conv2d(pad(x, {1, 1, 0, 1}), w));
  expect_close(conv2d(x, w, {}, valid), conv2d(x, w));
  same.stride = 2;
  EXPECT_THROW_MESSAGE(conv2d(x, w, {}, same), "padding \"same\" has no meaning with a stride of [2, 2]");
}

TEST(ConvTranspose, IsTheGradientOfAConvolution) {
  const Tensor x = values({2, 4, 5, 6}, 1), w = values({4, 3, 3, 3}, 2), b = values({6}, 3);
  ConvTransposeOptions o;
  o.stride = {2, 3}, o.padding = 1, o.output_padding = {1, 2}, o.groups = 2;
  const Tensor y = conv_transpose2d(x, w, b, o);
  EXPECT_EQ(y.shape(), (Shape{2, 6, 10, 18}));
  ConvOptions forward;
  forward.stride = {2, 3}, forward.padding = 1, forward.groups = 2;
  const Tensor g = grad(Function([&](const Tensor& image) { return sum(conv2d(image, w, {}, forward) * x); }))(
      zeros({2, 6, 10, 18}, DType::f64));
  expect_close(y, g + reshape(b, {6, 1, 1}));
  ConvTransposeOptions one;
  one.stride = 2, one.padding = 1, one.output_padding = 1;
  EXPECT_EQ(conv_transpose1d(values({1, 2, 5}, 4), values({2, 3, 3}, 5), {}, one).shape(), (Shape{1, 3, 10}));
}

TEST(Convolution, BackwardByHandIsTheBackwardPass) {
  const Tensor x = variable(values({2, 4, 6, 5}, 1)), w = variable(values({6, 2, 3, 3}, 2));
  ConvOptions o;
  o.stride = 2, o.padding = 1, o.groups = 2;
  const Tensor y = conv2d(x, w, {}, o), g = values(y.shape(), 3);
  BackwardOptions options;
  options.grad = g;
  const Gradients all = backward(y, options);
  const ConvGradients by_hand = conv2d_backward(g, x, w, o);
  expect_close(by_hand.input, all[x]);
  expect_close(by_hand.weight, all[w]);
  expect_close(by_hand.bias, sum(g, {0, 2, 3}));
}

TEST(Convolution, ErrorsNameOperationAndShapes) {
  const Tensor x = zeros({1, 3, 4, 4});
  EXPECT_THROW_MESSAGE(conv2d(x, zeros({2, 4, 3, 3})),
                       "conv2d: an input of shape [1, 3, 4, 4] with 1 groups needs 3 channels along axis 1 of the "
                       "weight, whose shape is [2, 4, 3, 3]");
  EXPECT_THROW_MESSAGE(conv2d(x, zeros({2, 3, 5, 5})),
                       "conv2d: a window of 5 elements is larger than the padded input");
  EXPECT_THROW_MESSAGE(conv2d(x, zeros({2, 3, 3, 3}), zeros({3})), "conv2d: bias of shape [3] does not fit 2 output");
  EXPECT_THROW_MESSAGE(conv1d(x, zeros({2, 3, 3})), "conv1d: needs an input [N, C, L]");
  ConvTransposeOptions o;
  o.output_padding = 1;
  EXPECT_THROW_MESSAGE(conv_transpose2d(x, zeros({3, 2, 3, 3}), {}, o), "output_padding must be less than stride");
  EXPECT_THROW_MESSAGE(max_pool2d(x, 5), "max_pool2d: a window of 5 elements is larger");
  MaxPoolOptions far;
  far.padding = 2;
  EXPECT_THROW_MESSAGE(max_pool2d(x, 3, far), "padding must be between 0 and half the window of 3, got 2");
}

// No images, no channels, no outputs: nothing is computed, or sums of nothing.
TEST(Convolution, OfNothing) {
  struct Case {
    Shape x, weight, y;
  };
  for (const Case& c :
       {Case{{0, 2, 5, 5}, {4, 2, 3, 3}, {0, 4, 3, 3}}, Case{{2, 2, 5, 5}, {0, 2, 3, 3}, {2, 0, 3, 3}},
        Case{{2, 0, 5, 5}, {4, 0, 3, 3}, {2, 4, 3, 3}}, Case{{2, 0, 5, 5}, {0, 0, 3, 3}, {2, 0, 3, 3}}}) {
    const Tensor x = variable(zeros(c.x)), w = variable(zeros(c.weight)), y = conv2d(x, w);
    EXPECT_EQ(y.shape(), c.y);
    for (const float v : y.to_vector<float>()) EXPECT_EQ(v, 0);
    const Gradients g = backward(sum(y));
    EXPECT_EQ(g[x].eval().shape(), c.x);
    EXPECT_EQ(g[w].eval().shape(), c.weight);
    for (const float v : g[w].to_vector<float>()) EXPECT_EQ(v, 0);
  }
}
TEST(Pools, OfNothing) {
  for (const Shape& shape : {Shape{2, 0, 6, 6}, Shape{0, 2, 6, 6}, Shape{0, 0, 6, 6}}) {
    const Shape pooled{shape[0], shape[1], 2, 2};
    const Tensor x = variable(zeros(shape));
    for (const Tensor& y : {avg_pool2d(x, 3), max_pool2d(x, 3), adaptive_avg_pool2d(x, 2)}) {
      EXPECT_EQ(y.eval().shape(), pooled);
      EXPECT_EQ(backward(sum(y))[x].eval().shape(), shape);
    }
  }
}

TEST(Pools, TheFirstOfEqualElementsGetsTheGradient) {
  const Tensor x = variable(ones({1, 1, 2, 4}));
  EXPECT_EQ(backward(sum(max_pool2d(x, 2)))[x].to_vector(), (std::vector<double>{1, 0, 1, 0, 0, 0, 0, 0}));
  const auto [y, at] = max_pool1d_with_indices(from_data(std::vector<double>{1, 5, 5, 2}, {1, 1, 4}), 4);
  EXPECT_EQ(at.item<std::int64_t>(), 1);
  EXPECT_EQ(y.item(), 5);
}

// The first largest element of the window at (r, c) of a plane, by definition; NaN is the largest.
std::int64_t largest_in_window(const double* x, std::int64_t height, std::int64_t width, std::int64_t r, std::int64_t c,
                               std::int64_t window, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < window * window; ++i) {
    const std::int64_t h = r * stride - padding + i / window * dilation;
    const std::int64_t w = c * stride - padding + i % window * dilation, at = h * width + w;
    if (h < 0 || h >= height || w < 0 || w >= width) continue;
    if (best < 0 || x[at] > x[best] || (std::isnan(x[at]) && !std::isnan(x[best]))) best = at;
  }
  return best;
}

// Numbers of a few sizes, so that many are equal, with NaN and infinities among them.
TEST(Pools, FindTheFirstLargestElementOfEveryWindow) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const double numbers[] = {-infinity, -infinity, 1, 2, 2, -3, nan, infinity};
  const std::int64_t height = 7;
  struct Case {
    std::int64_t window, stride, padding, dilation;
  };
  for (const std::int64_t width : {4, 19, 70}) {
    for (const unsigned kinds : {2u, 6u, 8u}) {  // all infinite; without NaN; all
      std::vector<double> x(static_cast<std::size_t>(height * width));
      std::uint32_t state = 1;
      for (double& v : x) v = numbers[((state = state * 1664525u + 1013904223u) >> 24) % kinds];
      const Tensor image = from_data(x, {1, 1, height, width});
      for (const Case& w : {Case{2, 2, 0, 1}, Case{3, 1, 1, 1}, Case{3, 2, 1, 1}, Case{2, 3, 1, 1}, Case{2, 1, 0, 2},
                            Case{2, 2, 1, 2}, Case{1, 2, 0, 1}}) {
        for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
          MaxPoolOptions o;
          o.stride = w.stride, o.padding = w.padding, o.dilation = w.dilation;
          const Tensor at = max_pool2d_with_indices(cast(image, dtype), w.window, o).second;
          const std::vector<double> found = cast(at, DType::f64).to_vector();
          for (std::int64_t i = 0; i < at.numel(); ++i) {
            const std::int64_t r = i / at.size(3), c = i % at.size(3);
            ASSERT_EQ(found[static_cast<std::size_t>(i)],
                      static_cast<double>(
                          largest_in_window(x.data(), height, width, r, c, w.window, w.stride, w.padding, w.dilation)))
                << "width " << width << ", window " << w.window << ", stride " << w.stride << ", padding " << w.padding
                << ", dilation " << w.dilation << " at " << r << ", " << c;
          }
        }
      }
    }
  }
}

TEST(Pools, AdaptiveWindowsAreTheirMeans) {
  const Tensor x = values({2, 3, 5, 7}, 1), y = adaptive_avg_pool2d(x, {2, 3});
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const std::int64_t h0 = i * 5 / 2, h1 = ((i + 1) * 5 + 1) / 2, w0 = j * 7 / 3, w1 = ((j + 1) * 7 + 2) / 3;
      const Tensor want = mean(narrow(narrow(x, 2, h0, h1 - h0), 3, w0, w1 - w0), {2, 3});
      expect_close(select(select(y, 3, j), 2, i), want);
    }
  }
  expect_close(adaptive_avg_pool2d(x, {5, 1}), mean(x, 3, true));
  expect_close(adaptive_avg_pool1d(select(x, 2, 0), 7), select(x, 2, 0));
  expect_close(global_avg_pool(x), mean(x, {2, 3}, true));
  expect_close(global_max_pool(x), max(x, {2, 3}, true));
  const GradcheckReport report = check_gradients(FunctionOfMany([](const std::vector<Tensor>& in) {
                                                   return adaptive_avg_pool2d(in[0], {2, 3});
                                                 }),
                                                 {narrow(narrow(x, 0, 0, 1), 1, 0, 1)});
  EXPECT_TRUE(report.passed()) << report;
}

TEST(Pools, BackwardByHandIsTheBackwardPass) {
  const Tensor x = variable(values({2, 3, 7, 6}, 1));
  AvgPoolOptions o;
  o.padding = 1, o.stride = SizePair(2), o.count_include_pad = false;
  const auto by_pass = [&](const Tensor& y, const Tensor& g) {
    BackwardOptions options;
    options.grad = g;
    return backward(y, options)[x];
  };
  Tensor y = avg_pool2d(x, 3, o), g = values(y.shape(), 2);
  expect_close(avg_pool2d_backward(g, x.shape(), 3, o), by_pass(y, g));
  const auto [values_of, at] = max_pool2d_with_indices(x, 3);
  g = values(values_of.shape(), 3);
  expect_close(max_pool2d_backward(g, x.shape(), at), by_pass(values_of, g));
  y = adaptive_avg_pool2d(x, {3, 4}), g = values(y.shape(), 4);
  expect_close(adaptive_avg_pool2d_backward(g, x.shape()), by_pass(y, g));
}

}  // namespace
}  // namespace ebb
