# SPDX-License-Identifier: MIT
"""The losses as modules, as in torch.nn."""

import math

import torch

from ..losses import TORCH_ORDER, class_name, legacy_reduction, registry
from . import _losses

__all__ = ["LinearCrossEntropyLoss"]


class _LossModule(torch.nn.Module):
    """A loss that remembers its options. Tensors among them (weight, pos_weight) are buffers."""

    def __init__(self, *args, **options):
        super().__init__()
        optional = [name for name, _, optional in self.entry["inputs"] if optional]
        order = TORCH_ORDER.get(self.entry["name"], optional)
        if len(args) > len(order):
            raise TypeError(f"{type(self).__name__}: takes {', '.join(order) or 'nothing'} by position")
        options = {**dict(zip(order, args)), **options}
        legacy = [options.pop(name, None) for name in ("size_average", "reduce")]
        if legacy != [None, None]:
            options["reduction"] = legacy_reduction(*legacy)
        for name in optional:
            if isinstance(options.get(name), torch.Tensor):
                self.register_buffer(name, options.pop(name))
            else:
                setattr(self, name, options.pop(name, None))
        known = {name for name, *_ in self.entry["options"]} | {"distance_function"}
        unknown = set(options) - known
        if unknown:
            raise TypeError(f"{type(self).__name__}: there is no option {sorted(unknown)}; there are {sorted(known)}")
        self.options, self._optional = options, optional

    def forward(self, *inputs, **named):
        kept = {name: getattr(self, name) for name in self._optional if getattr(self, name) is not None}
        return type(self).function(*inputs, **named, **kept, **self.options)

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


for _entry in registry:
    _name, _function = class_name(_entry["name"]), getattr(_losses, _entry["name"])
    _members = {"entry": _entry, "function": staticmethod(_function), "__doc__": _function.__doc__, "__module__": _losses.MODULE}
    globals()[_name] = type(_name, (_LossModule,), _members)
    __all__.append(_name)


class LinearCrossEntropyLoss(torch.nn.Module):
    """torch.nn.LinearCrossEntropyLoss: a linear layer and the cross-entropy of its logits, which are never all in memory.

    out_features are further axes of the head: its weight is [num_classes, *out_features, in_features].
    """

    def __init__(
        self,
        in_features,
        num_classes,
        *,
        out_features=(),
        bias=False,
        device=None,
        dtype=None,
        reduction="mean",
        weight=None,
        ignore_index=None,
        label_smoothing=0.0,
        options=None,
    ):
        super().__init__()
        self.outputs = (num_classes, *out_features)
        self.linear = torch.nn.Linear(in_features, math.prod(self.outputs), bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.options = dict(reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, options=options)

    def forward(self, input, target):
        head, bias = self.linear.weight.reshape(*self.outputs, -1), self.linear.bias
        bias = None if bias is None else bias.reshape(self.outputs)
        return _losses.linear_cross_entropy(input, head, target, linear_bias=bias, weight=self.weight, **self.options)


LinearCrossEntropyLoss.__module__ = _losses.MODULE
