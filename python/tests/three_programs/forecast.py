# SPDX-License-Identifier: MIT
"""A GRU forecasts a series: windows by unfold, a warm-up and a cosine, early stopping, the best weights."""

import math

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
from ebb.data import DataLoader, TensorDataset
ebb.manual_seed(0)

t = ebb.arange(600).float()
series = ebb.sin(t / 7) + 0.5 * ebb.cos(t / 3) + 0.05 * ebb.randn(600)
series = (series - series.mean()) / series.std()
windows = series.unfold(0, 25, 1)
x, y = windows[:, :24].unsqueeze(-1), windows[:, 24]
n = 450
train, held_out = TensorDataset(x[:n], y[:n]), (x[n:], y[n:])


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.gru = nn.GRU(input_size=1, hidden_size=hidden, num_layers=1, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, h = self.gru(x)
        return self.head(self.drop(out[:, -1])).squeeze(-1)


model = Forecaster()
epochs, batches = 15, math.ceil(n / 32)
schedule = ebb.optim.warm_up(ebb.optim.cosine_schedule(1e-2, steps=epochs * batches), 20)
optimizer = ebb.optim.AdamW(lr=1e-2)
best, best_state, patience, step = float("inf"), None, 0, 0
for epoch in range(epochs):
    model.train()
    for xb, yb in DataLoader(train, batch_size=32, shuffle=True):
        loss = F.smooth_l1_loss(model(xb), yb)
        grads, norm = ebb.optim.clip_by_norm(ebb.backward(loss), 1.0)
        optimizer.lr = schedule(step)
        optimizer.step(model, grads)
        step += 1
    model.eval()
    validation = F.mse_loss(model(held_out[0]), held_out[1]).item()
    if validation < best:
        best, best_state, patience = validation, model.state_dict(), 0
    else:
        patience += 1
        if patience == 4:
            break
model.load_state_dict(best_state)
model.eval()
assert abs(F.mse_loss(model(held_out[0]), held_out[1]).item() - best) < 1e-6
naive = F.mse_loss(held_out[0][:, -1, 0], held_out[1]).item()
assert best < 0.3 * naive, (best, naive)
