// SPDX-License-Identifier: MIT
// A network of two layers without autograd: every operation has its gradient rule as a public function, NAME_backward,
// and the chain rule means calling them in reverse order. mlp_autograd.cc does the same the short way.
#include "spiral.h"

using namespace ebb;

int main() {
  auto [x, y, w1, b1, w2, b2] = spiral::make();
  const int steps = 300;
  for (int step = 0; step <= steps; ++step) {
    // Forward.
    Tensor a1 = matmul(x, w1), z1 = a1 + b1, h = tanh(z1);
    Tensor a2 = matmul(h, w2), z2 = a2 + b2;
    Tensor loss = binary_cross_entropy_with_logits(z2, y);

    // Backward: the cotangent of each value from the cotangents of its users.
    Tensor g_z2 = binary_cross_entropy_with_logits_backward(ones({}), z2, y).input;
    auto [g_a2, g_b2] = add_backward(g_z2, a2, b2);
    auto [g_h, g_w2] = matmul_backward(g_a2, h, w2);
    Tensor g_z1 = tanh_backward(g_h, h);
    auto [g_a1, g_b1] = add_backward(g_z1, a1, b1);
    Tensor g_w1 = matmul_backward(g_a1, x, w1).second;

    w1 = w1 - g_w1, b1 = b1 - g_b1, w2 = w2 - g_w2, b2 = b2 - g_b2;
    eval({loss, w1, b1, w2, b2});
    if (!spiral::report(step, steps, loss)) return 1;
  }
}
