# SPDX-License-Identifier: MIT
"""Linear layers of a head whose weight is not simply there (_huggingface.py, _deferred_logits.py): DeepSpeed's ZeRO-3 has
partitioned it, or transformers' tensor parallelism (tp_plan) has put its classes on several ranks.

Both surround the layer's forward. A deferred product needs its weight where the loss is computed instead, so while a patched
model runs, these layers have another forward, and `around` does what is needed around the loss.
"""

import contextlib

import torch

from ._deferred_logits import here, linear_of


def is_partitioned(weight):
    return hasattr(weight, "ds_id")


def parameter_of(module, name):
    """Without module.weight, by which DeepSpeed gathers it and registers it with whatever module is running."""
    found = module._parameters.get(name)
    return getattr(module, name, None) if found is None else found


def _is_deepspeeds(hook):
    return (getattr(hook, "__module__", None) or "").startswith("deepspeed.")


class _Layer:
    def __init__(self, module):
        self.module = module
        self.weight, self.bias = parameter_of(module, "weight"), parameter_of(module, "bias")
        self.kept = {name: vars(module)[name] for name in self.CHANGED if name in vars(module)}

    def defer(self):
        self.module.forward = lambda input: linear_of(self, input)

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
        for name, hooks in self.kept.items():
            vars(self.module)[name] = type(hooks)((k, hook) for k, hook in hooks.items() if not _is_deepspeeds(hook))

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

        return compute(DTensor.from_local(x, self.weight.device_mesh, [Replicate()], run_check=False))

    def product(self, x):
        return self.kept["forward"](x)


def _layer_of(module):
    """What surrounds this module's forward; None where nothing does, or something else."""
    if type(module).forward is not torch.nn.Linear.forward:
        return None
    weight, forward = parameter_of(module, "weight"), vars(module).get("forward")
    if forward is None:
        return Partitioned(module) if is_partitioned(weight) else None
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
