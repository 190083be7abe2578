// SPDX-License-Identifier: MIT
// ResNet-50 (He et al., 2016): bottlenecks of three convolutions, each with a batch norm, and a shortcut around them.
// Without arguments a narrow one learns eight random pictures on the CPU; `resnet50 --device cuda --batch 256 --bf16`
// trains the one of 25.6 million parameters at 224 × 224 pixels and prints images per second and memory.
//
//     resnet50 [--device cuda] [--bf16] [--batch N] [--steps N] [--side N] [--width N] [--classes N] [--time]
#include "training_program.h"

using namespace ebb;

namespace {

struct ConvNorm {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1)
      : conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}), norm(out) {
    conv.weight = variable(nn::kaiming_normal(conv.weight.shape(), {.fan = nn::Fan::out}));
  }
  Tensor operator()(const Tensor& x) { return norm(conv(x)); }
  template <class V>
  void visit(V&& v) {
    v("conv", conv);
    v("norm", norm);
  }
};

// relu(x + norm(conv1x1(relu(norm(conv3x3(relu(norm(conv1x1(x)))))))); where the size changes x goes through a
// convolution.
struct Bottleneck {
  ConvNorm first, second, third;
  std::optional<ConvNorm> shortcut;
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : first(in, width, 1), second(width, width, 3, stride), third(width, 4 * width, 1) {
    if (stride != 1 || in != 4 * width) shortcut.emplace(in, 4 * width, 1, stride);
  }
  Tensor operator()(const Tensor& x) {
    const Tensor h = third(relu(second(relu(first(x)))));
    return relu(h + (shortcut ? (*shortcut)(x) : x));
  }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("third", third);
    v("shortcut", shortcut);
  }
};

struct ResNet50 {
  ConvNorm stem;
  std::vector<Bottleneck> blocks;
  nn::Linear head;
  ResNet50(std::int64_t width, std::int64_t classes) : stem(3, width, 7, 2), head(32 * width, classes) {
    std::int64_t in = width;
    for (const auto& [count, factor] : {std::pair{3, 1}, {4, 2}, {6, 4}, {3, 8}}) {
      for (int k = 0; k < count; ++k) {
        blocks.emplace_back(in, factor * width, k == 0 && factor > 1 ? 2 : 1);
        in = 4 * factor * width;
      }
    }
  }
  Tensor operator()(const Tensor& pictures) {
    Tensor h = max_pool2d(relu(stem(pictures)), 3, {.stride = 2, .padding = 1});
    for (Bottleneck& block : blocks) h = block(h);
    return head(flatten(global_avg_pool(h), 1));
  }
  template <class V>
  void visit(V&& v) {
    v("stem", stem);
    v("blocks", blocks);
    v("head", head);
  }
};

}  // namespace

int main(int count, char** arguments) {
  const training_program::Options o(count, arguments);
  manual_seed(1);
  const std::int64_t classes = o.number("--classes", 1000, 10);
  ResNet50 net(o.number("--width", 64, 4), classes);
  Sgd sgd({.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4, .decays = decay_matrices});
  return training_program::train_pictures(net, sgd, o, o.number("--side", 224, 32), classes,
                                          o.number("--batch", 256, 8), o.number("--steps", 40, 8));
}
