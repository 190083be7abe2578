# SPDX-License-Identifier: MIT
"""Compiled calls of patched models (_huggingface.py) whose rows are one sequence each, so that attention is causal and no more.

transformers looks at positions, those that it counts itself as well, for a row that has several sequences. Eager models see that it
has one; compiled ones cannot look, and attend through a mask of tokens times tokens. It does not look where there is a cache, since
then a row is one sequence. So a call without a mask, positions and a cache gets a cache that keeps nothing; it is an argument of this
call. Nothing of the model is touched, and one function of transformers, where PyTorch is older than 2.14.
"""

import functools
import sys

import torch

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

    return NothingCached


def _is_exporting():
    return torch.compiler._is_exporting_flag


def _tell_compiling_from_exporting():
    """transformers makes masks for whatever is exported. Before 2.14 Dynamo traces torch.compiler.is_exporting() as True, always."""
    masks = sys.modules["transformers.masking_utils"]
    known = hasattr(masks, "is_torchdynamo_exporting") and hasattr(torch.compiler, "_is_exporting_flag")
    if known and torch.__version__ < (2, 14):
        masks.is_torchdynamo_exporting = _is_exporting


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
    if is_known(model):
        _tell_compiling_from_exporting()


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
