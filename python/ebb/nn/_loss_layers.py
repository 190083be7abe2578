# SPDX-License-Identifier: MIT
"""Losses as layers: every loss of the registry under torch.nn's name, with the arguments of its class."""

import math

from .. import _core
from .. import losses


def add_layers(namespace):
    """Puts the classes into ebb.nn's namespace; nn/__init__.py, which has Module, calls this."""
    Module, Buffer, Linear = namespace["Module"], namespace["Buffer"], namespace["Linear"]

    class _Loss(Module):
        """A loss that remembers its options, with the arguments of the class of the same name in torch.nn."""

        def __init__(self, *args, **options):
            entry = self.entry
            optional = [name for name, _, is_optional in entry["inputs"] if is_optional]
            order = losses.TORCH_ORDER.get(entry["name"], optional)
            if len(args) > len(order):
                raise TypeError(f"{type(self).__name__}: takes {', '.join(order) or 'nothing'} by position")
            given = {**dict(zip(order, args)), **options}
            known = {*optional, *order, *(name for name, *_ in entry["options"]), "distance_function"}
            unknown = set(given) - known
            if unknown:
                raise TypeError(f"{type(self).__name__}: there is no option {sorted(unknown)}; there are {sorted(known)}")
            for key, value in given.items():
                if isinstance(value, complex):
                    raise TypeError(f"{type(self).__name__}: {key} must be a real number, got {value}")
            self.options = {key: value for key, value in given.items() if not isinstance(value, _core.Tensor)}
            for key in set(given) - set(self.options):  # class weights are kept, not trained
                setattr(self, key, Buffer(given[key]))

        def forward(self, *inputs, **named):
            """The loss of these inputs."""
            kept = {key: value.value for key, value in vars(self).items() if isinstance(value, Buffer)}
            return type(self).function(*inputs, **named, **self.options, **kept)

        def extra_repr(self):
            """The options, for repr()."""
            return ", ".join(f"{key}={value!r}" for key, value in self.options.items())

    for entry in losses.registry:
        name, function = losses.class_name(entry["name"]), getattr(losses, entry["name"])
        members = {"entry": entry, "function": staticmethod(function), "__doc__": function.__doc__, "__module__": "ebb.nn"}
        namespace[name] = type(name, (_Loss,), members)

    class LinearCrossEntropyLoss(Module):
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
            if weight is not None and tuple(weight.shape) != (num_classes,):
                raise ValueError(f"LinearCrossEntropyLoss: weight of shape {tuple(weight.shape)} for {num_classes} classes")
            if not 0 <= label_smoothing <= 1:
                raise ValueError(f"LinearCrossEntropyLoss: label_smoothing must be in [0, 1], got {label_smoothing}")
            self.out_features, self.num_classes = tuple(out_features), num_classes
            self.linear = Linear(in_features, math.prod(self.out_features, start=num_classes), bias, device, dtype)
            self.weight = None if weight is None else Buffer(weight)
            self.options = dict(reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, options=options)

        def forward(self, input, target):
            """The loss."""
            outputs = (self.num_classes, *self.out_features)
            members = self.linear.state_dict()
            bias = members["bias"].reshape(outputs) if "bias" in members else None
            head = members["weight"].reshape((*outputs, -1))
            weight = None if self.weight is None else self.weight.value
            return losses.linear_cross_entropy(input, head, target, linear_bias=bias, weight=weight, **self.options)

    LinearCrossEntropyLoss.__module__, LinearCrossEntropyLoss.__qualname__ = "ebb.nn", "LinearCrossEntropyLoss"
    namespace["LinearCrossEntropyLoss"] = LinearCrossEntropyLoss
