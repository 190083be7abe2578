# SPDX-License-Identifier: MIT
"""ebb.torch.patch beside the unpatched model: PEFT's adapters.

Run by run.py with pytest, in the Python that has PyTorch, transformers and PEFT.
"""

import copy
import warnings

import pytest
import torch

import ebb.torch
from patched_models import ADAPTERS, adapted, fused, require_same, step, tokens


@pytest.mark.parametrize("order", ["before", "base", "whole"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_adapters_train_as_without_the_patch(kind, tied, order):
    without_logits, config = ADAPTERS[kind]
    expected = step(adapted(config(), tied))
    if not without_logits and order != "before":
        with pytest.raises(ValueError, match="the head of LlamaForCausalLM is a peft.*, an adapter that needs all logits"):
            adapted(config(), tied, order)
        return
    model = adapted(config(), tied, order)
    before = fused()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = step(model)
    require_same(found, expected)
    if without_logits:
        assert fused() == before + 1
    else:
        assert any("from all its logits" in str(w.message) for w in told)
    require_same(step(ebb.torch.unpatch(model)), expected)


def test_switched_and_merged_adapters_are_followed():
    model = adapted(ADAPTERS["lora with dropout"][1](), False, "before")
    plain = ebb.torch.unpatch(copy.deepcopy(model))

    def require_same_loss():
        losses = []
        for each in (model, plain):
            torch.manual_seed(2)  # of the dropout
            losses.append(each(input_ids=tokens(), labels=tokens()).loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    for change in ("merge_adapter", "unmerge_adapter"):
        getattr(model, change)(), getattr(plain, change)()
        require_same_loss()
    with model.disable_adapter(), plain.disable_adapter():
        require_same_loss()
