"""Ebb's losses for PyTorch programs: functions on torch tensors, with autograd.

    from ebb.torch import cross_entropy        # instead of torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, labels)
    loss.backward()

The value and the gradients that PyTorch will ask for are computed in one sweep when the loss is called; backward only
scales them. Gradients can be differentiated once more, by Ebb.
"""

import torch
from torch.utils import dlpack

from . import _core
from .losses import _Text, define, registry

__all__ = []


def from_torch(x):
    """A torch tensor as an ebb.Tensor on the same memory."""
    return _core.from_dlpack(dlpack.to_dlpack(x.detach()))


def to_torch(x):
    """An ebb.Tensor as a torch tensor on the same memory. It must not be written to unless nothing else uses x."""
    return dlpack.from_dlpack(x.__dlpack__(copy=False))


def _own(x):
    return to_torch(_core._exclusive(x))


def _inputs(tensors):
    return [None if x is None else from_torch(x) for x in tensors]


def _autocast_dtype():
    """The dtype of products in a region of torch.autocast on the CPU; None outside of one."""
    if not torch.is_autocast_enabled("cpu"):
        return None
    return torch.get_autocast_dtype("cpu")


def _apply(number, options, *tensors):
    """The loss. Autocast is followed as PyTorch's own losses do: they are computed in f32 and are f32; hidden states and
    an LM head are multiplied in autocast's dtype, as by torch.nn.functional.linear. f64 stays f64.
    """
    low = _autocast_dtype()
    if low is None:
        return _Loss.apply(number, False, options, *tensors)
    names = [name for name, *_ in registry[number]["inputs"]]
    products = "head" in names
    given = []
    for name, x in zip(names, tensors):
        if x is not None and x.is_floating_point() and x.dtype != torch.float64:
            x = x.to(low if products and name in ("x", "head", "bias") else torch.float32)
        given.append(x)
    return _Loss.apply(number, products, options, *given)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number, wide, options, *tensors):
        differentiable = registry[number]["inputs"]
        wrt = [i for i, needed in enumerate(ctx.needs_input_grad[3:]) if needed and differentiable[i][1]]
        ctx.number, ctx.wide, ctx.options, ctx.wrt, ctx.gradients = number, wide, options, wrt, None
        ctx.save_for_backward(*tensors)
        inputs = _inputs(tensors)
        if not wrt and not wide:
            return _own(_core._loss(number, *inputs, *options))
        value, gradients = _core._loss_forward(number, wrt, wide, *inputs, *options)
        if gradients is not None:
            ctx.gradients = [to_torch(g) for g in gradients]
        return to_torch(value)

    @staticmethod
    def backward(ctx, grad):
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = _Gradient.apply(ctx.number, ctx.wide, ctx.options, ctx.wrt, grad, *tensors)
        elif ctx.gradients is None:  # the loss is not one number, or the gradients were given away before
            found = _gradients(ctx.number, ctx.wide, ctx.options, ctx.wrt, grad, tensors)
        else:
            # They are given away: PyTorch may then take them as they are and add to them.
            found, ctx.gradients = ctx.gradients, None
            scale = grad.item()
            if scale != 1:
                found = [g.mul_(scale) for g in found]
        result = [None] * len(tensors)
        for position, gradient in zip(ctx.wrt, found):
            result[position] = gradient
        return None, None, None, *result


def _gradients(number, wide, options, wrt, grad, tensors):
    found = _core._loss_backward(number, from_torch(grad), wide, *_inputs(tensors), *options)
    chosen = [found[i] for i in wrt]
    _core.eval(*chosen)
    return tuple(_own(g) for g in chosen)


class _Gradient(torch.autograd.Function):
    """The backward pass of a loss as a function of the cotangent and the inputs, so that it has a backward pass."""

    @staticmethod
    def forward(ctx, number, wide, options, wrt, grad, *tensors):
        ctx.number, ctx.wide, ctx.options, ctx.wrt = number, wide, options, wrt
        ctx.save_for_backward(grad, *tensors)
        return _gradients(number, wide, options, wrt, grad, tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *cotangents):
        grad, *tensors = ctx.saved_tensors
        of_grad, *found = _core._loss_second(
            ctx.number,
            ctx.wrt,
            [from_torch(c) for c in cotangents],
            from_torch(grad),
            ctx.wide,
            *_inputs(tensors),
            *ctx.options,
        )
        result = [None] * len(tensors)
        for position, gradient in zip(ctx.wrt, found):
            result[position] = _own(gradient)
        return None, None, None, None, _own(of_grad), *result


def _make(number, entry):
    text = _Text(number, entry)
    inputs = ", ".join(name for name, *_ in text.inputs)
    options = "".join(f"{name}, " for name, *_ in text.options)
    loss = define(
        text, f"return _apply({number}, ({options}), {inputs})", text.name, text.parameters(), {"_apply": _apply}
    )
    loss.__doc__ = text.doc() + "\n\nOf torch tensors; differentiated by PyTorch's autograd."
    loss.__module__ = __name__
    return loss


for _number, _entry in enumerate(registry):
    globals()[_entry["name"]] = _make(_number, _entry)
    __all__.append(_entry["name"])
