# SPDX-License-Identifier: MIT
"""Linear layers of a head whose weight is not simply there (_huggingface.py, _deferred_logits.py): DeepSpeed's ZeRO-3 or FSDP2 has
partitioned it, or transformers' tensor parallelism (tp_plan) has put its classes on several ranks.

All of them surround the layer's forward. A deferred product needs its weight where the loss is computed instead, so while a patched
model runs, these layers have another forward, and `around` does what is needed around the loss.
"""

import contextlib

import torch

from ._deferred import here
from ._deferred_logits import linear_of


def is_partitioned(weight):
    return hasattr(weight, "ds_id")


def parameter_of(module, name):
    """Without module.weight, by which DeepSpeed gathers it and registers it with whatever module is running."""
    found = module._parameters.get(name)
    return getattr(module, name, None) if found is None else found


def _is_deepspeeds(hook):
    return (getattr(hook, "__module__", None) or "").startswith("deepspeed.")


class _Layer:
    """around(x, compute) is compute(x, weight) with both as the loss needs them, product(x) the layer's own product."""

    def __init__(self, module):
        self.module = module
        self.weight, self.bias = parameter_of(module, "weight"), parameter_of(module, "bias")
        self.kept = {name: vars(module)[name] for name in self.CHANGED if name in vars(module)}

    def product_dtype(self, x):
        """None where the layer's own product would be an error."""
        return x.dtype if x.dtype == self.weight.dtype else None

    def product(self, x):
        return self.around(x, lambda x, weight: torch.nn.functional.linear(x, weight, self.bias))

    def defer(self):
        self.module.forward = lambda input: linear_of(self, input)

    def without(self, test):
        """The module has no hooks that pass the test."""
        for name, hooks in self.kept.items():
            vars(self.module)[name] = type(hooks)((k, hook) for k, hook in hooks.items() if not test(hook))

    def restore(self):
        vars(self.module).pop("forward", None)
        vars(self.module).update(self.kept)


class Partitioned(_Layer):
    """DeepSpeed gathers the parameters of a module by hooks around its forward, and has autograd functions on its inputs and
    outputs do that for the backward pass. The hooks run around the loss instead: weights are gathered once in the forward
    pass, once in the backward pass, and gradients are reduced by DeepSpeed.
    """

    CHANGED = ("_forward_pre_hooks", "_forward_hooks")

    def __init__(self, module):
        super().__init__(module)
        self.before, self.after = ([h for h in self.kept[name].values() if _is_deepspeeds(h)] for name in self.CHANGED)

    @property
    def classes(self):
        return self.weight.ds_shape[0]

    def defer(self):
        super().defer()
        self.without(_is_deepspeeds)

    def around(self, x, compute):
        args = (x,)
        for hook in self.before:
            changed = hook(self.module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        output = compute(*args, self.weight)
        for hook in self.after:
            changed = hook(self.module, args, output)
            output = output if changed is None else changed
        return output


class FullySharded(_Layer):
    """FSDP2 does the same for a module that was given to fully_shard by itself, and changes its parameters."""

    CHANGED = ("_forward_pre_hooks", "_forward_hooks")

    def __init__(self, module):
        super().__init__(module)
        self.state = _fsdp_state(module)

    @property
    def classes(self):
        return self.weight.shape[0]

    def product_dtype(self, x):
        policy = self.state._mp_policy
        own = policy.param_dtype or self.weight.dtype
        return own if x.dtype == own or (policy.param_dtype and policy.cast_forward_inputs) else None

    def defer(self):
        super().defer()
        self.without(lambda hook: getattr(hook, "__self__", None) is self.state)

    def around(self, x, compute):
        args, _ = self.state._pre_forward(self.module, (x,), {})
        return self.state._post_forward(self.module, args, compute(args[0], parameter_of(self.module, "weight")))


def _fsdp_state(module):
    """Its own one, if the module is no part of a group and casts no outputs; else None."""
    for hook in module._forward_hooks.values():
        state = getattr(hook, "__self__", None)
        if type(state).__name__ == "FSDPState" and getattr(hook, "__name__", None) == "_post_forward":
            return state if state._mp_policy.output_dtype is None else None
    return None


class TensorParallel(_Layer):
    """transformers replaces the layer's forward by one that takes the hidden states, the same on all ranks, and gathers the
    logits. The loss takes them as a DTensor instead, beside the weight (_torch_parallel.py).
    """

    CHANGED = ("forward",)

    @property
    def classes(self):
        return self.weight.shape[0]

    def around(self, x, compute):
        from torch.distributed.tensor import DTensor, Replicate

        return compute(DTensor.from_local(x, self.weight.device_mesh, [Replicate()], run_check=False), self.weight)

    def product(self, x):
        return self.kept["forward"](x)


def _layer_of(module):
    """What surrounds this module's forward; None where nothing does, or something else."""
    if type(module).forward is not torch.nn.Linear.forward:
        return None
    weight, forward = parameter_of(module, "weight"), vars(module).get("forward")
    if forward is None and is_partitioned(weight):
        return Partitioned(module)
    if forward is None:
        return FullySharded(module) if _fsdp_state(module) and parameter_of(module, "bias") is None else None
    by_transformers = (getattr(forward, "__module__", None) or "").startswith("transformers.")
    if by_transformers and type(weight).__name__ == "DTensor" and [p.is_shard(0) for p in weight.placements] == [True]:
        return TensorParallel(module)
    return None


@contextlib.contextmanager
def deferring(head):
    """Products of such layers of the head are deferred while this lasts."""
    layers, before = [], getattr(here, "sharded", ())
    try:
        for module in head.modules():
            layer = _layer_of(module)
            if layer is not None:
                layers.append(layer)
                layer.defer()
        here.sharded = [layer.module for layer in layers]
        yield
    finally:
        here.sharded = before
        for layer in layers:
            layer.restore()
