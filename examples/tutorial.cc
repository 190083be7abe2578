// SPDX-License-Identifier: MIT
// The program of docs/tutorial.md, section by section.
#include <cmath>
#include <iostream>

#include "ebb/ebb.h"

using namespace ebb;

int main() {
  manual_seed(0);

  // 1. Tensors
  Tensor a = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  Tensor c = 2.0 * a + tensor({10.0, 20.0, 30.0});
  std::cout << c << "\n" << c.shape() << " " << c.dtype() << "\n";
  std::cout << c.mean(0) << " " << c.max().item() << "\n";
  std::cout << a[1] << " " << a.slice(1, 0, 2) << "\n";
  std::cout << a.softmax() << "\n";

  // 2. Gradients
  Tensor x = variable(tensor({1.0, 2.0, 3.0}));
  Tensor y = x.square().sum();
  Gradients g = backward(y);
  std::cout << y << " " << g[x] << "\n";

  // 3. Data: 2000 drawn digits to learn from, 500 to be tested with
  Digits train = make_digits(2000, 1), test = make_digits(500, 2);
  std::cout << train.images.shape() << " " << train.labels.slice(0, 0, 8) << "\n";

  // 4. A model is a function of its parameters
  Tensor w1 = variable(randn({784, 64}) * std::sqrt(2.0 / 784)), b1 = variable(zeros({64}));
  Tensor w2 = variable(randn({64, 10}) * std::sqrt(2.0 / 64)), b2 = variable(zeros({10}));
  auto model = [&](const Tensor& images) { return matmul(relu(matmul(images, w1) + b1), w2) + b2; };
  auto accuracy = [&](const Digits& d) { return (model(d.images).argmax(1) == d.labels).to(DType::f32).mean().item(); };
  std::cout << "before: " << accuracy(test) << "\n";

  // 5. Training
  for (int epoch = 1; epoch <= 5; ++epoch) {
    Tensor order = argsort(rand({2000}));
    double total = 0;
    for (int batch = 0; batch < 40; ++batch) {
      Tensor rows = order.slice(0, 50 * batch, 50 * (batch + 1));
      Tensor images = train.images.index_select(0, rows), labels = train.labels.index_select(0, rows);
      Tensor loss = cross_entropy(model(images), labels);
      Gradients grads = backward(loss);
      for (Tensor* p : {&w1, &b1, &w2, &b2}) *p = variable(*p - 0.2 * grads[*p]);
      eval({loss, w1, b1, w2, b2});
      total += loss.item();
    }
    std::cout << "epoch " << epoch << "  loss " << total / 40 << "  accuracy " << accuracy(test) << "\n";
  }
  return accuracy(test) > 0.8 ? 0 : 1;
}
