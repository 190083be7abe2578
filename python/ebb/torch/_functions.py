# SPDX-License-Identifier: MIT
"""What the autograd functions of ebb.torch share: gradients at their places, and torch.func's samples one at a time."""

import torch

from ..losses import registry
from ._exchange import times


def differentiable(number, needed):
    inputs = registry[number]["inputs"]
    return [i for i, n in enumerate(needed) if n and inputs[i][1]]


def spread(found, wrt, count):
    result = [None] * count
    for position, gradient in zip(wrt, found):
        result[position] = gradient
    return result


def scaled(gradients, factor):
    """Each times the factor, rounded once: the factor of halves is not."""
    found = []
    for g in gradients:
        wide = torch.promote_types(g.dtype, factor.dtype)
        found.append(times(g.to(wide), factor.to(wide)).to(g.dtype))
    return found


def rounds_late(tensors, wrt):
    """Do gradients wait for the cotangent of the loss? Those of f16 do: a loss of many tokens has gradients below f16's numbers, or,
    summed, above them, and what GradScaler multiplies the loss by has to come before they are rounded.
    """
    return any(tensors[k].dtype is torch.float16 for k in wrt)


def require_one_cotangent(name):
    """is_grads_batched and vectorize=True are the vmap that PyTorch had before torch.func; functions in Python cannot take part."""
    depth = torch._C._vmapmode_increment_nesting()
    torch._C._vmapmode_decrement_nesting()
    if depth > 1:
        raise RuntimeError(f"{name}: several cotangents at a time (is_grads_batched, vectorize=True) need torch.func: jacrev, or vmap of vjp")


# ---- functions of torch.func's that take one sample at a time


def leading(x, axis, count):
    """x with the samples of vmap in front."""
    return x.unsqueeze(0).expand(count, *x.shape) if axis is None else x.movedim(axis, 0)


def one_by_one(function, info, in_dims, constants, tensors):
    """vmap: function(*constants, *tensors) of each sample."""
    parts = [
        [None] * info.batch_size if t is None else leading(t, d, info.batch_size).unbind() for t, d in zip(tensors, in_dims)
    ]
    each = [function(*constants, *sample) for sample in zip(*parts)]
    return tuple(torch.stack(results) for results in zip(*each)), (0,) * len(each[0])


def dense(tensors):
    """Zeros that forward mode has made up have no memory."""
    return [t.clone() if t is not None and t._is_zerotensor() else t for t in tensors]


def last_derivative(message):
    """The base of functions for torch.func that are not differentiated again."""

    def refused(*_):
        raise RuntimeError(message)

    class Last(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        backward = staticmethod(refused)
        jvp = staticmethod(refused)

    return Last
