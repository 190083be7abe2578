// SPDX-License-Identifier: MIT
// conv_net.cc without autograd: calls the network's operations one by one, and then their gradient rules in reverse
// order. Prints the same text.
#include "conv_net.h"

using namespace ebb;

namespace {

// Convolution, norm, relu and pool, and the values their rules need afterwards.
struct Stage {
  Tensor x, convolved, rectified, indices, y;
  BatchNormResult norm;
};
constexpr BatchNormOptions kTraining{.training = true, .momentum = 0.1, .eps = 1e-5};

Stage forward(const nn::Conv2d& conv, nn::BatchNorm& norm, const Tensor& x) {
  Stage s{.x = x, .convolved = {}, .rectified = {}, .indices = {}, .y = {}, .norm = {}};
  s.convolved = conv2d(x, stop_gradient(conv.weight), {}, {.padding = 1});
  s.norm = batch_norm(s.convolved, norm.running_mean.value, norm.running_var.value, stop_gradient(norm.weight),
                      stop_gradient(norm.bias), kTraining);
  s.rectified = relu(s.norm.y);
  std::tie(s.y, s.indices) = max_pool2d_with_indices(s.rectified, 2);
  norm.running_mean.value = s.norm.running_mean;  // as the layer does when it is called
  norm.running_var.value = s.norm.running_var;
  norm.num_batches_tracked.value = norm.num_batches_tracked.value + 1;
  eval({norm.running_mean.value, norm.running_var.value, norm.num_batches_tracked.value});
  return s;
}

// The cotangents of the stage's weights and input, from its result's.
struct StageGradients {
  Tensor x, weight, norm_weight, norm_bias;
};
StageGradients backward(const nn::Conv2d& conv, const nn::BatchNorm& norm, const Stage& s, const Tensor& grad) {
  const Tensor g_rectified = max_pool2d_backward(grad, s.rectified.shape(), s.indices);
  const Tensor g_norm = relu_backward(g_rectified, s.norm.y);  // the operand, not the result
  const LayerNormGradients n = batch_norm_backward(g_norm, s.convolved, {}, {}, stop_gradient(norm.weight), kTraining);
  const ConvGradients c = conv2d_backward(n.input, s.x, stop_gradient(conv.weight), {.padding = 1});
  return {c.input, c.weight, n.weight, n.bias};
}

}  // namespace

int main() {
  return conv_net::train([](conv_net::ConvNet& net, const Tensor& images, const Tensor& labels) {
    const Stage first = forward(net.conv1, net.norm1, images), second = forward(net.conv2, net.norm2, first.y);
    const Tensor features = flatten(second.y, 1), weight = stop_gradient(net.head.weight);
    const Tensor logits = linear(features, weight, stop_gradient(net.head.bias));
    const Tensor loss = cross_entropy(logits, labels);

    const Tensor g_logits = cross_entropy_backward(ones({}), logits, labels).input;
    const auto [g_features, g_weight, g_bias] = linear_backward(g_logits, features, weight);
    const Tensor g_second = flatten_backward(g_features, second.y.shape());
    const StageGradients two = backward(net.conv2, net.norm2, second, g_second);
    const StageGradients one = backward(net.conv1, net.norm1, first, two.x);
    return std::pair{loss, Gradients({{net.conv1.weight, one.weight},
                                      {net.norm1.weight, one.norm_weight},
                                      {net.norm1.bias, one.norm_bias},
                                      {net.conv2.weight, two.weight},
                                      {net.norm2.weight, two.norm_weight},
                                      {net.norm2.bias, two.norm_bias},
                                      {net.head.weight, g_weight},
                                      {net.head.bias, g_bias}})};
  });
}
