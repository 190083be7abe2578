# SPDX-License-Identifier: MIT
"""Logistic regression by Newton's method, with a Hessian."""

import ebb
ebb.manual_seed(0)
x = ebb.randn(100, 3, dtype=ebb.float64)
y = (x @ ebb.tensor([1.0, -2.0, 0.5], dtype=ebb.float64) + 0.5 * ebb.randn(100, dtype=ebb.float64) > 0).double()
def loss(w):
    return ebb.nn.functional.binary_cross_entropy_with_logits(x @ w, y) + 0.01 * (w * w).sum()
w = ebb.zeros(3, dtype=ebb.float64)
for _ in range(8):
    g, H = ebb.grad(loss)(w), ebb.hessian(loss, w)
    w = w - ebb.linalg.solve(H, g)
assert ebb.grad(loss)(w).abs().max().item() < 1e-12
