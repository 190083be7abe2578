# SPDX-License-Identifier: MIT
"""A new head on a frozen backbone."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
x, y = ebb.randn(128, 10), ebb.randint(0, 3, (128,))
backbone = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
head = nn.Linear(32, 3)
model = nn.Sequential(backbone, head)
optimizer = ebb.optim.SGD(lr=0.1, momentum=0.9)
before = [p.clone() for p in backbone.parameters()]
for _ in range(20):
    loss = F.cross_entropy(model(x), y)
    optimizer.step(head, ebb.backward(loss))  # the backbone is not given to it
assert loss.item() < 1.1 and all(ebb.equal(a, b) for a, b in zip(before, backbone.parameters()))
