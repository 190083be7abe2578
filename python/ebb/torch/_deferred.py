# SPDX-License-Identifier: MIT
"""Tensors that exist once somebody looks at them: what deferred logits and their log-probabilities have in common.

Plain objects with __torch_function__ rather than a subclass of torch.Tensor: torch.compile traces through them.
"""

import threading
from typing import Any, NamedTuple

import torch

# .active: heads defer their products; .rounds: options by which their losses round; .sharded: their layers that need care; .fused:
# how many losses were computed without logits
here = threading.local()


def values(x):
    """Arguments of a function with tensors in place of what is deferred."""
    if isinstance(x, Deferred):
        return x.value()
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)([values(part) for part in x])
    if isinstance(x, dict):
        return {key: values(part) for key, part in x.items()}
    return x


def count_fused():
    """A loss is computed without logits."""
    if not torch.compiler.is_compiling():
        here.fused = getattr(here, "fused", 0) + 1


def _watch_gradients(x):
    if isinstance(x, Deferred):
        x.watch_gradient()
    elif isinstance(x, (list, tuple, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            _watch_gradients(part)


def _is_in_place(name):
    return name.endswith("_") and not name.endswith("__")


class Deferred:
    """A tensor that need not have been computed; value() is it."""

    def handler(self, function):
        """What takes the place of a function of PyTorch whose first argument this is; None where its value is to be computed."""
        return None

    def loss(self, name, *others, **options):
        """A loss of ebb.torch of this and other tensors, if it needs no value of this; None where it does."""
        return None

    def mark_written(self):
        """The value is about to change in place."""

    def watch_gradient(self):
        """Somebody asks for the gradient of this."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if not args and "input" in kwargs:  # by its name
            args = (kwargs.pop("input"),)
        first = args[0] if args else None
        if func is torch.autograd.grad:
            _watch_gradients((args, kwargs))
        if isinstance(first, Deferred):
            handler = first.handler(func)
            if handler is not None:
                return handler(*args, **kwargs)
            if _is_in_place(getattr(func, "__name__", "")):
                first.mark_written()
        return func(*values(args), **values(kwargs))

    def __getattr__(self, name):
        if name.startswith("__"):  # protocols that a tensor's answer would mislead: pickling, copying, arrays by address
            raise AttributeError(name)
        if _is_in_place(name):
            self.mark_written()
        if name in ("retain_grad", "register_hook"):
            self.watch_gradient()
        found = getattr(self.value(), name)
        return (lambda *args, **kwargs: found(*values(args), **values(kwargs))) if callable(found) else found

    def __setitem__(self, index, value):
        self.mark_written()
        self.value()[values(index)] = values(value)

    def __array__(self, *args, **kwargs):
        return self.value().__array__(*args, **kwargs)

    def __len__(self):
        return self.shape[0]

    __hash__ = object.__hash__


def _operator(name):
    def apply(self, *args):
        return getattr(self.value(), name)(*values(args))

    apply.__name__ = name
    return apply


_TWO_SIDED = "add sub mul truediv floordiv mod pow matmul and or xor"
for _name in (
    "eq ne lt le gt ge neg pos abs invert bool int float index contains iter getitem".split()
    + _TWO_SIDED.split()
    + ["r" + name for name in _TWO_SIDED.split()]
):
    setattr(Deferred, f"__{_name}__", _operator(f"__{_name}__"))


class Product(NamedTuple):
    """factor·x·weightᵀ; owner is the layer that makes the weight available (_sharded_heads.py)."""

    x: torch.Tensor
    weight: torch.Tensor
    factor: float = 1.0
    owner: Any = None

    @property
    def classes(self):
        return self.weight.shape[0] if self.owner is None else self.owner.classes

    def changed(self, **fields):
        """_replace, whose results PyTorch 2.11 cannot return from a compiled function."""
        return Product(**{"x": self.x, "weight": self.weight, "factor": self.factor, "owner": self.owner, **fields})


def with_weights(products, compute, done=()):
    """compute(products) while all their weights are there."""
    if not products:
        return compute(done)
    first, rest = products[0], products[1:]
    if first.owner is None:
        return with_weights(rest, compute, (*done, first))
    return first.owner.around(first.x, lambda x, w: with_weights(rest, compute, (*done, first.changed(x=x, weight=w))))
