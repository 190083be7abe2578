// SPDX-License-Identifier: MIT
// The network of chained_backward.cc with the gradients left to autograd. It calls the same rules in the same order, so
// the numbers are the same.
#include "spiral.h"

using namespace ebb;

int main() {
  auto [x, y, w1, b1, w2, b2] = spiral::make();
  const int steps = 300;
  for (int step = 0; step <= steps; ++step) {
    for (Tensor* p : {&w1, &b1, &w2, &b2}) *p = variable(*p);
    Tensor h = tanh(matmul(x, w1) + b1);
    Tensor loss = binary_cross_entropy_with_logits(matmul(h, w2) + b2, y);

    Gradients g = backward(loss);
    for (Tensor* p : {&w1, &b1, &w2, &b2}) *p = *p - g[*p];
    eval({loss, w1, b1, w2, b2});
    if (!spiral::report(step, steps, loss)) return 1;
  }
}
