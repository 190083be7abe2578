// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/nn/conv.h"
#include "ebb/nn/layers.h"
#include "ebb/nn/pool.h"
#include "ebb/nn/sequential.h"
#include "expect_error.h"
#include "golden_layers.h"

// Layers with windows.
namespace ebb {
namespace {

using namespace nn;
using testing::f64;
using testing::follow;

TEST(Convolutions, GiveTheGoldenValues) {
  follow("conv2d", Conv2d(4, 6, {3, 2}, {.stride = 2, .padding = 1, .groups = 2, .dtype = f64}), {2, 4, 5, 6});
  follow("conv2d_same", Conv2d(2, 3, 3, {.padding = kSame, .dilation = 2, .bias = false, .dtype = f64}), {1, 2, 5, 5});
  follow("conv1d", Conv1d(3, 4, 3, {.stride = 2, .padding = 1, .dtype = f64}), {2, 3, 7});
  follow("conv_transpose2d",
         ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2, .dtype = f64}),
         {2, 4, 3, 3});
  follow("conv_transpose1d", ConvTranspose1d(3, 2, 4, {.stride = 2, .dtype = f64}), {2, 3, 5});
}

TEST(Pools, StandBetweenLayers) {
  Sequential net{Conv2d(1, 2, 3, {.padding = 1}), MaxPool2d{2}, AvgPool2d{2}, GlobalAvgPool{}, Flatten{}, Linear(2, 5)};
  EXPECT_EQ(net(ones({3, 1, 8, 8})).shape(), (Shape{3, 5}));
  EXPECT_EQ(parameters(net)[2].name, "5.weight");
}

TEST(Pools, AdaptToAnyNumberOfWindows) {
  follow("adaptive_max_pool2d", AdaptiveMaxPool2d{{3, 4}}, {2, 3, 7, 6});
  follow("adaptive_max_pool1d", AdaptiveMaxPool1d{4}, {2, 3, 10});
  follow("adaptive_avg_pool2d", AdaptiveAvgPool2d{{3, 4}}, {2, 3, 7, 6});
  const Tensor x = testing::waves({2, 3, 6, 4}, 1);
  EXPECT_TRUE(allclose(AdaptiveMaxPool2d{{3, 2}}(x), max_pool2d(x, 2)));
  EXPECT_TRUE(allclose(AdaptiveMaxPool2d{1}(x), global_max_pool(x)));
  EXPECT_EQ(adaptive_max_pool2d(x, SizePair(9, 5)).shape(), (Shape{2, 3, 9, 5}));  // more windows than lines
  EXPECT_EQ(AdaptiveMaxPool1d{4}(zeros({0, 3, 10})).shape(), (Shape{0, 3, 4}));
  EXPECT_THROW_MESSAGE(adaptive_max_pool2d(x, 0),
                       "adaptive_max_pool2d: cannot make 0 outputs of an axis of 6, for shape [2, 3, 6, 4]");
  // Only the first of equal elements gets the gradient.
  const Tensor flat = variable(ones({1, 1, 5}, f64));
  EXPECT_EQ(backward(sum(adaptive_max_pool1d(flat, 2)))[flat].to_vector(), (std::vector<double>{1, 0, 1, 0, 0}));
}

TEST(Convolutions, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(Conv2d(4, 6, 3, {.groups = 4}), "Conv: 4 and 6 channels cannot be divided into 4 groups");
}

}  // namespace
}  // namespace ebb
