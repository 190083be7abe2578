# SPDX-License-Identifier: MIT
"""Heads whose weights DeepSpeed's ZeRO-3 has partitioned (_huggingface.py, _deferred_logits.py).

DeepSpeed gathers the parameters of a module by hooks around its forward, and has autograd functions on its inputs and outputs do
that for the backward pass. A deferred product needs no weight where the head is called, but where its loss is computed. So while
a patched model runs, these hooks are taken from the head's linear layers, and run around the loss instead: weights are gathered
once in the forward pass, once in the backward pass, and gradients are reduced by DeepSpeed.
"""

import contextlib

import torch


def is_partitioned(weight):
    return hasattr(weight, "ds_id")


def parameter_of(module, name):
    """Without module.weight, which gathers it and registers it with whatever module is running."""
    found = module._parameters.get(name)
    return getattr(module, name, None) if found is None else found


def _is_deepspeeds(hook):
    return (getattr(hook, "__module__", None) or "").startswith("deepspeed.")


class Partitioned:
    """A linear layer and the hooks of DeepSpeed that were taken from it."""

    def __init__(self, module):
        self.module = module
        self.weight, self.bias = parameter_of(module, "weight"), parameter_of(module, "bias")
        self.before = [hook for hook in module._forward_pre_hooks.values() if _is_deepspeeds(hook)]
        self.after = [hook for hook in module._forward_hooks.values() if _is_deepspeeds(hook)]

    @property
    def classes(self):
        return self.weight.ds_shape[0]

    def around(self, x, compute):
        """compute(x), a tensor, with the weight gathered for it and for its backward pass."""
        args = (x,)
        for hook in self.before:
            changed = hook(self.module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        output = compute(*args)
        for hook in self.after:
            changed = hook(self.module, args, output)
            output = output if changed is None else changed
        return output

    def product(self, x):
        return self.around(x, lambda x: torch.nn.functional.linear(x, self.weight, self.bias))


@contextlib.contextmanager
def deferring(head, linear):
    """Linear layers of the head that are partitioned compute linear(input, Partitioned) while this lasts."""
    changed = []
    try:
        for module in head.modules():
            usual = type(module).forward is torch.nn.Linear.forward and "forward" not in vars(module)
            if not usual or not is_partitioned(parameter_of(module, "weight")):
                continue
            there = Partitioned(module)
            changed.append((module, module._forward_pre_hooks, module._forward_hooks))
            for name in ("_forward_pre_hooks", "_forward_hooks"):
                hooks = getattr(module, name)
                setattr(module, name, type(hooks)((k, hook) for k, hook in hooks.items() if not _is_deepspeeds(hook)))
            module.forward = lambda input, there=there: linear(input, there)
        yield
    finally:
        for module, before, after in changed:
            del module.forward
            module._forward_pre_hooks, module._forward_hooks = before, after
