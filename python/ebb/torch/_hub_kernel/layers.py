# SPDX-License-Identifier: MIT
"""The layers: kernelize gives a module the forward of one of them, so they have no state and no other methods."""

import torch

from ebb.torch import causal_lm_loss
from ebb.torch._deferred_logits import HiddenStates


class ForCausalLMLoss(torch.nn.Module):
    """transformers' function of this name: of finished logits, without a copy of them in f32."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs
    ):
        return causal_lm_loss(logits, labels, vocab_size, num_items_in_batch, ignore_index, shift_labels, **kwargs)


class LMHead(torch.nn.Module):
    """A linear layer whose logits are not computed in training, unless something other than their loss looks at them."""

    can_torch_compile = True
    has_backward = True

    def forward(self, input):
        deferred = HiddenStates(input) if self.training and torch.is_grad_enabled() else input
        return torch.nn.functional.linear(deferred, self.weight, self.bias)
