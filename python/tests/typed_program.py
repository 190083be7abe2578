# SPDX-License-Identifier: MIT
"""A program with types, which test_types.py gives to mypy: what people write, checked strictly."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
from ebb.data import DataLoader


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2)
        self.scale = nn.Parameter(ebb.ones(1))

    def forward(self, x: ebb.Tensor) -> ebb.Tensor:
        hidden: ebb.Tensor = F.relu(self.first(x)) * self.scale
        return self.second(hidden)


def train(steps: int) -> float:
    model, optimizer = Net(8), ebb.optim.AdamW(lr=1e-3, betas=(0.9, 0.99))
    x: ebb.Tensor = ebb.randn((16, 4), dtype=ebb.float)
    y = (x.sum(dim=1) > 0).long()
    loss = ebb.cross_entropy(model(x), y, label_smoothing=0.1)
    for a, b in DataLoader([x, y], 8, shuffle=False):
        loss = ebb.cross_entropy(model(a), b)
        optimizer.step(model, ebb.backward(loss))
    rows: int = x.size(0)
    shape: tuple[int, ...] = x.shape
    top, places = ebb.topk(x, 2, dim=1)
    mean: ebb.Tensor = x.mean(dim=0, keepdim=True) @ x.T[:, :3] + top.max() + rows + places[0, 0]
    gradient = ebb.grad(lambda w: (w**2).sum())(mean)
    q = ebb.linalg.qr(x)
    grid = ebb.meshgrid(ebb.arange(3), ebb.arange(len(shape)), indexing="ij")
    print(q, grid, gradient, ebb.mse_loss(x, x, reduction="sum"), nn.CrossEntropyLoss(label_smoothing=0.1)(model(x), y))
    return float(loss)


if __name__ == "__main__":
    train(3)
