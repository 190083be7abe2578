# SPDX-License-Identifier: MIT
"""Small models and one training step of them, for the tests of ebb.torch.patch: plain, patched, with adapters."""

import warnings

import peft
import pytest
import torch
import transformers

import ebb.torch
from ebb.torch._deferred import here

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 211,
    "max_position_embeddings": 64,
    "head_dim": 8,
}


def make(family="Llama", **options):
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **options})
    if getattr(config, "pad_token_id", None) is not None:
        config.pad_token_id = 0
    model = getattr(transformers, f"{family}ForCausalLM")(config).train()
    with torch.no_grad():  # logits that differ, so that losses do
        for p in model.parameters():
            p.mul_(3)
    return model


def tokens(rows=3, length=17):
    return torch.randint(1, 200, (rows, length), generator=torch.Generator().manual_seed(5))


def step(model, ids=None, **kwargs):
    """(loss, gradients by name) of a batch."""
    ids = tokens() if ids is None else ids
    labels = ids.clone()
    labels[0, :5] = -100
    model.zero_grad()
    torch.manual_seed(11)
    output = model(input_ids=ids, labels=labels, **kwargs)
    loss = output[0] if isinstance(output, tuple) else output.loss
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def require_same(found, expected, tolerance=1e-5):
    assert found[0] == pytest.approx(expected[0], rel=tolerance)
    assert found[1].keys() == expected[1].keys() and found[1]
    for name, gradient in expected[1].items():
        scale = max(gradient.abs().max().item(), 1e-3)
        assert (found[1][name] - gradient).abs().max().item() <= tolerance * scale, name


def fused():
    return getattr(here, "fused", 0)


def require_fused(model, expected, **kwargs):
    """The step is the expected one, and its logits were not computed."""
    before = fused()
    found = step(model, **kwargs)
    assert fused() == before + 1
    require_same(found, expected)


LORA = {"r": 4, "lora_alpha": 16, "task_type": "CAUSAL_LM"}
ADAPTERS = {
    "lora": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "v_proj"], **LORA)),
    "lora on the head": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], lora_bias=True, **LORA)),
    "lora with dropout": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], lora_dropout=0.3, **LORA)),
    "dora on the head": (False, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], use_dora=True, **LORA)),
    "modules to save": (True, lambda: peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"], **LORA)),
    "trainable tokens": (True, lambda: peft.TrainableTokensConfig(token_indices=[3, 9], task_type="CAUSAL_LM")),
    "prompt tuning": (True, lambda: peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
    "prefix tuning": (True, lambda: peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
    "oft on the head": (True, lambda: peft.OFTConfig(target_modules=["q_proj", "lm_head"], oft_block_size=8, task_type="CAUSAL_LM")),
    "c3a on the head": (False, lambda: peft.C3AConfig(target_modules=["lm_head"], block_size=1, task_type="CAUSAL_LM")),
    "ia3 before the head": (
        True,
        lambda: peft.IA3Config(target_modules=["lm_head"], feedforward_modules=["lm_head"], task_type="CAUSAL_LM"),
    ),
    "ia3 on the head": (
        False,
        lambda: peft.IA3Config(target_modules=["k_proj", "lm_head"], feedforward_modules=[], task_type="CAUSAL_LM"),
    ),
}


def adapted(config, tied, patched=None):
    model = make(tie_word_embeddings=tied)
    if patched == "before":
        ebb.torch.patch(model)
    torch.manual_seed(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(model, config).train()
    torch.manual_seed(6)
    with torch.no_grad():  # an adapter begins as nothing
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p), alpha=0.1)
    if patched == "base":
        ebb.torch.patch(model.get_base_model())
    if patched == "whole":
        assert ebb.torch.patch(model) is model
    return model
