# SPDX-License-Identifier: MIT
"""A small U-Net that finds discs in noise: strided convolutions, transposed ones, skips, Dice and BCE."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)


def pictures(n, size=16):
    grid = ebb.stack(ebb.meshgrid(ebb.arange(size).float(), ebb.arange(size).float(), indexing="ij"))
    centre = 3 + ebb.rand(n, 2, 1, 1) * (size - 6)
    radius = 2 + 2 * ebb.rand(n, 1, 1)
    mask = (((grid[None] - centre) ** 2).sum(dim=1) < radius ** 2).float().unsqueeze(1)
    return mask + 0.5 * ebb.randn_like(mask), mask


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.down = conv(1, 8), conv(8, 16, stride=2)
        self.up = nn.ConvTranspose2d(16, 8, kernel_size=2, stride=2)
        self.leave = nn.Conv2d(16, 1, kernel_size=1)

    def forward(self, x):
        skip = self.enter(x)
        y = self.up(self.down(skip))
        return self.leave(ebb.cat([skip, y], dim=1))


def dice(logits, target, eps=1.0):
    p = ebb.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    return 1 - ((2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)).mean()


model = UNet()
optimizer = ebb.optim.Adam(lr=1e-2)
for step in range(90):
    x, y = pictures(16)
    logits = model(x)
    loss = F.binary_cross_entropy_with_logits(logits, y) + dice(logits, y)
    optimizer.step(model, ebb.backward(loss))
model.eval()
x, y = pictures(64)
predicted = model(x) > 0
truth = y.bool()
iou = (predicted & truth).sum() / (predicted | truth).sum()
assert iou.item() > 0.85, iou
