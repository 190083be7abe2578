# SPDX-License-Identifier: MIT
"""The losses for eager PyTorch: autograd functions with the least to do per call.

The value and the gradients that PyTorch will ask for are computed in one sweep when the loss is called; backward only scales
them, but for those of f16, which it computes. Where gradients are differentiated once more, they are torch.func's.
"""

import torch

from .. import _core
from ..losses import registry
from . import _exchange as exchange
from . import _func
from ._functions import require_one_cotangent, rounds_late, spread
from ._stream import place


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number, wide, options, *tensors):
        differentiable = registry[number]["inputs"]
        wrt = [i for i, needed in enumerate(ctx.needs_input_grad[3:]) if needed and differentiable[i][1]]
        ctx.number, ctx.wide, ctx.options, ctx.wrt, ctx.gradients = number, wide, options, wrt, None
        ctx.save_for_backward(*tensors)
        with place(tensors):
            inputs = exchange.inputs(tensors)
            known = [] if rounds_late(tensors, wrt) else wrt
            if not known and not wide:
                return exchange.own(_core._loss(number, *inputs, *options))
            value, gradients = _core._loss_forward(number, known, wide, *inputs, *options)
            if gradients is not None:
                ctx.gradients = [exchange.given(g) for g in gradients]
            return exchange.given(value)

    @staticmethod
    def backward(ctx, grad):
        require_one_cotangent(registry[ctx.number]["name"])
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled() or exchange.is_transformed():  # a graph of the gradients, or several cotangents at a time
            found = _func.gradients(ctx.number, ctx.wide, ctx.options, ctx.wrt, grad, *tensors)
        elif ctx.gradients is None:  # not one number, or of f16, or given away before
            found = gradients(ctx.number, ctx.wide, ctx.options, ctx.wrt, grad, tensors)
        else:
            # They are given away: PyTorch may then take them as they are and add to them.
            found, ctx.gradients = ctx.gradients, None
            exchange.scale(found, grad)
        return None, None, None, *spread(found, ctx.wrt, len(tensors))


def gradients(number, wide, options, wrt, grad, tensors):
    with place(tensors):
        found = _core._loss_backward(number, exchange.taken(grad), wide, *exchange.inputs(tensors), *options)
        chosen = [found[i] for i in wrt]
        _core.eval(*chosen)
        return tuple(exchange.own(g) for g in chosen)
