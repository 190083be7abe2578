// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "first_values.h"
#include "golden_numbers.h"

// A convolutional network with batch norms in f32, from the same initial values on the same pictures, learns as in
// PyTorch, and has the same running statistics.
namespace ebb {
namespace {

struct ConvNet {
  nn::Conv2d conv1{1, 8, 3, {.padding = 1}};
  nn::BatchNorm norm1{8};
  nn::Conv2d conv2{8, 16, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm norm2{16};
  nn::Linear head{16, 4};
  template <class V>
  void visit(V&& v) {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("head", head);
  }
  Tensor operator()(const Tensor& x) {
    const Tensor h = max_pool2d(relu(norm1(conv1(x))), 2);
    return head(mean(relu(norm2(conv2(h))), {2, 3}));
  }
};

TEST(ConvNetCurve, IsPyTorchs) {
  const auto expected = testing::golden("nn/golden/curves.txt").at("conv_net_sgd");
  ASSERT_EQ(expected.at(0).size(), 100u);
  const Tensor waves = testing::formula({32, 1, 8, 8}, 0.5, 0, 1), numbers = arange(32);
  const Tensor labels = remainder(numbers * 7 + floor_divide(numbers, 5), 4).eval();
  const Tensor weight = reshape(cast(labels, DType::f32), {32, 1, 1, 1}) * 0.5;
  const Tensor pictures = (waves + weight * roll(waves, 1, 3)).eval();

  ConvNet net = testing::with_first_values(ConvNet{});
  Sgd sgd({.lr = 0.05, .momentum = 0.9});
  for (std::size_t t = 0; t < expected[0].size(); ++t) {
    const Tensor loss = cross_entropy(net(pictures), labels);
    sgd.step(net, backward(loss));
    ASSERT_NEAR(loss.item(), expected[0][t], 1e-4 * expected[0][t]) << "step " << t;
  }

  set_training(net, false);
  EXPECT_NEAR(cross_entropy(net(pictures), labels).item(), expected.at(1).at(0), 1e-4 * expected[1][0]);
  std::size_t k = 0;
  for (const nn::BatchNorm* norm : {&net.norm1, &net.norm2}) {
    for (const nn::Buffer* buffer : {&norm->running_mean, &norm->running_var}) {
      for (double now : buffer->value.to_vector()) {
        EXPECT_NEAR(now, expected.at(2).at(k), 1e-4 * std::max(0.1, std::abs(now))) << "statistic " << k;
        ++k;
      }
    }
  }
  EXPECT_EQ(k, expected[2].size());
}

}  // namespace
}  // namespace ebb
