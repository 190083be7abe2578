# SPDX-License-Identifier: MIT
"""GPT-2 in PyTorch as nanoGPT writes it: the network of examples/gpt2.cc with the same parameters."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(h.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    """`head` is a loss of hidden states, the head and labels; without one the logits are made, as in nanoGPT."""

    def __init__(self, vocabulary, context, width, heads, layers, head=None):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), head

    def forward(self, x, labels):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        if self.head:
            return self.head(h.flatten(0, 1), self.tokens.weight, labels.flatten())
        return F.cross_entropy(F.linear(h, self.tokens.weight).flatten(0, 1), labels.flatten())


def training_step(model, x, labels, kind, compile_mode=None):
    """bf16 computes (autocast), f32 weights are updated by the fused AdamW after clipping. compile_mode None: eager."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=6e-4, betas=(0.9, 0.95), fused=True)
    forward = model if compile_mode is None else torch.compile(model, mode=compile_mode)

    def step():
        with torch.autocast(kind, dtype=torch.bfloat16):
            loss = forward(x, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def matrix_products(vocabulary, width, layers, tokens, device):
    """The products of a step and nothing else: for each layer and the head its value and both gradients, by cuBLAS."""
    made = lambda *shape: torch.randn(shape, device=device, dtype=torch.bfloat16) * 0.02
    sizes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    factors = {(k, n): (made(tokens, k), made(n, k), made(tokens, n)) for k, n in [*sizes, (width, vocabulary)]}
    results = {size: tuple(map(torch.empty_like, f)) for size, f in factors.items()}

    def multiply(size):
        (x, w, dy), (dx, dw, y) = factors[size], results[size]
        torch.mm(x, w.t(), out=y)
        torch.mm(dy, w, out=dx)
        torch.mm(dy.t(), x, out=dw)
        return y

    def step():
        for size in sizes * layers:
            multiply(size)
        return multiply((width, vocabulary))[0, 0]

    return step


def attentions(width, heads, layers, batch, context, device):
    """The attention of a step and its gradients, by PyTorch's fastest."""
    q, k, v, dy = (torch.randn(batch, heads, context, width // heads, device=device, dtype=torch.bfloat16) for _ in range(4))
    factors = [t.requires_grad_() for t in (q, k, v)]

    def step():
        for _ in range(layers):
            torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), factors, dy)

    return step
