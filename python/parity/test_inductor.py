# SPDX-License-Identifier: MIT
"""Patched models and linear heads compiled by torch.compile as it comes, with inductor's machine code, beside the unpatched model.

Run by run.py with pytest, in the Python that has PyTorch and transformers, and a C++ compiler.
"""

import pytest
import torch
from patched_models import make, require_same, step, tokens
from torch._dynamo.utils import counters

import ebb.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def own_names(found):
    return found[0], {name.removeprefix("_orig_mod."): gradient for name, gradient in found[1].items()}


def test_twenty_lengths_compile_at_most_twice():
    plain, model = make(num_hidden_layers=1), make(num_hidden_layers=1)
    run = torch.compile(ebb.torch.patch(model), fullgraph=True)
    for length in range(5, 25):
        require_same(own_names(step(run, tokens(3, length))), step(plain, tokens(3, length)))
    assert counters["stats"]["unique_graphs"] <= 2


def test_a_region_with_more_than_the_loss():
    """What is around the operation is fused with nothing of it, and its gradients are scaled once."""
    x, head, bias = (torch.randn(*shape).requires_grad_() for shape in ((9, 6), (11, 6), (11,)))
    target = torch.randint(0, 11, (9,))

    def ours(x, head, bias):
        p, entropy = ebb.torch.linear_log_probs(x.tanh(), head * 2, target, bias=bias.exp(), outputs=("log_probs", "entropy"))
        loss = ebb.torch.linear_cross_entropy(x.tanh(), head * 2, target, bias.exp(), label_smoothing=0.1)
        return 3 * loss - (p * entropy).mean() + ebb.torch.huber_loss(x, x.detach() + 1)

    def theirs(x, head, bias):
        log_p = torch.nn.functional.linear(x.tanh(), head * 2, bias.exp()).log_softmax(-1)
        p, entropy = log_p.gather(-1, target[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)
        loss = torch.nn.functional.cross_entropy(log_p, target, label_smoothing=0.1)
        return 3 * loss - (p * entropy).mean() + torch.nn.functional.huber_loss(x, x.detach() + 1)

    found = torch.compile(ours, fullgraph=True)(x, head, bias)
    expected = theirs(x, head, bias)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for mine, other in zip(torch.autograd.grad(found, (x, head, bias)), torch.autograd.grad(expected, (x, head, bias))):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
