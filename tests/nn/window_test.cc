#include <gtest/gtest.h>

#include "ebb/nn/conv.h"
#include "ebb/nn/layers.h"
#include "ebb/nn/pool.h"
#include "ebb/nn/sequential.h"
#include "expect_error.h"
#include "golden_layers.h"

// Layers that look through windows.
namespace ebb {
namespace {

using namespace nn;
using testing::follow;
constexpr DType f64 = DType::f64;

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

TEST(Convolutions, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(Conv2d(4, 6, 3, {.groups = 4}), "Conv: 4 and 6 channels cannot be divided into 4 groups");
}

}  // namespace
}  // namespace ebb
