# SPDX-License-Identifier: MIT
# %% [markdown]
# # An Ebb loss in a PyTorch loop
# One import line changes; the model, the optimiser and the loop stay PyTorch's. Value and gradient come out of one sweep.

# %%
import time

import torch
import torch.nn.functional as F

import ebb.torch

torch.manual_seed(0)
words, width, tokens = 8000, 64, 512  # a language model's last layer, made small
model = torch.nn.Sequential(torch.nn.Embedding(words, width), torch.nn.Linear(width, width), torch.nn.GELU())
head = torch.nn.Linear(width, words, bias=False)
text = torch.randint(0, words, (2, tokens))
x, target = text[0], text[1]


# %% Three ways to the same loss. The last one never holds the logits.
def with_pytorch():
    return F.cross_entropy(head(model(x)), target, label_smoothing=0.1)


def with_ebb():
    return ebb.torch.cross_entropy(head(model(x)), target, label_smoothing=0.1)


def without_logits():
    return ebb.torch.linear_cross_entropy(model(x), head.weight, target, label_smoothing=0.1)


# %% The same numbers, the same gradients
gradients = {}
for way in (with_pytorch, with_ebb, without_logits):
    head.weight.grad = None
    loss = way()
    start = time.perf_counter()
    loss = way()
    loss.backward()
    seconds = time.perf_counter() - start
    gradients[way] = head.weight.grad.clone()
    print(f"{way.__name__:15} loss {loss.item():.6f}  {1e3 * seconds:6.1f} ms")
for way in (with_ebb, without_logits):
    assert torch.allclose(gradients[way], gradients[with_pytorch], atol=1e-6)

# %% Training goes as ever
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=3e-3)
for step in range(20):
    optimizer.zero_grad()
    loss = without_logits()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1:3}  loss {loss.item():.4f}")

# %% Losses that PyTorch has not, and gradients of gradients
focal = ebb.torch.sigmoid_focal_loss(torch.randn(4, 3, requires_grad=True), torch.rand(4, 3).round(), gamma=1.5)
z = torch.randn(5, requires_grad=True)
(penalty,) = torch.autograd.grad(ebb.torch.log_cosh_loss(z, torch.zeros(5)), z, create_graph=True)
penalty.pow(2).sum().backward()
print(f"focal {focal.item():.4f}, gradient penalty reaches z: {bool((z.grad != 0).all())}")
