# SPDX-License-Identifier: MIT
"""A decoder-only transformer with tied embeddings that learns to copy."""

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
ebb.manual_seed(0)
V, T, D = 11, 12, 32
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
    def forward(self, x):
        B, L, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(B, L, 4, D // 4).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, L, D))
        return x + self.mlp(self.ln2(x))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.head.weight = self.tok.weight  # tied
    def forward(self, idx):
        x = self.tok(idx) + self.pos(ebb.arange(idx.size(1)))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


# The second half repeats the first.
def batch(n):
    half = ebb.randint(0, V, (n, T // 2))
    return ebb.cat([half, half], dim=1)
model = GPT()
optimizer = ebb.optim.AdamW(lr=3e-3, weight_decay=0.01)
for step in range(150):
    z = batch(32)
    logits = model(z[:, :-1])
    loss = F.cross_entropy(logits[:, T // 2 - 1:].reshape(-1, V), z[:, T // 2:].reshape(-1))
    optimizer.step(model, ebb.backward(loss))
assert loss.item() < 0.8, loss
assert ebb.equal(model.head.weight, model.tok.weight) and len(model.parameters()) == len(model.state_dict()) - 1
