# SPDX-License-Identifier: MIT
"""A convolutional network on batches of a data loader, with dropout, tested on images it has not seen."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
from ebb.data import DataLoader, TensorDataset
ebb.manual_seed(0)


# A horizontal or a vertical bar in noise.
def images(n):
    y = ebb.randint(0, 2, (n,))
    at = ebb.randint(0, 8, (n,))
    bar = F.one_hot(at, 8).float()
    horizontal = bar[:, :, None].expand(n, 8, 8)
    vertical = bar[:, None, :].expand(n, 8, 8)
    x = ebb.where((y == 0)[:, None, None], horizontal, vertical) + 0.3 * ebb.randn(n, 8, 8)
    return x.unsqueeze(1), y

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 2 * 2, 2)
        self.dropout = nn.Dropout(0.1)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(self.dropout(x.flatten(1)))

train = DataLoader(TensorDataset(*images(256)), batch_size=32, shuffle=True)
test_x, test_y = images(128)
model = Net()
optimizer = ebb.optim.Adam(lr=3e-3)
for epoch in range(4):
    model.train()
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        optimizer.step(model, ebb.backward(loss))
model.eval()
accuracy = (model(test_x).argmax(1) == test_y).float().mean()
assert accuracy.item() > 0.9 and sum(p.numel() for p in model.parameters()) == 1378
