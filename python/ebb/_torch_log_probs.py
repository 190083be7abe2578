# SPDX-License-Identifier: MIT
"""ebb.torch.linear_log_probs: log-probabilities of tokens, entropies and more from hidden states and an LM head.

Two operations with names, which eager PyTorch and torch.compile both use. The backward pass computes the logits again, chunk
by chunk, for the outputs that have a gradient.
"""

import torch

from . import _core

OUTPUTS = ("log_probs", "entropy", "logsumexp", "log_sum_sq_probs", "mean_logits", "argmax")
_OPTIONS = "float temperature, float logit_scale, float softcap, int ignore_index, int chunk, str[] outputs"
_INPUTS = "Tensor x, Tensor head, Tensor target, Tensor? bias"


def _parts(x, count):
    return [None] * count if x is None else x.unbind()


def make(exchange):
    """linear_log_probs; exchange has ebb.torch's conversions."""

    def native(inputs, options):
        (x, head, target, bias), (temperature, logit_scale, softcap, ignore_index, chunk, outputs) = inputs, options
        given = exchange._inputs((x, head, target, bias))
        return *given, ignore_index, logit_scale, softcap, temperature, chunk, list(outputs)

    @torch.library.custom_op(
        "ebb::token_statistics", mutates_args=(), schema=f"({_INPUTS}, {_OPTIONS}) -> Tensor[]"
    )
    def statistics(x, head, target, bias, *options):
        inputs = (x, head, target, bias)
        with exchange.place(inputs):
            return [exchange._given(y) for y in _core._token_statistics(*native(inputs, options))]

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
        schema=f"(Tensor[] grads, int[] wrt, {_INPUTS}, {_OPTIONS}) -> Tensor[]",
    )
    def gradients(grads, wrt, x, head, target, bias, *options):
        inputs = (x, head, target, bias)
        with exchange.place(inputs):
            cotangents = [exchange._taken(g) for g in grads]
            found = _core._token_statistics_gradients(cotangents, list(wrt), *native(inputs, options))
            return [exchange._given(g) for g in found]

    @gradients.register_fake
    def _(grads, wrt, x, head, target, bias, *options):
        return [torch.empty_like((x, head, bias)[k], memory_format=torch.contiguous_format) for k in wrt]

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:4])
        ctx.options = inputs[4:]

    def pull_back(ctx, grads):
        x, head, target, bias = ctx.saved_tensors
        *options, names = ctx.options
        used = [(name, g) for name, g in zip(names, grads) if g is not None and name != "argmax"]
        needed = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[3]]
        wrt = [k for k, need in enumerate(needed) if need]
        result = [None] * (4 + len(ctx.options))
        if used and wrt:
            found = torch.ops.ebb.token_statistics_gradients(
                [g for _, g in used], wrt, x, head, target, bias, *options, [name for name, _ in used]
            )
            for k, g in zip(wrt, found):
                result[(0, 1, 3)[k]] = g
        return tuple(result)

    statistics.register_autograd(pull_back, setup_context=keep)

    # ---- torch.func, which wants functions whose forward pass does not see its context

    def leading(x, axis, count):
        """x with the samples of vmap in front."""
        return x.unsqueeze(0).expand(count, *x.shape) if axis is None else x.movedim(axis, 0)

    class Values(torch.autograd.Function):
        @staticmethod
        def forward(x, head, target, bias, *options):
            return tuple(statistics(x, head, target, bias, *options))

        @staticmethod
        def setup_context(ctx, inputs, output):
            keep(ctx, inputs, output)
            ctx.mark_non_differentiable(*(y for y in output if not y.is_floating_point()))

        @staticmethod
        def backward(ctx, *grads):
            needed = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[3]]
            wrt = [k for k, need in enumerate(needed) if need]
            *options, names = ctx.options
            used = [k for k, name in enumerate(names) if name != "argmax"]
            result = [None] * (4 + len(ctx.options))
            given = (*options, [names[k] for k in used])
            for k, g in zip(wrt, Gradients.apply(wrt, given, *ctx.saved_tensors, *(grads[k] for k in used))):
                result[(0, 1, 3)[k]] = g
            return tuple(result)

        @staticmethod
        def jvp(ctx, *tangents):
            raise RuntimeError("linear_log_probs: it has no forward mode; use torch.func.grad, vjp or jacrev")

        @staticmethod
        def vmap(info, in_dims, x, head, target, bias, *options):
            if in_dims[1] is not None or in_dims[3] is not None:
                raise RuntimeError("linear_log_probs: vmap takes hidden states and targets of each sample, and one head for all")
            rows = leading(x, in_dims[0], info.batch_size), leading(target, in_dims[2], info.batch_size)
            found = Values.apply(rows[0], head, rows[1], bias, *options)
            return found, (0,) * len(found)

    class Gradients(torch.autograd.Function):
        @staticmethod
        def forward(wrt, options, x, head, target, bias, *grads):
            return tuple(gradients(list(grads), wrt, x, head, target, bias, *options))

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, *cotangents):
            raise RuntimeError("linear_log_probs: PyTorch can differentiate it once; ebb.linear_log_probs more often")

        @staticmethod
        def vmap(info, in_dims, wrt, options, *tensors):
            moved = [t if t is None else leading(t, d, info.batch_size) for t, d in zip(tensors, in_dims[2:])]
            x, head, target, bias = tensors[:4]
            if wrt == [0] and in_dims[3] is None and in_dims[5] is None:  # samples are rows
                return Gradients.apply(wrt, options, moved[0], head, moved[2], bias, *moved[4:]), (0,)
            each = [Gradients.apply(wrt, options, *parts) for parts in zip(*(_parts(t, info.batch_size) for t in moved))]
            return tuple(torch.stack(parts) for parts in zip(*each)), (0,) * len(wrt)

    def linear_log_probs(
        x,
        head,
        target,
        *,
        bias=None,
        temperature=1.0,
        logit_scale=1.0,
        softcap=0.0,
        ignore_index=-100,
        chunk=0,
        outputs="log_probs",
    ):
        """log p(target) of hidden states x [.., H] under an LM head [V, H], in f32 (f64 for f64), without a tensor of N×V.

        The logits are softcap(logit_scale·(x·headᵀ + bias)) / temperature and f32 for halves. outputs is one name, for a
        tensor, or several, for a tuple of them: log_probs, entropy, logsumexp, log_sum_sq_probs (log Σ p²), mean_logits and
        argmax, each in the shape of target and 0 where target is ignore_index. All but argmax have gradients.

        The head may be a DTensor whose classes are in parts, Shard(0), with hidden states that are a DTensor on the same mesh:
        every rank computes with its own classes, and the results are ordinary tensors, the same on all of these ranks.

        chunk: rows whose logits exist at a time (default 0: chosen)
        """
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        for name in names:
            if name not in OUTPUTS:
                raise ValueError(f"linear_log_probs: there is no output {name!r}; there are {', '.join(OUTPUTS)}")
        if not names:
            raise ValueError(f"linear_log_probs: outputs is empty; choose from {', '.join(OUTPUTS)}")
        if exchange._has_parts((x, head)):
            from ._torch_parallel import statistics as in_parts

            options = dict(temperature=temperature, logit_scale=logit_scale, softcap=softcap, chunk=chunk)
            found = in_parts("linear_log_probs", linear_log_probs, x, head, target, bias, ignore_index, names, **options)
            return found[0] if isinstance(outputs, str) else tuple(found)
        exchange._require_dense("linear_log_probs", (x, head, target, bias))
        low = exchange._autocast_dtype(x)
        if low is not None and x.dtype != torch.float64:
            x, head, bias = x.to(low), head.to(low), None if bias is None else bias.to(low)
        options = (float(temperature), float(logit_scale), float(softcap), int(ignore_index), int(chunk), names)
        in_transform = torch._C._are_functorch_transforms_active() and not torch.compiler.is_compiling()
        compute = Values.apply if in_transform else torch.ops.ebb.token_statistics
        found = compute(x, head, target, bias, *options)
        return found[0] if isinstance(outputs, str) else tuple(found)

    linear_log_probs.__module__ = exchange.__name__
    linear_log_probs.__qualname__ = "linear_log_probs"
    return linear_log_probs
