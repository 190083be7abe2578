# SPDX-License-Identifier: MIT
"""The losses of ebb.torch inside torch.func's transforms and torch.compile.

torch.func wants functions whose forward pass does not see its context; torch.compile wants operations with names, and
with results whose shapes are known without computing them. Ebb's tensors are lazy, so they tell.
"""

import torch

from . import _core
from .losses import registry

TORCH_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}


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
        return list(y.shape), TORCH_DTYPES[y.dtype.name]

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


def _differentiable(number, needed):
    inputs = registry[number]["inputs"]
    return [i for i, n in enumerate(needed) if n and inputs[i][1]]


def spread(found, wrt, count):
    result = [None] * count
    for position, gradient in zip(wrt, found):
        result[position] = gradient
    return result


def make(exchange):
    """(the loss for torch.func, the loss for torch.compile). exchange has ebb.torch's conversions."""

    # ---- torch.func

    def each(function, constants, info, in_dims, args):
        """vmap: the function of every element of the batch."""
        results = []
        for i in range(info.batch_size):
            picked = [a if d is None else a.select(d, i) for a, d in zip(args, in_dims)]
            results.append(function.apply(*constants, *picked))
        if isinstance(results[0], tuple):
            return tuple(torch.stack(parts) for parts in zip(*results)), tuple(0 for _ in results[0])
        return torch.stack(results), 0

    class Value(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, *tensors):
            with exchange.place(tensors):
                return exchange._own(_core._loss_forward(number, [], wide, *exchange._inputs(tensors), *options)[0])

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.number, ctx.wide, ctx.options, *tensors = inputs
            ctx.save_for_backward(*tensors)

        @staticmethod
        def backward(ctx, grad):
            tensors = ctx.saved_tensors
            wrt = _differentiable(ctx.number, ctx.needs_input_grad[3:])
            found = Gradient.apply(ctx.number, ctx.wide, ctx.options, wrt, grad, *tensors)
            return None, None, None, *spread(found, wrt, len(tensors))

        @staticmethod
        def vmap(info, in_dims, number, wide, options, *tensors):
            return each(Value, (number, wide, options), info, in_dims[3:], tensors)

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, wrt, grad, *tensors):
            return exchange._gradients(number, wide, options, wrt, grad, tensors)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.number, ctx.wide, ctx.options, ctx.wrt, *tensors = inputs
            ctx.save_for_backward(*tensors)

        @staticmethod
        def backward(ctx, *cotangents):
            found = Second.apply(ctx.number, ctx.wide, ctx.options, ctx.wrt, len(cotangents), *cotangents, *ctx.saved_tensors)
            return None, None, None, None, found[0], *spread(found[1:], ctx.wrt, len(ctx.saved_tensors) - 1)

        @staticmethod
        def vmap(info, in_dims, number, wide, options, wrt, *tensors):
            return each(Gradient, (number, wide, options, wrt), info, in_dims[4:], tensors)

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, wrt, count, *tensors):
            cotangents, grad, given = tensors[:count], tensors[count], tensors[count + 1 :]
            return exchange._second(number, wide, options, wrt, cotangents, grad, given)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.name = registry[inputs[0]]["name"]

        @staticmethod
        def backward(ctx, *cotangents):
            raise RuntimeError(f"{ctx.name}: PyTorch can differentiate it twice; use ebb.grad for more")

        @staticmethod
        def vmap(info, in_dims, number, wide, options, wrt, count, *tensors):
            return each(Second, (number, wide, options, wrt, count), info, in_dims[5:], tensors)

    # ---- torch.compile: ebb::loss and ebb::loss_gradient, with as many inputs as any loss has

    most = max(len(entry["inputs"]) for entry in registry)
    names = [f"t{i}" for i in range(most)]
    tensors_in_schema = ", ".join(f"Tensor? {name}" for name in names)

    def real_inputs(number, tensors):
        return tensors[: len(registry[number]["inputs"])]

    # The value and, where it is one number, its gradients at the positions wrt: one pass for both. Backward scales them.
    @torch.library.custom_op(
        "ebb::loss",
        mutates_args=(),
        schema=f"(int number, bool wide, str[] options, int[] wrt, {tensors_in_schema}) -> Tensor[]",
    )
    def loss(number, wide, options, wrt, *tensors):
        given = real_inputs(number, tensors)
        with exchange.place(given):
            inputs = exchange._inputs(given)
            value, gradients = _core._loss_forward(number, list(wrt), wide, *inputs, *_options_from(number, options))
            return [exchange._given(x) for x in (value, *(gradients or ()))]

    @loss.register_fake
    def _(number, wide, options, wrt, *tensors):
        given = real_inputs(number, tensors)
        shape, dtype = _result_of(number, _options_from(number, options), given)
        like = next(x for x in tensors if x is not None)
        value = like.new_empty(shape, dtype=torch.float32 if wide and dtype != torch.float64 else dtype)
        return [value] + [_like(tensors[i]) for i in wrt if not shape]

    @torch.library.custom_op(
        "ebb::loss_gradient",
        mutates_args=(),
        schema=f"(Tensor grad, int number, bool wide, str[] options, int[] wrt, {tensors_in_schema}) -> Tensor[]",
    )
    def loss_gradient(grad, number, wide, options, wrt, *tensors):
        given = real_inputs(number, tensors)
        return list(exchange._gradients(number, wide, _options_from(number, options), list(wrt), grad, given))

    @loss_gradient.register_fake
    def _(grad, number, wide, options, wrt, *tensors):
        return [_like(tensors[i]) for i in wrt]

    def keep(ctx, inputs, output):
        ctx.number, ctx.wide, ctx.options, ctx.wrt, *tensors = inputs
        ctx.in_one_pass = len(output) > 1
        ctx.save_for_backward(*(output[1:] if ctx.in_one_pass else tensors))

    def pull_back(ctx, grads):
        grad, wrt = grads[0], ctx.wrt
        if ctx.in_one_pass:
            found = [g * grad.to(g.dtype) for g in ctx.saved_tensors]
        else:
            found = torch.ops.ebb.loss_gradient(grad, ctx.number, ctx.wide, ctx.options, wrt, *ctx.saved_tensors)
        return None, None, None, None, *spread(found, wrt, most)

    loss.register_autograd(pull_back, setup_context=keep)

    def compiled(number, wide, options, *tensors):
        needed = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in tensors]
        padded = list(tensors) + [None] * (most - len(tensors))
        return torch.ops.ebb.loss(number, wide, options, _differentiable(number, needed), *padded)[0]

    return Value.apply, compiled
