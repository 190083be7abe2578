// SPDX-License-Identifier: MIT
#include <ebb/ebb.h>

#include <iostream>

using namespace ebb;

int main() {
  manual_seed(0);
  Tensor x = randn({200, 3});                            // 200 points
  Tensor y = matmul(x, tensor({2.0, -1.0, 0.5})) + 4.0;  // what we would like to find
  Tensor w = variable(zeros({3})), b = variable(tensor(0.0));

  for (int step = 0; step < 100; ++step) {
    Tensor loss = mse_loss(matmul(x, w) + b, y);
    Gradients g = backward(loss);  // a value: w and b have not changed
    w = variable(w - 0.1 * g[w]);
    b = variable(b - 0.1 * g[b]);
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss << "\n";
  }
  std::cout << "w = " << w << ", b = " << b << "\n";
  return allclose(w, tensor({2.0, -1.0, 0.5}), {.atol = 1e-3}) ? 0 : 1;
}
