# SPDX-License-Identifier: MIT
"""The losses as functions on torch tensors, made from the registry: which way each call takes."""

import torch

from ..losses import _NUMBERS, _Text, define, registry
from . import _compiled, _eager, _func
from . import _exchange as exchange
from ._deferred import Deferred

MODULE = "ebb.torch"  # where people find them
__all__ = []


def _apply(number, options, *tensors):
    """The loss. Autocast is followed as PyTorch's own losses do: they are computed in f32 and are f32; hidden states and
    an LM head are multiplied in autocast's dtype, as by torch.nn.functional.linear. f64 stays f64.
    """
    name = registry[number]["name"]
    if name == "linear_cross_entropy" and exchange.has_parts(tensors):
        return _cross_entropy_in_parts(number, False, options, tensors)
    if any(isinstance(x, Deferred) for x in tensors):
        given = {option: value for (option, *_), value in zip(registry[number]["options"], options)}
        loss = tensors[0].loss(name, *tensors[1:], **given) if isinstance(tensors[0], Deferred) else None
        if loss is not None:
            return loss
        tensors = [x.value() if isinstance(x, Deferred) else x for x in tensors]
    exchange.require_dense(name, tensors)
    low = exchange.autocast_dtype(tensors[0])
    names = [name for name, *_ in registry[number]["inputs"]]
    if tensors[0].is_cuda and name in _NUMBERS:  # lengths are often left on the host
        tensors = [exchange.beside(x, tensors[0]) if given in _NUMBERS[name] else x for given, x in zip(names, tensors)]
    if low is None:
        return _dispatch(number, False, options, *tensors)
    products = "head" in names
    given = []
    for name, x in zip(names, tensors):
        if x is not None and x.is_floating_point() and x.dtype != torch.float64:
            x = x.to(low if products and name in ("x", "head", "bias") else torch.float32)
        given.append(x)
    return _dispatch(number, products, options, *given)


def _cross_entropy_in_parts(number, wide, options, tensors):
    from . import _parallel  # whose modules of PyTorch take a second to import

    names = [name for name, *_ in registry[number]["options"]]
    loss = _parallel.cross_entropy(*tensors, dict(zip(names, options)))
    return loss if wide or exchange.autocast_dtype(loss) else loss.to(torch.promote_types(tensors[0].dtype, tensors[1].dtype))


def _dispatch(number, wide, options, *tensors):
    """torch.compile keeps an operation with a name, torch.func wants a function without a context; else the fast way."""
    if exchange.is_recorded(tensors):
        return _compiled.compute(number, wide, options, *tensors)
    if exchange.is_transformed():
        return _func.compute(number, wide, options, *tensors)
    return _eager.Loss.apply(number, wide, options, *tensors)


def _make(number, entry):
    text = _Text(number, entry)
    inputs = ", ".join(name for name, *_ in text.inputs)
    options = "".join(f"{name}, " for name, *_ in text.options)
    loss = define(
        text,
        f"return _apply({number}, ({options}), {inputs})",
        text.name,
        text.parameters(),
        {"_apply": _apply, "_number_tensor": exchange.number_tensor},
    )
    loss.__doc__ = text.doc() + "\n\nOf torch tensors; differentiated by PyTorch's autograd."
    loss.__module__ = MODULE
    return loss


for _number, _entry in enumerate(registry):
    globals()[_entry["name"]] = _make(_number, _entry)
    __all__.append(_entry["name"])


_plain_triplet = triplet_margin_with_distance_loss  # noqa: F821


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    if distance_function is None:
        return _plain_triplet(anchor, positive, negative, margin=margin, swap=swap, reduction=reduction)
    # The distance is PyTorch's to differentiate, and what is left is a few operations on one number for each row.
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = torch.minimum(far, distance_function(positive, negative))
    terms = torch.clamp_min(margin + near - far, 0)
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.mean()


triplet_margin_with_distance_loss.__doc__ = (
    _plain_triplet.__doc__ + "\n\n    distance_function: d(x, y) of two torch tensors, one number for each row"
)


def _number_and_options(loss, options):
    number = next(n for n, entry in enumerate(registry) if entry["name"] == loss)
    return number, tuple(options.get(name, default) for name, default, _ in registry[number]["options"])


def wide_cross_entropy(logits, target, **options):
    """cross_entropy whose result is f32 (f64 for f64), whatever the logits are."""
    number, values = _number_and_options("cross_entropy", options)
    exchange.require_dense("cross_entropy", (logits, target))
    others = [None] * (len(registry[number]["inputs"]) - 2)
    return _dispatch(number, True, values, logits, target, *others)


def wide_linear_cross_entropy(x, head, target, bias=None, weight=None, token_weight=None, **options):
    """linear_cross_entropy whose result is f32 (f64 for f64), whatever the hidden states are."""
    number, values = _number_and_options("linear_cross_entropy", options)
    if exchange.has_parts((x, head)):
        return _cross_entropy_in_parts(number, True, values, (x, head, target, bias, weight, token_weight))
    if exchange.autocast_dtype(x) is not None:
        return _apply(number, values, x, head, target, bias, weight, token_weight)
    head, bias = head.to(x.dtype), None if bias is None else bias.to(x.dtype)
    return _dispatch(number, True, values, x, head, target, bias, weight, token_weight)
