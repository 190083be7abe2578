# SPDX-License-Identifier: MIT
"""Losses of f16 whose gradients are too small or too large for f16 until they are multiplied by what comes behind the loss: the scale
of a GradScaler, one over the number of tokens.

Run by run.py with pytest, in the Python that has PyTorch and transformers.
"""

import pytest
import torch
from patched_models import fused, make, tokens

import ebb.torch
from ebb.torch._losses import wide_cross_entropy, wide_linear_cross_entropy

ROWS, WIDTH, CLASSES = 4096, 16, 50


def operands():
    generator = torch.Generator().manual_seed(3)
    x, head = (torch.randn(n, WIDTH, generator=generator).half() for n in (ROWS, CLASSES))
    return x, head * 0.01, torch.randint(0, 3, (ROWS,), generator=generator)


# Each: (loss of x and head, the same of f64 by PyTorch).
def linear(x, head, target, reduction):
    return wide_linear_cross_entropy(x, head, target, reduction=reduction)


def by_formula(x, head, target, reduction):
    return ebb.torch.linear_loss(x, head, target, lambda log_probs: -log_probs, reduction=reduction)


def from_log_probs(x, head, target, reduction):
    return getattr(-ebb.torch.linear_log_probs(x, head, target), reduction)()


def of_logits(x, head, target, reduction):
    return wide_cross_entropy(x @ head.T, target, reduction=reduction)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("reduction, factor", [("mean", 4096.0), ("sum", 1 / ROWS)])
@pytest.mark.parametrize("loss", [linear, by_formula, from_log_probs, of_logits])
def test_gradients_are_rounded_with_their_factor(loss, reduction, factor, compiled):
    x, head, target = operands()
    x = x.abs() * 100 if reduction == "sum" else x  # whose sums over all rows f16 does not have
    wide = [t.double().requires_grad_() for t in (x, head)]
    logits = wide[0] @ wide[1].T
    expected = torch.autograd.grad(factor * torch.nn.functional.cross_entropy(logits, target, reduction=reduction), wide)
    given = [t.clone().requires_grad_() for t in (x, head)]
    torch._dynamo.reset()
    function = torch.compile(loss, backend="aot_eager") if compiled else loss
    scaled = factor * function(*given, target, reduction)
    found = torch.autograd.grad(scaled, given, retain_graph=True)
    for mine, other in zip(found, expected):
        assert (mine.double() - other).abs().max() <= 2e-3 * other.abs().max() + 2**-25
    for mine, again in zip(found, torch.autograd.grad(scaled, given)):
        assert torch.equal(mine, again)


def test_a_patched_model_trains_with_a_scaler():
    def scaled_step(model):
        ids = tokens(8, 40)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
        with torch.autocast("cpu", torch.float16):
            loss = model(input_ids=ids, labels=ids, num_items_in_batch=torch.tensor(8 * 39)).loss
        model.zero_grad()
        scaler.scale(loss * 1e-5).backward()  # as small as that of a long batch
        return {name: p.grad / 2.0**14 * 1e5 for name, p in model.named_parameters()}

    model, plain, ids = make(), make(), tokens(8, 40)
    plain(input_ids=ids, labels=ids, num_items_in_batch=torch.tensor(8 * 39)).loss.backward()
    theirs = scaled_step(model)
    ebb.torch.patch(model)
    before = fused()
    ours = scaled_step(model)
    assert fused() == before + 1
    for name, p in plain.named_parameters():
        off = [(found[name] - p.grad).abs().max().item() for found in (ours, theirs)]
        assert off[0] <= 1.5 * off[1] + 1e-3 * p.grad.abs().max().item(), name
