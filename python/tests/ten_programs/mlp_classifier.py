# SPDX-License-Identifier: MIT
"""A multilayer perceptron that tells three spirals apart."""

import math
import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
n = 100
t = ebb.linspace(0, 1, n)
rows, labels = [], []
for c in range(3):
    angle = t * 4 + c * 2 * math.pi / 3 + 0.1 * ebb.randn(n)
    rows.append(ebb.stack([t * ebb.sin(angle), t * ebb.cos(angle)], dim=1))
    labels.append(ebb.full((n,), c, dtype=ebb.long))
x, y = ebb.cat(rows), ebb.cat(labels)
model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = ebb.optim.AdamW(lr=1e-2)
for epoch in range(100):
    loss = F.cross_entropy(model(x), y)
    optimizer.step(model, ebb.backward(loss))
accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
assert accuracy > 0.95
