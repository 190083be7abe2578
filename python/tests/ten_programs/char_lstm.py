# SPDX-License-Identifier: MIT
"""An LSTM that learns a sentence by its characters and writes it."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog. " * 8
chars = sorted(set(text))
index = {c: i for i, c in enumerate(chars)}
data = ebb.tensor([index[c] for c in text])

class CharModel(nn.Module):
    def __init__(self, vocabulary, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.lstm = nn.LSTM(16, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)
    def forward(self, x, state=None):
        h, state = self.lstm(self.embed(x), state)
        return self.head(h), state

model = CharModel(len(chars))
optimizer = ebb.optim.Adam(lr=1e-2)
x, y = data[: 45 * 7].view(7, 45), data[1 : 45 * 7 + 1].view(7, 45)
for step in range(60):
    logits, _ = model(x)
    loss = F.cross_entropy(logits.view(-1, len(chars)), y.view(-1))
    grads = ebb.backward(loss)
    grads, norm = ebb.optim.clip_by_norm(grads, 1.0)
    optimizer.step(model, grads)
token, state, out = ebb.tensor([[index["t"]]]), None, "t"
for _ in range(20):
    logits, state = model(token, state)
    token = logits[:, -1].argmax(-1, keepdim=True)
    out += chars[token.item()]
assert out == "the quick brown fox j"
