// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "ebb/ebb.h"

// A convolutional network with batch norms that reads digits: shared by conv_net.cc and conv_net_by_hand.cc, which only
// differ in how they get the gradients.
namespace conv_net {

using namespace ebb;

struct ConvNet {
  nn::Conv2d conv1{1, 8, 3, {.padding = 1, .bias = false}};  // the norm after it has a bias
  nn::BatchNorm norm1{8};
  nn::Conv2d conv2{8, 16, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm norm2{16};
  nn::Linear head{16 * 7 * 7, 10};

  // Not const: calling a batch norm in training updates its statistics.
  Tensor operator()(const Tensor& images) {
    Tensor h = max_pool2d(relu(norm1(conv1(images))), 2);
    h = max_pool2d(relu(norm2(conv2(h))), 2);
    return head(flatten(h, 1));
  }

  template <class V>
  void visit(V&& v) {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("head", head);
  }
};

inline Tensor pictures(const Digits& set) { return reshape(set.images, {-1, 1, 28, 28}); }

inline double accuracy(ConvNet net, const Digits& set) {  // a copy: the caller's stays in training mode
  set_training(net, false);
  return mean(cast(argmax(net(pictures(set)), 1) == set.labels, DType::f32)).item();
}

// Trains with the gradients of `step`, which is called as step(net, pictures, labels) and returns them with the loss.
template <class Step>
int train(const Step& step_of) {
  manual_seed(1);
  const Digits training = make_digits(2000, 1), test = make_digits(500, 2);
  ConvNet net;
  std::printf("%ld parameters\n", static_cast<long>(parameter_count(net)));

  constexpr int kEpochs = 3;
  DataLoader loader({pictures(training), training.labels}, {.batch_size = 50});
  const Schedule rate = cosine_schedule(0.03, {.steps = kEpochs * loader.batches()});
  Sgd sgd({.momentum = 0.9, .weight_decay = 1e-4, .decays = decay_matrices});
  std::int64_t step = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double sum = 0;
    for (const Batch& batch : loader) {
      sgd.set_lr(rate(step++));
      const auto [loss, gradients] = step_of(net, batch[0], batch[1]);
      sgd.step(net, gradients);
      sum += loss.item();
    }
    std::printf("epoch %d   training loss %.4f   test accuracy %5.1f %%\n", epoch,
                sum / static_cast<double>(loader.batches()), 100 * accuracy(net, test));
  }
  std::printf("running means of the first norm, after %ld batches: %s\n",
              static_cast<long>(net.norm1.num_batches_tracked.value.item<std::int64_t>()),
              net.norm1.running_mean.value.str().c_str());

  // Parameters and running statistics, by torch's names.
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("ebb_conv_net_" + std::to_string(getpid()) + ".safetensors");
  io::save_safetensors(file.string(), state_dict(net));
  ConvNet again;
  load_state_dict(again, io::load_safetensors(file.string()));
  std::filesystem::remove(file);

  const double before = accuracy(net, test), after = accuracy(again, test);
  std::printf("saved and read back: %.1f %%\n", 100 * after);
  return before > 0.93 && after == before ? 0 : 1;
}

}  // namespace conv_net
