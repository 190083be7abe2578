# SPDX-License-Identifier: MIT
"""The losses inside torch.func's transforms, which want functions whose forward pass does not see its context.

Functions of order 0 (the loss), 1 (its gradients) and 2 (the derivatives of those). A batch is None or (samples, which of the
tensors have a leading axis of them); all results of a batch have that axis.
"""

import torch

from .. import _core
from ..losses import registry
from . import _exchange as exchange
from ._functions import dense, differentiable, spread
from ._stream import place


def _compute(order, number, wide, options, wrt, batch, cotangents, grad, tensors):
    with place(tensors):
        native = exchange.inputs(dense((*cotangents, grad, *tensors)))
        n = len(cotangents)
        given, inputs = (native[:n], native[n]), native[n + 1 :]
        count, batched = (0, ()) if batch is None else batch
        found = _core._losses_of_order(order, count, list(batched), number, wide, list(wrt), *given, *inputs, *options)
        return tuple(exchange.given(x) for x in found)


def _keep(ctx, names, constants, tensors):
    for name, value in zip(names, constants):
        setattr(ctx, name, value)
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def _batched(function, info, in_dims, constants, batch, tensors):
    """vmap: one more axis of samples, which is made one with the axis of the batch there is."""
    count, inner = info.batch_size, (None, (False,) * len(tensors)) if batch is None else batch
    moved, flags = [], []
    for x, d, has_inner in zip(tensors, in_dims, inner[1]):
        flags.append(x is not None and (d is not None or has_inner))
        if d is not None:
            x = x.movedim(d, 0)
        if flags[-1] and batch is not None:
            x = x if d is not None else x.unsqueeze(0).expand(count, *x.shape)
            x = x if has_inner else x.unsqueeze(1).expand(count, inner[0], *x.shape[1:])
            x = x.flatten(0, 1)
        moved.append(x)
    whole = count if batch is None else count * inner[0]
    found = function.apply(*constants, (whole, tuple(flags)), *moved)
    results = found if isinstance(found, tuple) else (found,)
    if batch is not None:
        results = tuple(r.unflatten(0, (count, inner[0])) for r in results)
    return (results, (0,) * len(results)) if isinstance(found, tuple) else (results[0], 0)


def _over_samples(found, batch, positions):
    """Gradients of tensors that all samples share are sums over these."""
    return found if batch is None else [g if batch[1][p] else g.sum(0) for g, p in zip(found, positions)]


def _beside(batch, count):
    """The batch with so many tensors that have its axis in front of the others."""
    return None if batch is None else (batch[0], (True,) * count + batch[1])


class Value(torch.autograd.Function):
    @staticmethod
    def forward(number, wide, options, batch, *tensors):
        return _compute(0, number, wide, options, (), batch, (), None, tensors)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        _keep(ctx, ("number", "wide", "options", "batch"), inputs[:4], inputs[4:])
        ctx.like = output.shape, output.dtype, output.device

    @staticmethod
    def backward(ctx, grad):
        tensors = ctx.saved_tensors
        wrt = differentiable(ctx.number, ctx.needs_input_grad[4:])
        found = Gradient.apply(ctx.number, ctx.wide, ctx.options, wrt, _beside(ctx.batch, 1), grad, *tensors)
        return None, None, None, None, *spread(_over_samples(found, ctx.batch, wrt), wrt, len(tensors))

    # J·v of one number is the gradient times v, which can be differentiated again. Otherwise: the gradients Jᵀ·g are linear
    # in g, and differentiated by g in the direction of v they are J·v.
    @staticmethod
    def jvp(ctx, number, wide, options, batch, *tangents):
        tensors = ctx.saved_tensors
        at = differentiable(ctx.number, [t is not None for t in tangents])
        shape, dtype, device = ctx.like
        grad = torch.ones(shape, dtype=dtype, device=device)
        given = [tangents[k] for k in at]
        axes = 0 if ctx.batch is None else 1
        if len(shape) == axes:
            found = Gradient.apply(ctx.number, ctx.wide, ctx.options, at, _beside(ctx.batch, 1), grad, *tensors)
            return sum((g * t).flatten(axes).sum(-1) if g.ndim > axes else g * t for g, t in zip(found, given)).to(dtype)
        flags = None
        if ctx.batch is not None:
            flags = (ctx.batch[0], tuple(ctx.batch[1][k] for k in at) + (True,) + ctx.batch[1])
        return Second.apply(ctx.number, ctx.wide, ctx.options, at, flags, *given, grad, *tensors)[0]

    @staticmethod
    def vmap(info, in_dims, number, wide, options, batch, *tensors):
        return _batched(Value, info, in_dims[4:], (number, wide, options), batch, tensors)


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(number, wide, options, wrt, batch, grad, *tensors):
        return _compute(1, number, wide, options, wrt, batch, (), grad, tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _keep(ctx, ("number", "wide", "options", "wrt", "batch"), inputs[:5], inputs[5:])

    @staticmethod
    def backward(ctx, *cotangents):
        flags = _beside(ctx.batch, len(cotangents))
        found = Second.apply(ctx.number, ctx.wide, ctx.options, ctx.wrt, flags, *cotangents, *ctx.saved_tensors)
        of_grad, *found = _over_samples(found, ctx.batch, [0, *(p + 1 for p in ctx.wrt)])
        return None, None, None, None, None, of_grad, *spread(found, ctx.wrt, len(ctx.saved_tensors) - 1)

    # Second derivatives are symmetric: the direction takes the place of the cotangents.
    @staticmethod
    def jvp(ctx, number, wide, options, wrt, batch, of_grad, *tangents):
        grad, *tensors = ctx.saved_tensors
        moving = differentiable(ctx.number, [t is not None for t in tangents])
        found = None
        if moving:
            at = sorted({*ctx.wrt, *moving})
            given = [torch.zeros_like(tensors[k]) if tangents[k] is None else tangents[k] for k in at]
            flags = None
            if ctx.batch is not None:
                flags = (ctx.batch[0], tuple(ctx.batch[1][k + 1] for k in at) + ctx.batch[1])
            _, *all_found = Second.apply(ctx.number, ctx.wide, ctx.options, at, flags, *given, grad, *tensors)
            found = [all_found[at.index(k)] for k in ctx.wrt]
        if of_grad is not None:
            more = Gradient.apply(ctx.number, ctx.wide, ctx.options, ctx.wrt, ctx.batch, of_grad, *tensors)
            found = list(more) if found is None else [a + b for a, b in zip(found, more)]
        return tuple(found)

    @staticmethod
    def vmap(info, in_dims, number, wide, options, wrt, batch, *tensors):
        return _batched(Gradient, info, in_dims[5:], (number, wide, options, wrt), batch, tensors)


class Second(torch.autograd.Function):
    @staticmethod
    def forward(number, wide, options, wrt, batch, *tensors):
        n = len(wrt)
        return _compute(2, number, wide, options, wrt, batch, tensors[:n], tensors[n], tensors[n + 1 :])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = registry[inputs[0]]["name"]

    @staticmethod
    def backward(ctx, *cotangents):
        raise RuntimeError(f"{ctx.name}: PyTorch can differentiate it twice; use ebb.grad for more")

    @staticmethod
    def jvp(ctx, *tangents):
        raise RuntimeError(f"{ctx.name}: PyTorch can differentiate it twice; use ebb.grad for more")

    @staticmethod
    def vmap(info, in_dims, number, wide, options, wrt, batch, *tensors):
        return _batched(Second, info, in_dims[5:], (number, wide, options, wrt), batch, tensors)


def compute(number, wide, options, *tensors):
    return Value.apply(number, wide, options, None, *tensors)


def gradients(number, wide, options, wrt, grad, *tensors):
    """Jᵀ·grad, as a function that has derivatives."""
    return Gradient.apply(number, wide, options, wrt, None, grad, *tensors)
