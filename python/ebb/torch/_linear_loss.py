# SPDX-License-Identifier: MIT
"""ebb.torch.linear_loss: a loss with a formula of one's own, from hidden states and an LM head.

The value and the gradients that PyTorch will ask for are computed in one pass over chunks of rows; backward only scales them, but
for those of f16, which it computes. torch.compile keeps an operation with a name, which knows its formula by a number.
"""

import torch

from .. import _core
from . import _exchange as exchange
from ._functions import dense, last_derivative, one_by_one, require_one_cotangent, rounds_late, scaled, spread
from ._log_probs import linear_log_probs
from ._stream import place
from ._token_statistics import number

_OPERANDS = 3  # x, head and bias come before the others among the inputs that have gradients
_formulas = []


@torch._dynamo.assume_constant_result
def _number_of(formula):
    if formula not in _formulas:
        _formulas.append(formula)
    return _formulas.index(formula)


def _times_last(formula):
    return lambda *given: formula(*given[:-1]) * given[-1]


def _compute(formula, wrt, x, head, target, bias, others, shared, options, factor=None):
    """The loss and its gradients, times the factor if there is one."""
    if factor is not None:
        formula, shared = _times_last(formula), [*shared, factor]
    with place((x, head)):
        given = exchange.inputs((x, head, target, bias))
        rows, whole = exchange.inputs(others), exchange.inputs(shared)
        found = _core._linear_loss(formula, list(wrt), *given, rows, whole, *options)
        return [exchange.given(y) for y in found]


def _differentiable(x, head, bias, others, shared):
    return [x, head, bias, *others, *shared]


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, formula, options, target, cut, *tensors):
        floating = [t is not None and t.is_floating_point() for t in tensors]
        ctx.wrt = [k for k, needed in enumerate(ctx.needs_input_grad[4:]) if needed and floating[k]]
        ctx.call = formula, options, cut
        ctx.save_for_backward(target, *tensors)
        loss, *ctx.gradients = _computed(ctx.call, [] if rounds_late(tensors, ctx.wrt) else ctx.wrt, target, *tensors)
        return loss

    @staticmethod
    def backward(ctx, grad):
        require_one_cotangent("linear_loss")
        if torch.is_grad_enabled() or exchange.is_transformed():  # a graph of the gradients
            (known, ctx.gradients), tensors = (ctx.gradients or (), None), ctx.saved_tensors
            found = scaled(Gradients.apply(ctx.call, ctx.wrt, len(known), *known, *tensors), grad)
            return None, None, None, None, *spread(found, ctx.wrt, len(ctx.needs_input_grad) - 4)
        if rounds_late(ctx.saved_tensors[1:], ctx.wrt):
            _, *found = _computed(ctx.call, ctx.wrt, *ctx.saved_tensors, factor=grad)
        else:
            if ctx.gradients is None:  # they were given away by an earlier backward pass
                _, *ctx.gradients = _computed(ctx.call, ctx.wrt, *ctx.saved_tensors)
            found, ctx.gradients = ctx.gradients, None
            exchange.scale(found, grad)
        return None, None, None, None, *spread(found, ctx.wrt, len(ctx.needs_input_grad) - 4)


# ---- torch.func: the loss with its gradients, which are outputs; the gradients as a function that has derivatives; those. A
# call is (formula, options, how many of the tensors behind the bias are cut). Tensors are the target, then those with gradients.


def _computed(call, wrt, target, x, head, bias, *further, factor=None):
    formula, options, cut = call
    return _compute(formula, wrt, x, head, target, bias, further[:cut], further[cut:], options, factor)


class Transformed(torch.autograd.Function):
    @staticmethod
    def forward(call, wrt, *tensors):
        return tuple(_computed(call, wrt, *tensors))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, ctx.wrt, *tensors = inputs
        ctx.count = len(tensors)
        ctx.save_for_backward(*tensors, *output[1:])
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx, grad, *_):
        tensors, known = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        found = scaled(Gradients.apply(ctx.call, ctx.wrt, len(known), *known, *tensors), grad)
        return None, None, None, *spread(found, ctx.wrt, ctx.count - 1)

    @staticmethod
    def jvp(ctx, call, wrt, target, *tangents):
        moving = [k for k, t in enumerate(tangents) if t is not None]
        found = Gradients.apply(ctx.call, moving, 0, *ctx.saved_tensors[: ctx.count])
        return sum((g * tangents[k]).sum() for g, k in zip(found, moving)), *[None] * len(ctx.wrt)

    @staticmethod
    def vmap(info, in_dims, call, wrt, *tensors):
        return one_by_one(Transformed.apply, info, in_dims[2:], (call, wrt), tensors)


class Gradients(torch.autograd.Function):
    @staticmethod
    def forward(call, wrt, known, *tensors):
        if known:
            return tuple(g.view_as(g) for g in tensors[:known])
        return tuple(_computed(call, wrt, *tensors)[1:])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, ctx.wrt, ctx.known, *tensors = inputs
        ctx.save_for_backward(*tensors[ctx.known :])
        ctx.save_for_forward(*tensors[ctx.known :])

    @staticmethod
    def backward(ctx, *cotangents):
        tensors = ctx.saved_tensors
        found = Second.apply(ctx.call, ctx.wrt, *cotangents, *tensors)
        return None, None, None, *[None] * ctx.known, None, *spread(found, ctx.wrt, len(tensors) - 1)

    # Second derivatives are symmetric: the direction takes the place of the cotangents.
    @staticmethod
    def jvp(ctx, call, wrt, known, *tangents):
        target, *tensors = ctx.saved_tensors
        tangents = tangents[ctx.known + 1 :]
        at = sorted({*ctx.wrt, *(k for k, t in enumerate(tangents) if t is not None)})
        given = [torch.zeros_like(tensors[k]) if tangents[k] is None else tangents[k] for k in at]
        found = Second.apply(ctx.call, at, *given, target, *tensors)
        return tuple(found[at.index(k)] for k in ctx.wrt)

    @staticmethod
    def vmap(info, in_dims, call, wrt, known, *tensors):
        return one_by_one(Gradients.apply, info, in_dims[3:], (call, wrt, known), tensors)


class Second(last_derivative("linear_loss: PyTorch can differentiate it twice; ebb's linear losses more often")):
    @staticmethod
    def forward(call, wrt, *tensors):
        formula, options, cut = call
        count = len(wrt)
        directions, (target, x, head, bias, *further) = dense(tensors[:count]), tensors[count:]
        with place((x, head)):
            given = exchange.inputs((x, head, target, bias))
            rows, whole = exchange.inputs(further[:cut]), exchange.inputs(further[cut:])
            along = exchange.inputs(directions)
            found = _core._linear_loss_second(formula, list(wrt), along, *given, rows, whole, *options)
            return tuple(exchange.given(y) for y in found)

    @staticmethod
    def vmap(info, in_dims, call, wrt, *tensors):
        return one_by_one(Second.apply, info, in_dims[2:], (call, wrt), tensors)


@torch.library.custom_op(
    "ebb::linear_loss",
    mutates_args=(),
    schema="(int formula, int[] wrt, Tensor x, Tensor head, Tensor? target, Tensor? bias, Tensor[] others, "
    "Tensor[] shared, Tensor? factor, str of, int sides, str reduction, int ignore_index, float logit_scale, float softcap, "
    "float temperature, int chunk) -> Tensor[]",
)
def loss_op(formula, wrt, x, head, target, bias, others, shared, factor, *options):
    known = _known_at_once(wrt, factor, _differentiable(x, head, bias, others, shared))
    return _compute(_formulas[formula], known, x, head, target, bias, others, shared, options, factor)


def _known_at_once(wrt, factor, tensors):
    return [] if factor is None and rounds_late(tensors, wrt) else wrt


@loss_op.register_fake
def _(formula, wrt, x, head, target, bias, others, shared, factor, *options):
    wide = torch.float64 if torch.float64 in (x.dtype, head.dtype) else torch.float32
    given = _differentiable(x, head, bias, others, shared)
    return [x.new_empty((), dtype=wide)] + [
        torch.empty_like(given[k], memory_format=torch.contiguous_format) for k in _known_at_once(wrt, factor, given)
    ]


def _keep(ctx, inputs, output):
    ctx.formula, ctx.wrt, *operands, others, shared, _, ctx.options = *inputs[:9], inputs[9:]
    ctx.others, ctx.shared, ctx.in_one_pass = len(others), len(shared), len(output) > 1
    ctx.save_for_backward(*(output[1:] if ctx.in_one_pass else (*operands, *others, *shared)))


def _pull_back(ctx, grads):
    if ctx.in_one_pass:
        found = scaled(ctx.saved_tensors, grads[0])
    else:
        *operands, further = *ctx.saved_tensors[:4], list(ctx.saved_tensors[4:])
        rows, whole = further[: ctx.others], further[ctx.others :]
        found = torch.ops.ebb.linear_loss(ctx.formula, ctx.wrt, *operands, rows, whole, grads[0], *ctx.options)[1:]
    x, head, bias, *further = spread(found, ctx.wrt, _OPERANDS + ctx.others + ctx.shared)
    return None, None, x, head, None, bias, further[: ctx.others], further[ctx.others :], *[None] * 9


loss_op.register_autograd(_pull_back, setup_context=_keep)


def _by_torch(x, head, target, formula, others, shared, reduction, **options):
    log_probs = linear_log_probs(x, head, target, **options)
    terms = formula(log_probs, *others, *shared)
    return terms.mean() if reduction == "mean" else terms.sum()


def linear_loss(
    x,
    head,
    target,
    formula,
    *others,
    shared=(),
    of="log_probs",
    tensors="ebb",
    sides=1,
    reduction="mean",
    bias=None,
    temperature=1.0,
    logit_scale=1.0,
    softcap=0.0,
    ignore_index=-100,
    chunk=0,
):
    """The mean or sum of formula(log_probs, *others) of hidden states x [.., H] under an LM head [V, H], in f32 (f64 for
    f64), without a tensor of N×V.

    The formula is a function of Ebb tensors. It is called with some entries of the first axis of target at a time
    (tokens of [N], answers of [A, T]) and returns one term per entry, [n]. Value and gradients are computed together, by
    three products with the head, in chunks of rows in their order; the gradient of the head is summed in f32. The same
    call gives the same bits. Gradients go to x, head, bias, others and shared.

        def dpo(log_probs, reference):            # [2n, T] and [2n]: n chosen answers, then their rejected ones
            ratio = log_probs.sum(-1) - reference
            n = ratio.shape[0] // 2
            return -ebb.log_sigmoid(0.1 * (ratio[:n] - ratio[n:]))

        loss = ebb.torch.linear_loss(hidden, model.lm_head.weight, labels, dpo, reference, sides=2)

    others: tensors with one entry per entry of target (or per pair), cut like it, or numbers without axes
    shared: tensors that the formula is given whole after the others, such as the head of a teacher
    of: log_probs, in the shape of target and 0 where it is ignore_index; or logits, [.., V], followed by the target unless
        that is None
    tensors: whose tensors the formula takes, ebb's or torch's. A formula of torch is called once with all log_probs; with
        its backward pass that takes four products
    sides: how many entries make a term; with 2, entry k belongs to entry k + A/2
    bias, temperature, logit_scale, softcap: the logits are softcap(logit_scale·(x·headᵀ + bias)) / temperature
    chunk: rows whose logits exist at a time (default 0: chosen)
    """
    if not callable(formula):
        raise TypeError(f"linear_loss: the formula must be a function, got {type(formula).__name__}")
    for name, value, known in (
        ("of", of, ("log_probs", "logits")),
        ("tensors", tensors, ("ebb", "torch")),
        ("reduction", reduction, ("mean", "sum")),
    ):
        if value not in known:
            raise ValueError(f"linear_loss: {name} must be {known[0]!r} or {known[1]!r}, got {value!r}")
    others = [exchange.number_tensor(t, x) for t in others]
    shared = [exchange.number_tensor(t, x) for t in shared]
    if tensors == "ebb" or not exchange.has_parts((x, head)):
        exchange.require_dense("linear_loss", (x, head, target, bias, *others, *shared))
    if tensors == "torch":
        if of != "log_probs":
            raise ValueError("linear_loss: a formula of torch takes log_probs; one of logits needs tensors='ebb'")
        options = dict(temperature=temperature, logit_scale=logit_scale, softcap=softcap)
        options.update(ignore_index=ignore_index, chunk=chunk, bias=bias)
        return _by_torch(x, head, target, formula, others, shared, reduction, **options)
    low = exchange.autocast_dtype(x)
    if low is not None and x.dtype != torch.float64:
        x, head, bias = x.to(low), head.to(low), None if bias is None else bias.to(low)
    options = (of, int(sides), reduction, int(ignore_index))
    scales = (("logit_scale", logit_scale), ("softcap", softcap), ("temperature", temperature))
    options += (*(number("linear_loss", *each) for each in scales), int(chunk))
    inputs = _differentiable(x, head, bias, others, shared)
    named = exchange.is_recorded(inputs)
    if not named and not exchange.is_transformed():
        return Loss.apply(formula, options, target, len(others), *inputs)
    asked = [torch.is_grad_enabled() and t is not None and t.requires_grad and t.is_floating_point() for t in inputs]
    wrt = [k for k, needed in enumerate(asked) if needed]
    if not named:
        return Transformed.apply((formula, options, len(others)), wrt, target, *inputs)[0]
    return torch.ops.ebb.linear_loss(_number_of(formula), wrt, x, head, target, bias, others, shared, None, *options)[0]


linear_loss.__module__ = "ebb.torch"
