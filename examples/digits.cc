// SPDX-License-Identifier: MIT
// Trains a network of two layers to read digits, with only operations, autograd and four lines of SGD. The program `ebb
// train` adds layers, checkpoints and a report.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

using Weights = std::array<Tensor, 4>;  // w1, b1, w2, b2

Weights first_weights(std::int64_t pixels, std::int64_t hidden, std::int64_t classes) {
  // Deviations that keep the size of the signal the same from layer to layer (He).
  return {variable(randn({pixels, hidden}) * std::sqrt(2.0 / static_cast<double>(pixels))), variable(zeros({hidden})),
          variable(randn({hidden, classes}) * std::sqrt(2.0 / static_cast<double>(hidden))),
          variable(zeros({classes}))};
}

Tensor network(const Weights& p, const Tensor& images) {
  const auto& [w1, b1, w2, b2] = p;
  return matmul(relu(matmul(images, w1) + b1), w2) + b2;
}

double accuracy(const Weights& p, const Digits& set) {
  return mean(cast(argmax(network(p, set.images), 1) == set.labels, DType::f32)).item();
}

}  // namespace

int main() {
  const std::int64_t count = 4000, batch = 100, batches = count / batch;
  const int epochs = 6;
  manual_seed(1);
  const Digits train = make_digits(count, 1), test = make_digits(1000, 2);
  Weights p = first_weights(784, 64, 10), velocity;
  for (std::size_t k = 0; k < p.size(); ++k) velocity[k] = zeros(p[k].shape());

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Tensor order = argsort(rand({count}));  // a new shuffle
    double sum_of_losses = 0;
    for (std::int64_t b = 0; b < batches; ++b) {
      const Tensor rows = order.slice(0, b * batch, (b + 1) * batch);
      const Tensor images = index_select(train.images, 0, rows), labels = index_select(train.labels, 0, rows);

      const double done = (epoch - 1 + static_cast<double>(b) / static_cast<double>(batches)) / epochs;
      const double rate = 0.1 * 0.5 * (1 + std::cos(3.14159265 * done));  // a cosine from 0.1 down to 0
      const Tensor loss = cross_entropy(network(p, images), labels);
      const Gradients gradients = backward(loss);
      std::vector<Tensor> wanted{loss};
      for (std::size_t k = 0; k < p.size(); ++k) {
        velocity[k] = 0.9 * velocity[k] + gradients[p[k]];
        p[k] = variable(p[k] - rate * velocity[k]);
        wanted.insert(wanted.end(), {velocity[k], p[k]});
      }
      eval(wanted);  // the step's loss, gradients and new weights together
      sum_of_losses += loss.item();
    }
    std::printf("epoch %d/%d  training loss %.4f  test accuracy %.1f %%\n", epoch, epochs,
                sum_of_losses / static_cast<double>(batches), 100 * accuracy(p, test));
  }
  return accuracy(p, test) > 0.85 ? 0 : 1;
}
