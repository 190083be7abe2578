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


def scaled(gradients, factor):
    """Each times the factor, rounded once: the factor of halves is not."""
    found = []
    for g in gradients:
        wide = torch.promote_types(g.dtype, factor.dtype)
        found.append((g.to(wide) * factor.to(wide)).to(g.dtype))
    return found


# ---- functions of torch.func's that take one sample at a time


def leading(x, axis, count):
    """x with the samples of vmap in front."""
    return x.unsqueeze(0).expand(count, *x.shape) if axis is None else x.movedim(axis, 0)


def one_by_one(function, info, in_dims, constants, tensors):
    """vmap: function.apply(*constants, *tensors) of each sample."""
    parts = [
        [None] * info.batch_size if t is None else leading(t, d, info.batch_size).unbind() for t, d in zip(tensors, in_dims)
    ]
    each = [function.apply(*constants, *sample) for sample in zip(*parts)]
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


def make(exchange):
    """(the loss for torch.func, the loss for torch.compile). exchange has ebb.torch's conversions."""

    # ---- torch.func: functions of order 0 (the loss), 1 (its gradients) and 2 (the derivatives of those). A batch is None or
    # (samples, which of the tensors have a leading axis of them); all results of a batch have that axis.

    def compute(order, number, wide, options, wrt, batch, cotangents, grad, tensors):
        with exchange.place(tensors):
            native = exchange._inputs(dense((*cotangents, grad, *tensors)))
            n = len(cotangents)
            given, inputs = (native[:n], native[n]), native[n + 1 :]
            count, batched = (0, ()) if batch is None else batch
            found = _core._losses_of_order(order, count, list(batched), number, wide, list(wrt), *given, *inputs, *options)
            return tuple(exchange._given(x) for x in found)

    def keep(ctx, names, constants, tensors):
        for name, value in zip(names, constants):
            setattr(ctx, name, value)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    def batched(function, info, in_dims, constants, batch, tensors):
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

    def over_samples(found, batch, positions):
        """Gradients of tensors that all samples share are sums over these."""
        return found if batch is None else [g if batch[1][p] else g.sum(0) for g, p in zip(found, positions)]

    def beside(batch, count):
        """The batch with so many tensors that have its axis in front of the others."""
        return None if batch is None else (batch[0], (True,) * count + batch[1])

    class Value(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, batch, *tensors):
            return compute(0, number, wide, options, (), batch, (), None, tensors)[0]

        @staticmethod
        def setup_context(ctx, inputs, output):
            keep(ctx, ("number", "wide", "options", "batch"), inputs[:4], inputs[4:])
            ctx.like = output.shape, output.dtype, output.device

        @staticmethod
        def backward(ctx, grad):
            tensors = ctx.saved_tensors
            wrt = _differentiable(ctx.number, ctx.needs_input_grad[4:])
            found = Gradient.apply(ctx.number, ctx.wide, ctx.options, wrt, beside(ctx.batch, 1), grad, *tensors)
            return None, None, None, None, *spread(over_samples(found, ctx.batch, wrt), wrt, len(tensors))

        # J·v of one number is the gradient times v, which can be differentiated again. Otherwise: the gradients Jᵀ·g are linear
        # in g, and differentiated by g in the direction of v they are J·v.
        @staticmethod
        def jvp(ctx, number, wide, options, batch, *tangents):
            tensors = ctx.saved_tensors
            at = _differentiable(ctx.number, [t is not None for t in tangents])
            shape, dtype, device = ctx.like
            grad = torch.ones(shape, dtype=dtype, device=device)
            given = [tangents[k] for k in at]
            axes = 0 if ctx.batch is None else 1
            if len(shape) == axes:
                found = Gradient.apply(ctx.number, ctx.wide, ctx.options, at, beside(ctx.batch, 1), grad, *tensors)
                return sum((g * t).flatten(axes).sum(-1) if g.ndim > axes else g * t for g, t in zip(found, given)).to(dtype)
            flags = None
            if ctx.batch is not None:
                flags = (ctx.batch[0], tuple(ctx.batch[1][k] for k in at) + (True,) + ctx.batch[1])
            return Second.apply(ctx.number, ctx.wide, ctx.options, at, flags, *given, grad, *tensors)[0]

        @staticmethod
        def vmap(info, in_dims, number, wide, options, batch, *tensors):
            return batched(Value, info, in_dims[4:], (number, wide, options), batch, tensors)

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, wrt, batch, grad, *tensors):
            return compute(1, number, wide, options, wrt, batch, (), grad, tensors)

        @staticmethod
        def setup_context(ctx, inputs, output):
            keep(ctx, ("number", "wide", "options", "wrt", "batch"), inputs[:5], inputs[5:])

        @staticmethod
        def backward(ctx, *cotangents):
            flags = beside(ctx.batch, len(cotangents))
            found = Second.apply(ctx.number, ctx.wide, ctx.options, ctx.wrt, flags, *cotangents, *ctx.saved_tensors)
            of_grad, *found = over_samples(found, ctx.batch, [0, *(p + 1 for p in ctx.wrt)])
            return None, None, None, None, None, of_grad, *spread(found, ctx.wrt, len(ctx.saved_tensors) - 1)

        # Second derivatives are symmetric: the direction takes the place of the cotangents.
        @staticmethod
        def jvp(ctx, number, wide, options, wrt, batch, of_grad, *tangents):
            grad, *tensors = ctx.saved_tensors
            moving = _differentiable(ctx.number, [t is not None for t in tangents])
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
            return batched(Gradient, info, in_dims[5:], (number, wide, options, wrt), batch, tensors)

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(number, wide, options, wrt, batch, *tensors):
            n = len(wrt)
            return compute(2, number, wide, options, wrt, batch, tensors[:n], tensors[n], tensors[n + 1 :])

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
            return batched(Second, info, in_dims[5:], (number, wide, options, wrt), batch, tensors)

    def transformed(number, wide, options, *tensors):
        return Value.apply(number, wide, options, None, *tensors)

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

    def keep_results(ctx, inputs, output):
        ctx.number, ctx.wide, ctx.options, ctx.wrt, *tensors = inputs
        ctx.in_one_pass = len(output) > 1
        ctx.save_for_backward(*(output[1:] if ctx.in_one_pass else tensors))

    def pull_back(ctx, grads):
        grad, wrt = grads[0], ctx.wrt
        if ctx.in_one_pass:
            found = scaled(ctx.saved_tensors, grad)
        else:
            found = torch.ops.ebb.loss_gradient(grad, ctx.number, ctx.wide, ctx.options, wrt, *ctx.saved_tensors)
        return None, None, None, None, *spread(found, wrt, most)

    loss.register_autograd(pull_back, setup_context=keep_results)

    def compiled(number, wide, options, *tensors):
        needed = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in tensors]
        padded = list(tensors) + [None] * (most - len(tensors))
        return torch.ops.ebb.loss(number, wide, options, _differentiable(number, needed), *padded)[0]

    return transformed, compiled
