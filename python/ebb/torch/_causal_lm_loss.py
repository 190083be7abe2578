# SPDX-License-Identifier: MIT
"""transformers' ForCausalLMLoss by Ebb, and where its `KernelConfig` finds it."""

from pathlib import Path

import torch

from ._deferred import Deferred
from ._losses import wide_cross_entropy

LAYERS = ("ForCausalLMLoss", "LMHead")


def causal_lm_loss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
    """transformers' ForCausalLMLoss of finished logits: the mean over tokens, or their sum divided by num_items_in_batch, in f32.

    Value and gradient are computed in one pass, without a copy of the logits in f32. The logits themselves stay as they are,
    since models return them; patch does without them.

        model.loss_function = ebb.torch.causal_lm_loss
    """
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).to(logits.device)
    rows, reduction = logits.reshape(-1, vocab_size), "mean" if num_items_in_batch is None else "sum"
    if isinstance(rows, Deferred):
        loss = torch.nn.functional.cross_entropy(rows.float(), target, ignore_index=ignore_index, reduction=reduction)
    else:
        loss = wide_cross_entropy(rows, target, ignore_index=ignore_index, reduction=reduction)
    if num_items_in_batch is None:
        return loss
    return loss / (num_items_in_batch.to(loss.device) if torch.is_tensor(num_items_in_batch) else num_items_in_batch)


def kernel_mapping(*layers):
    """A mapping for transformers' KernelConfig with use_local_kernel=True: names of layers to Ebb's. Without names that is
    ForCausalLMLoss, the loss of finished logits; LMHead is a linear layer whose logits are not computed in training.

        kernel_config = KernelConfig(ebb.torch.kernel_mapping("LMHead"), use_local_kernel=True)
    """
    for layer in layers:
        if layer not in LAYERS:
            raise ValueError(f"kernel_mapping: there is no layer {layer!r}; there are {', '.join(LAYERS)}")
    folder = Path(__file__).resolve().parent / "_hub_kernel"
    return {layer: f"{folder}:{layer}" for layer in layers or LAYERS[:1]}
