# SPDX-License-Identifier: MIT
"""A run that is saved and goes on in another process as if it had not stopped."""

import os
import tempfile
import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
x, y = ebb.randn(64, 8), ebb.randn(64, 1)
def make():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)), ebb.optim.AdamW(lr=1e-2)
def train(model, opt, steps):
    for _ in range(steps):
        loss = F.mse_loss(model(x), y)
        opt.step(model, ebb.backward(loss))
    return loss.item()
model, opt = make()
train(model, opt, 5)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint")
    ebb.io.save_checkpoint(path, ebb.io.Checkpoint(model.state_dict(), opt.state()))
    expected = train(model, opt, 5)
    checkpoint = ebb.io.load_checkpoint(path)
model2, opt2 = make()
model2.load_state_dict(checkpoint.parameters)
opt2.load_state(checkpoint.optimizer)
assert train(model2, opt2, 5) == expected
