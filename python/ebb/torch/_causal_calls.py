# SPDX-License-Identifier: MIT
"""Compiled calls of patched models (_huggingface.py) whose rows are one sequence each, so that attention is causal and no more.

transformers looks at positions, those that it counts itself as well, for a row that has several sequences. Eager models see that it
has one; compiled ones cannot look, and attend through a mask of tokens times tokens. It does not look where there is a cache, since
then a row is one sequence. So a call without a mask, positions and a cache gets a cache that keeps nothing; it is an argument of this
call. Whether that row then needs a mask follows from lengths alone, which one function of transformers does not rely on while
compiling before 5.18, and with PyTorch before 2.14. Ours does, for patched models; nothing else is replaced.
"""

import functools
import inspect
import sys

import torch

from ._deferred import here

_OF_SEQUENCES = ("attention_mask", "position_ids", "past_key_values")
_KEPT = "_ebb_takes_a_cache"  # an attribute of models: does a cache that keeps nothing change nothing?


@functools.cache
def cache_class():
    """Caches that keep nothing, made while nothing is compiled; None where transformers does not look for sequences."""
    masks = sys.modules.get("transformers.masking_utils")
    if not hasattr(masks, "find_packed_sequence_indices"):
        return None
    from transformers.cache_utils import DynamicCache

    class NothingCached(DynamicCache):
        """Keys and values of a call are all there are."""

        def update(self, key_states, value_states, layer_idx, *args, **kwargs):
            return key_states, value_states

    if hasattr(masks, "_ignore_causal_mask_sdpa") and hasattr(torch.compiler, "_is_exporting_flag"):
        masks._ignore_causal_mask_sdpa = by_lengths(masks._ignore_causal_mask_sdpa)
    return NothingCached


def by_lengths(decide):
    """transformers' decision whether `is_causal` will do for a mask, which compiled calls of patched models make by its rule for
    eager ones. Exported programs may be called with other lengths, and keep their masks.
    """
    signature = inspect.signature(decide)
    count = len(signature.parameters)

    def ignore_causal_mask(*args, **kwargs):
        ours = getattr(here, "active", False) and torch.compiler.is_compiling() and not torch.compiler._is_exporting_flag
        if ours and len(args) == count:
            padding_mask, q_length, kv_length, *_, window = args
            if padding_mask is None and q_length == kv_length:
                return window is None or kv_length < window
        return decide(*args, **kwargs)

    ignore_causal_mask.__signature__ = signature
    return ignore_causal_mask


def _text_config(model):
    config = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _recomputes(model):
    """Are layers computed again in the backward pass? Then they ignore a cache and log that, which does not compile."""
    return model.training and any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def is_known(model):
    """Was a cache that keeps nothing tried with this model, and does it change nothing?"""
    return vars(model).get(_KEPT, False)


def forget(model):
    vars(model).pop(_KEPT, None)


def learn(model, names, loss_of):
    """Tries it; names are the arguments of the model's forward, loss_of(options) the loss of a small batch."""
    made, config = cache_class(), _text_config(model)
    known = {"past_key_values", "use_cache"} <= set(names) and hasattr(config, "use_cache")
    if made is None or not known or getattr(config, "is_encoder_decoder", False) or _recomputes(model):
        return
    try:
        plain, cached = loss_of({"use_cache": False}), loss_of({"use_cache": False, "past_key_values": made()})
    except Exception:  # a model that keeps more than keys and values
        return
    vars(model)[_KEPT] = bool(plain.equal(cached))


def cache_for(model, made, given):
    """A cache of this class for a call, whose argument of a name given(name) is; None where it is not needed."""
    if made is None or not is_known(model) or any(given(name) is not None for name in _OF_SEQUENCES):
        return None
    if _recomputes(model):
        return None
    uses = given("use_cache")
    return None if (_text_config(model).use_cache if uses is None else uses) else made()


def without(output, cache):
    """The output of a call that was given this cache, as it is without one."""
    if isinstance(output, tuple):
        return tuple(x for x in output if x is not cache)
    return type(output)(**{key: value for key, value in output.items() if value is not cache})
