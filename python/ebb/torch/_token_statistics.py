# SPDX-License-Identifier: MIT
"""Log-probabilities of tokens, entropies and more from hidden states and an LM head, of ordinary tensors.

Two operations with names, which eager PyTorch and torch.compile both use. The backward pass computes the logits again, chunk
by chunk, for the outputs that have a gradient, and takes what it needs to know of a row from the values of the forward pass.
"""

import torch

from .. import _core
from . import _exchange as exchange
from ._functions import dense, last_derivative, leading, one_by_one, require_one_cotangent
from ._stream import place

OUTPUTS = ("log_probs", "entropy", "logsumexp", "log_sum_sq_probs", "mean_logits", "argmax")
_KEPT = ("logsumexp", "entropy", "log_sum_sq_probs")  # values that a backward pass uses
_OPTIONS = "float temperature, float logit_scale, float softcap, int ignore_index, int chunk, str[] outputs"
_INPUTS = "Tensor x, Tensor head, Tensor target, Tensor? bias"
_OPERANDS = (0, 1, 3)  # x, head and bias among the inputs: those that have gradients


def _computed(names, x, head, temperature, logit_scale):
    """The outputs with those that the backward pass needs. log p alone has a kernel that needs none, where logits are not
    scaled or in f32. What is computed does not depend on who asks for a gradient, and so neither do the bits.
    """
    scaled_halves = temperature != logit_scale and x.dtype.itemsize == 2 and head.dtype.itemsize == 2
    return names if "logsumexp" in names or (names == ["log_probs"] and not scaled_halves) else [*names, "logsumexp"]


def _kept(names, values):
    found = dict(zip(names, values))
    return [found.get(name) for name in _KEPT]


def number(function, name, value):
    """An option that is a number, perhaps in a tensor. It has no gradient."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"{function}: {name} must be one number, got a tensor of shape {list(value.shape)}; where each row has its own, "
                "scale the hidden states"
            )
        if value.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{function}: there is no gradient of {name}; scale the hidden states with it, or detach it")
    return float(value)


def _native(inputs, options):
    (x, head, target, bias), (temperature, logit_scale, softcap, ignore_index, chunk, outputs) = inputs, options
    given = exchange.inputs((x, head, target, bias))
    return *given, ignore_index, logit_scale, softcap, temperature, chunk, list(outputs)


@torch.library.custom_op(
    "ebb::token_statistics", mutates_args=(), schema=f"({_INPUTS}, {_OPTIONS}) -> Tensor[]"
)
def statistics(x, head, target, bias, *options):
    inputs = (x, head, target, bias)
    with place(inputs):
        return [exchange.given(y) for y in _core._token_statistics(*_native(inputs, options))]


@statistics.register_fake
def _(x, head, target, bias, *options):
    wide = torch.float64 if torch.float64 in (x.dtype, head.dtype) else torch.float32
    return [
        x.new_empty(target.shape, dtype=torch.int64 if name == "argmax" else wide, device=x.device)
        for name in options[-1]
    ]


@torch.library.custom_op(
    "ebb::token_statistics_gradients",
    mutates_args=(),
    schema=f"(Tensor[] grads, Tensor?[] kept, int[] wrt, {_INPUTS}, {_OPTIONS}) -> Tensor[]",
)
def gradients(grads, kept, wrt, x, head, target, bias, *options):
    inputs = (x, head, target, bias)
    with place(inputs):
        cotangents, known = exchange.inputs(grads), exchange.inputs(kept)
        found = _core._token_statistics_gradients(cotangents, known, list(wrt), *_native(inputs, options))
        return [exchange.given(g) for g in found]


@gradients.register_fake
def _(grads, kept, wrt, x, head, target, bias, *options):
    return [torch.empty_like((x, head, bias)[k], memory_format=torch.contiguous_format) for k in wrt]


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:4], *_kept(inputs[-1], output))
    ctx.options = inputs[4:]


def _positions_of(needed):
    return [k for k, at in enumerate(_OPERANDS) if needed[at]]


def _in_places(found, wrt, count):
    result = [None] * count
    for k, g in zip(wrt, found):
        result[_OPERANDS[k]] = g
    return result


def _pull_back(ctx, grads):
    x, head, target, bias, *kept = ctx.saved_tensors
    *options, names = ctx.options
    used = [(name, g) for name, g in zip(names, grads) if g is not None and name != "argmax"]
    wrt, found = _positions_of(ctx.needs_input_grad), []
    if used and wrt:
        found = torch.ops.ebb.token_statistics_gradients(
            [g for _, g in used], kept, wrt, x, head, target, bias, *options, [name for name, _ in used]
        )
    return tuple(_in_places(found, wrt, 4 + len(ctx.options)))


statistics.register_autograd(_pull_back, setup_context=_keep)

# ---- torch.func, which wants functions whose forward pass does not see its context: the outputs y, their gradients Jᵀ·g,
# their derivatives J·v in a direction, and the derivatives of Jᵀ·g in a direction. Values kept from the forward pass are
# functions of the inputs, as which their derivatives are part of those by the inputs.

Last = last_derivative("linear_log_probs: PyTorch can differentiate it twice; ebb.linear_log_probs more often")


class Values(torch.autograd.Function):
    @staticmethod
    def forward(x, head, target, bias, *options):
        return tuple(statistics(x, head, target, bias, *options))

    @staticmethod
    def setup_context(ctx, inputs, output):
        _keep(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4])
        ctx.mark_non_differentiable(*(y for y in output if not y.is_floating_point()))

    @staticmethod
    def backward(ctx, *grads):
        require_one_cotangent("linear_log_probs")
        wrt = _positions_of(ctx.needs_input_grad)
        *options, names = ctx.options
        used = [k for k, name in enumerate(names) if name != "argmax"]
        given = (*options, [names[k] for k in used])
        found = Gradients.apply(wrt, given, *ctx.saved_tensors, *(grads[k] for k in used))
        return tuple(_in_places(found, wrt, 4 + len(ctx.options)))

    @staticmethod
    def jvp(ctx, *tangents):
        *options, names = ctx.options
        moving = [k for k in range(3) if tangents[_OPERANDS[k]] is not None]
        floating = [name for name in names if name != "argmax"]
        given = [tangents[_OPERANDS[k]] for k in moving]
        found = dict(zip(floating, Tangents.apply(moving, (*options, floating), *ctx.saved_tensors[:4], *given)))
        return tuple(found.get(name) for name in names)

    @staticmethod
    def vmap(info, in_dims, x, head, target, bias, *options):
        if in_dims[1] is not None or in_dims[3] is not None:  # a head for each sample
            return one_by_one(lambda *sample: Values.apply(*sample, *options), info, in_dims[:4], (), (x, head, target, bias))
        rows = leading(x, in_dims[0], info.batch_size), leading(target, in_dims[2], info.batch_size)
        found = Values.apply(rows[0], head, rows[1], bias, *options)
        return found, (0,) * len(found)


class Gradients(torch.autograd.Function):
    @staticmethod
    def forward(wrt, options, x, head, target, bias, lse, entropy, squares, *grads):
        kept = (lse, entropy, squares)
        return tuple(gradients(dense(grads), kept, wrt, x, head, target, bias, *options))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.wrt, ctx.options = inputs[:2]
        ctx.save_for_backward(*inputs[2:])
        ctx.save_for_forward(*inputs[2:])

    @staticmethod
    def backward(ctx, *cotangents):
        tensors, grads = ctx.saved_tensors[:4], ctx.saved_tensors[7:]
        of_grads = Tangents.apply(ctx.wrt, ctx.options, *tensors, *cotangents)
        found = Second.apply(ctx.wrt, ctx.options, len(cotangents), *tensors, *cotangents, *grads)
        return None, None, *_in_places(found, ctx.wrt, 4), None, None, None, *of_grads

    # Second derivatives are symmetric: the direction takes the place of the cotangents.
    @staticmethod
    def jvp(ctx, wrt, options, *tangents):
        tensors, kept, grads = ctx.saved_tensors[:4], ctx.saved_tensors[4:7], ctx.saved_tensors[7:]
        of_grads, found = tangents[7:], None
        moving = [k for k in range(3) if tangents[_OPERANDS[k]] is not None]
        if moving:
            at = sorted({*ctx.wrt, *moving})
            inputs = [(tangents[_OPERANDS[k]], tensors[_OPERANDS[k]]) for k in at]
            given = [torch.zeros_like(x) if t is None else t for t, x in inputs]
            every = Second.apply(at, ctx.options, len(at), *tensors, *given, *grads)
            found = [every[at.index(k)] for k in ctx.wrt]
        if any(t is not None for t in of_grads):
            given = [torch.zeros_like(g) if t is None else t for t, g in zip(of_grads, grads)]
            more = Gradients.apply(ctx.wrt, ctx.options, *tensors, *kept, *given)
            found = more if found is None else [a + b for a, b in zip(found, more)]
        return tuple(found)

    @staticmethod
    def vmap(info, in_dims, wrt, options, *tensors):
        if wrt == [0] and in_dims[3] is None and in_dims[5] is None:  # samples are rows
            moved = [t if t is None else leading(t, d, info.batch_size) for t, d in zip(tensors, in_dims[2:])]
            moved[1], moved[3] = tensors[1], tensors[3]
            return Gradients.apply(wrt, options, *moved), (0,)
        return one_by_one(Gradients.apply, info, in_dims[2:], (wrt, options), tensors)


class Tangents(torch.autograd.Function):
    @staticmethod
    def forward(at, options, x, head, target, bias, *tangents):
        inputs = (x, head, target, bias)
        with place(inputs):
            directions = exchange.inputs(dense(tangents))
            found = _core._token_statistics_tangents(directions, at, *_native(inputs, options))
            return tuple(exchange.given(y) for y in found)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.at, ctx.options = inputs[:2]
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx, *grads):
        tensors, tangents = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        of_tangents = Gradients.apply(ctx.at, ctx.options, *tensors, None, None, None, *grads)
        wrt = _positions_of(ctx.needs_input_grad[2:6])
        at = sorted({*ctx.at, *wrt})
        given = dict(zip(ctx.at, tangents))
        directions = [given[k] if k in given else torch.zeros_like(tensors[_OPERANDS[k]]) for k in at]
        every = Second.apply(at, ctx.options, len(at), *tensors, *directions, *grads)
        return None, None, *_in_places([every[at.index(k)] for k in wrt], wrt, 4), *of_tangents

    jvp = staticmethod(Last.jvp)

    @staticmethod
    def vmap(info, in_dims, at, options, x, head, target, bias, *tangents):
        if at == [0] and in_dims[3] is None and in_dims[5] is None:  # samples are rows
            rows = [leading(t, d, info.batch_size) for t, d in ((x, in_dims[2]), (target, in_dims[4]), (tangents[0], in_dims[6]))]
            found = Tangents.apply(at, options, rows[0], head, rows[1], bias, rows[2])
            return found, (0,) * len(found)
        return one_by_one(Tangents.apply, info, in_dims[2:], (at, options), (x, head, target, bias, *tangents))


class Second(Last):
    @staticmethod
    def forward(wrt, options, count, x, head, target, bias, *tensors):
        inputs = (x, head, target, bias)
        with place(inputs):
            given = exchange.inputs(dense(tensors))
            found = _core._token_statistics_second(given[:count], given[count:], wrt, *_native(inputs, options))
            return tuple(exchange.given(y) for y in found)

    @staticmethod
    def vmap(info, in_dims, wrt, options, count, *tensors):
        return one_by_one(Second.apply, info, in_dims[3:], (wrt, options, count), tensors)


def of_tensors(
    x, head, target, *, bias, outputs, temperature=1.0, logit_scale=1.0, softcap=0.0, ignore_index=-100, chunk=0
):
    """The outputs of these names; for options see linear_log_probs."""
    exchange.require_dense("linear_log_probs", (x, head, target, bias))
    low = exchange.autocast_dtype(x)
    if low is not None and x.dtype != torch.float64:
        x, head, bias = x.to(low), head.to(low), None if bias is None else bias.to(low)
    computed = _computed(outputs, x, head, temperature, logit_scale)
    options = (float(temperature), float(logit_scale), float(softcap), int(ignore_index), int(chunk), computed)
    # The operation with a name has first derivatives alone.
    compute = torch.ops.ebb.token_statistics if exchange.is_recorded((x, head, target, bias)) else Values.apply
    return tuple(compute(x, head, target, bias, *options)[: len(outputs)])
