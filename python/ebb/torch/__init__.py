# SPDX-License-Identifier: MIT
"""Ebb's losses for PyTorch programs: functions on torch tensors, with autograd.

    from ebb.torch import cross_entropy        # instead of torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, labels)
    loss.backward()

The value and the gradients that PyTorch will ask for are computed in one sweep when the loss is called; backward only
scales them. Gradients can be differentiated once more, by Ebb. Losses are modules, too (CrossEntropyLoss), work inside
torch.func's transforms, and are kept by torch.compile as one operation. On a GPU everything is given to PyTorch's current
stream and nothing waits for it, so that CUDA graphs can be captured.

The modules of this package, from the bottom up:

    _stream, _exchange               where Ebb computes, and tensors there and back
    _functions                       what autograd functions share
    _func, _eager, _compiled         a loss for torch.func, for eager PyTorch, for torch.compile
    _token_statistics                log-probabilities and the like behind an LM head
    _parallel                        such heads in parts, on the ranks of a process group
    _log_probs, _linear_loss         linear_log_probs and linear_loss
    _losses, _loss_modules           the losses as functions and as modules
    _deferred, _deferred_log_probs, _deferred_logits      logits that exist once somebody looks at them
    _causal_calls, _sharded_heads, _huggingface      patch
    _trl, _causal_lm_loss, _hub_kernel     TRL, transformers' KernelConfig
"""

from . import _loss_modules, _losses
from ._causal_lm_loss import causal_lm_loss, kernel_mapping
from ._exchange import from_torch, to_torch
from ._huggingface import patch, unpatch
from ._linear_loss import linear_loss
from ._log_probs import linear_log_probs
from ._loss_modules import *  # noqa: F403
from ._losses import *  # noqa: F403
from ._trl import patch_trl, unpatch_trl

__all__ = ["from_torch", "to_torch", "patch", "unpatch", "patch_trl", "unpatch_trl", "causal_lm_loss", "kernel_mapping"]
__all__ += ["linear_log_probs", "linear_loss", *_losses.__all__, *_loss_modules.__all__]
