# SPDX-License-Identifier: MIT
"""Linear regression by gradient descent, without a model or an optimiser."""

import ebb
ebb.manual_seed(0)
x = ebb.randn(200, 3)
true_w, true_b = ebb.tensor([1.5, -2.0, 0.5]), 0.7
y = x @ true_w + true_b + 0.01 * ebb.randn(200)
w = ebb.zeros(3, requires_grad=True)
b = ebb.zeros(1, requires_grad=True)

for step in range(200):
    loss = ((x @ w + b - y) ** 2).mean()
    grads = ebb.backward(loss)
    w, b = ebb.variable(w - 0.1 * grads[w]), ebb.variable(b - 0.1 * grads[b])
assert loss.item() < 1e-3 and ebb.allclose(w, true_w, atol=0.01) and abs(b.item() - true_b) < 0.01
