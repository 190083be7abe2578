# SPDX-License-Identifier: MIT
"""Logits of patched models that are looked at later, elsewhere or by others: as if they had been computed when they were made.

Run by run.py with pytest, in the Python that has PyTorch, transformers and PEFT.
"""

import gc
import weakref

import pytest
import torch
from patched_models import fused, make, require_same, tokens

import ebb.torch

F = torch.nn.functional


def outputs(model):
    return model(input_ids=tokens(), labels=tokens())


def test_a_look_without_gradients_leaves_them_their_gradients():
    def step(model):
        model.zero_grad()
        output = outputs(model)
        with torch.no_grad():
            right = output.logits.argmax(-1) == tokens()
        loss = output.loss + 1e-2 * output.logits.float().logsumexp(-1).square().mean() + 0 * right.sum()
        loss.backward()
        return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}

    model = make()
    expected = step(model)
    require_same(step(ebb.torch.patch(model)), expected)


def test_log_probabilities_keep_their_gradients_too():
    model = ebb.torch.patch(make())
    log_probs = model(input_ids=tokens(), num_items_in_batch=torch.tensor(1)).logits.log_softmax(-1)
    with torch.no_grad():
        log_probs.gather(-1, tokens()[..., None])
    assert log_probs.sum(-1).requires_grad and log_probs.exp().requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_logits_of_a_step_without_gradients_have_none(mode):
    model = make()
    with mode():
        expected = outputs(model)
    ebb.torch.patch(model)
    with mode():
        output = outputs(model)
    logits = output.logits
    assert not logits.requires_grad and torch.equal(logits.value(), expected.logits) and not logits.value().requires_grad
    if mode is torch.no_grad:
        loss = F.cross_entropy(logits.view(-1, 211), tokens().view(-1))
        assert not loss.requires_grad and not logits.log_softmax(-1).sum(-1).requires_grad
    made_of_them = outputs(model).logits
    with torch.no_grad():
        halves = made_of_them / 2
    assert made_of_them.requires_grad and not halves.requires_grad
    assert not F.cross_entropy(halves.view(-1, 211), tokens().view(-1)).requires_grad


def test_logits_have_autocasts_dtype_after_it():
    model = make()
    with torch.autocast("cpu", torch.bfloat16):
        expected = outputs(model).logits
    ebb.torch.patch(model)
    with torch.autocast("cpu", torch.bfloat16):
        output = outputs(model)
        loss = F.cross_entropy(output.logits.view(-1, 211), tokens().view(-1))
    assert loss.dtype == torch.float32
    assert output.logits.dtype == torch.bfloat16 and torch.equal(output.logits.value(), expected)


def test_a_step_leaves_nothing_behind():
    model = ebb.torch.patch(make())
    gc.collect()
    gc.disable()
    try:
        output = outputs(model)
        hidden = weakref.ref(output.logits.products[0].x)
        output.loss.backward()
        del output
        assert hidden() is None
    finally:
        gc.enable()


def test_a_second_resize_of_a_tied_head():
    model = ebb.torch.patch(make(tie_word_embeddings=True))
    plain = make(tie_word_embeddings=True)
    for size in (224, 256):
        losses = []
        for each in (model, plain):
            torch.manual_seed(1)
            each.resize_token_embeddings(size)
            each.zero_grad()
            output = outputs(each)
            output.loss.backward()
            losses.append(output.loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5) and model.lm_head.weight is model.model.embed_tokens.weight


CROSS_ENTROPIES = {
    "functional": lambda logits, labels: F.cross_entropy(logits, labels),
    "module": lambda logits, labels: torch.nn.CrossEntropyLoss(label_smoothing=0.1)(logits, labels),
    "ebb": lambda logits, labels: ebb.torch.cross_entropy(logits, labels, z_loss=1e-2),
    "ebb, capped": lambda logits, labels: ebb.torch.cross_entropy(logits, labels, softcap=2.0),
    "ebb, module": lambda logits, labels: ebb.torch.CrossEntropyLoss(label_smoothing=0.1)(logits, labels),
}


@pytest.mark.parametrize("family, options", [("Llama", {}), ("Gemma2", {"final_logit_softcapping": 3.0})])
@pytest.mark.parametrize("name", CROSS_ENTROPIES)
def test_cross_entropies_of_others_need_no_logits(name, family, options):
    """As Trainer's compute_loss_func computes them."""

    def step(model):
        model.zero_grad()
        logits = model(input_ids=tokens(), num_items_in_batch=torch.tensor(1)).logits[:, :-1]
        loss = CROSS_ENTROPIES[name](logits.reshape(-1, 211), tokens()[:, 1:].reshape(-1))
        loss.backward()
        return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}

    model = make(family, **options)
    expected = step(model)
    ebb.torch.patch(model)
    before = fused()
    require_same(step(model), expected, 2e-5)
    assert fused() == before + (0 if name == "ebb, capped" and options else 1)


@pytest.mark.parametrize("function", [F.cross_entropy, F.log_softmax, torch.tanh, torch.softmax])
def test_logits_may_be_named(function):
    """A function whose tensor is given by its name computes as with one by its place."""
    others = {F.cross_entropy: {"target": tokens().flatten()}, torch.tanh: {}}.get(function, {"dim": -1})
    model = make()
    expected = function(input=outputs(model).logits.flatten(0, 1), **others)
    ebb.torch.patch(model)
    found = function(input=outputs(model).logits.flatten(0, 1), **others)
    torch.testing.assert_close(found.value() if hasattr(found, "value") else found, expected, rtol=1e-5, atol=1e-5)


def test_other_losses_of_ebb_take_the_logits():
    model = make()
    target = torch.randn(3, 17, 211)
    expected = ebb.torch.mse_loss(outputs(model).logits, target)
    found = ebb.torch.mse_loss(outputs(ebb.torch.patch(model)).logits, target)
    assert torch.equal(found, expected)
