# SPDX-License-Identifier: MIT
"""The losses under torch.compile, which wants operations with names, and with results whose shapes are known without computing
them. ebb::loss and ebb::loss_gradient have as many inputs as any loss has.
"""

import torch
from torch.fx.experimental.symbolic_shapes import guard_scalar

from .. import _core
from ..losses import registry
from . import _eager
from . import _exchange as exchange
from ._functions import differentiable, rounds_late, scaled, spread
from ._stream import place

MOST = max(len(entry["inputs"]) for entry in registry)
TENSORS = ", ".join(f"Tensor? t{i}" for i in range(MOST))


def _options_from(number, texts):
    """Options that were made text on the way through a compiled graph."""
    found = []
    for (_, default, _), text in zip(registry[number]["options"], texts):
        if isinstance(default, bool):
            found.append(text == "True")
        else:
            found.append(text if isinstance(default, str) else float(text))
    return found


def _like(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _result_of(number, options, tensors):
    """(shape, dtype) of a loss of tensors whose sizes may be symbols. Ebb's tensors are lazy and tell the shape of a result
    without computing it, for sizes that are numbers: those that the symbols stand for now. Where a size of the result is
    twice as large for twice the size of a symbol, it is that symbol.
    """
    symbols = {}  # by their expression
    for x in tensors:
        for s in () if x is None else x.shape:
            if not isinstance(s, int):
                symbols.setdefault(str(s.node.expr), s)

    def result(doubled):
        def size(s):
            return s if isinstance(s, int) else s.node.hint * (2 if str(s.node.expr) in doubled else 1)

        given = [None if x is None else _core.zeros([size(s) for s in x.shape], str(x.dtype)) for x in tensors]
        y = _core._loss(number, *given, *options)
        return list(y.shape), exchange.DTYPES[y.dtype.name]

    now, dtype = result(())
    shape = list(now)
    for name, symbol in symbols.items() if now else ():
        equal = [other for other, s in symbols.items() if s.node.hint == symbol.node.hint]
        for doubled in ([name], equal):
            try:
                larger, _ = result(doubled)
            except Exception:  # sizes of inputs that have to be one
                continue
            for other in doubled:
                torch._check(symbols[other] == symbol)
            shape = [symbol if b != a else s for s, a, b in zip(shape, now, larger)]
            break
        else:
            shape = [int(symbol) if n == symbol.node.hint else s for s, n in zip(shape, now)]
    return shape, dtype


def _given_inputs(number, tensors):
    return tensors[: len(registry[number]["inputs"])]


# The value and, where it is one number and they are not f16, its gradients at the positions wrt: one pass for both. Backward scales
# them.
@torch.library.custom_op(
    "ebb::loss",
    mutates_args=(),
    schema=f"(int number, bool wide, str[] options, int[] wrt, {TENSORS}) -> Tensor[]",
)
def loss(number, wide, options, wrt, *tensors):
    given = _given_inputs(number, tensors)
    with place(given):
        inputs = exchange.inputs(given)
        known = [] if rounds_late(tensors, wrt) else list(wrt)
        value, gradients = _core._loss_forward(number, known, wide, *inputs, *_options_from(number, options))
        return [exchange.given(x) for x in (value, *(gradients or ()))]


@loss.register_fake
def _(number, wide, options, wrt, *tensors):
    given = _given_inputs(number, tensors)
    shape, dtype = _result_of(number, _options_from(number, options), given)
    like = next(x for x in tensors if x is not None)
    value = like.new_empty(shape, dtype=torch.float32 if wide and dtype != torch.float64 else dtype)
    return [value] + [_like(tensors[i]) for i in wrt if not shape and not rounds_late(tensors, wrt)]


@torch.library.custom_op(
    "ebb::loss_gradient",
    mutates_args=(),
    schema=f"(Tensor grad, int number, bool wide, str[] options, int[] wrt, {TENSORS}) -> Tensor[]",
)
def loss_gradient(grad, number, wide, options, wrt, *tensors):
    given = _given_inputs(number, tensors)
    return list(_eager.gradients(number, wide, _options_from(number, options), list(wrt), grad, given))


@loss_gradient.register_fake
def _(grad, number, wide, options, wrt, *tensors):
    return [_like(tensors[i]) for i in wrt]


def _keep_results(ctx, inputs, output):
    ctx.number, ctx.wide, ctx.options, ctx.wrt, *tensors = inputs
    ctx.in_one_pass = len(output) > 1
    ctx.save_for_backward(*(output[1:] if ctx.in_one_pass else tensors))


def _pull_back(ctx, grads):
    grad, wrt = grads[0], ctx.wrt
    if ctx.in_one_pass:
        found = scaled(ctx.saved_tensors, grad)
    else:
        found = torch.ops.ebb.loss_gradient(grad, ctx.number, ctx.wide, ctx.options, wrt, *ctx.saved_tensors)
    return None, None, None, None, *spread(found, wrt, MOST)


loss.register_autograd(_pull_back, setup_context=_keep_results)


def _text(option):
    """An option as text. A number that differed between calls is a symbol to Dynamo: PyTorch 2.11 would write its name."""
    return f"{option if isinstance(option, (bool, str)) else guard_scalar(option)}"


def compute(number, wide, options, *tensors):
    options = [_text(option) for option in options]
    needed = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in tensors]
    padded = list(tensors) + [None] * (MOST - len(tensors))
    return torch.ops.ebb.loss(number, wide, options, differentiable(number, needed), *padded)[0]
