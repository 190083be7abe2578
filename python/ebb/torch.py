# SPDX-License-Identifier: MIT
"""Ebb's losses for PyTorch programs: functions on torch tensors, with autograd.

    from ebb.torch import cross_entropy        # instead of torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, labels)
    loss.backward()

The value and the gradients that PyTorch will ask for are computed in one sweep when the loss is called; backward only
scales them. Gradients can be differentiated once more, by Ebb. Losses are modules, too (CrossEntropyLoss), work inside
torch.func's transforms, and are kept by torch.compile as one operation. On a GPU everything is given to PyTorch's current
stream and nothing waits for it, so that CUDA graphs can be captured.
"""

import math
import sys

import torch
from torch.utils import dlpack

from . import _core, _torch_linear_loss, _torch_log_probs, _torch_transforms
from ._causal_lm_loss import causal_lm_loss, kernel_mapping
from ._torch_cuda import place, result, stream_number
from ._huggingface import patch, unpatch
from ._trl import patch_trl, unpatch_trl
from .losses import _NUMBERS, TORCH_ORDER, _Text, class_name, define, legacy_reduction, registry

__all__ = ["from_torch", "to_torch", "patch", "unpatch", "patch_trl", "unpatch_trl", "causal_lm_loss", "kernel_mapping"]


def from_torch(x):
    """A torch tensor as an ebb.Tensor on the same memory. On a GPU, what Ebb computes from it comes after what PyTorch was
    computing."""
    if not x.is_cuda:
        return _taken(x)
    with torch.cuda.device(x.device):
        return _core.from_dlpack(x.detach())


def to_torch(x):
    """An ebb.Tensor as a torch tensor on the same memory. It must not be written to unless nothing else uses x."""
    kind, index = x.__dlpack_device__()
    stream = None if kind == _CPU else stream_number(index)
    return dlpack.from_dlpack(x.__dlpack__(stream=stream, copy=False))


_CPU = 1  # among DLPack's kinds of devices


# Inside place(...) both libraries use one stream, and there is nothing to wait for.


def _taken(x):
    return _core.from_dlpack(dlpack.to_dlpack(x.detach()))


def _given(x):
    """A tensor that nothing else uses, dense where it is on a GPU."""
    there = result(x, _torch_transforms.TORCH_DTYPES[x.dtype.name]) if x.is_cuda else None
    return dlpack.from_dlpack(x.__dlpack__(stream=-1, copy=False)) if there is None else there


def _own(x):
    return _given(_core._exclusive(x))


def _inputs(tensors):
    return [None if x is None else _taken(x) for x in tensors]


def _autocast_dtype(like):
    """The dtype of products in a region of torch.autocast on the tensor's device; None outside of one."""
    kind = like.device.type
    if kind == "meta":
        return None
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def _apply(number, options, *tensors):
    """The loss. Autocast is followed as PyTorch's own losses do: they are computed in f32 and are f32; hidden states and
    an LM head are multiplied in autocast's dtype, as by torch.nn.functional.linear. f64 stays f64.
    """
    if registry[number]["name"] == "linear_cross_entropy" and _has_parts(tensors):
        return _cross_entropy_in_parts(number, False, options, tensors)
    _require_dense(registry[number]["name"], tensors)
    low = _autocast_dtype(tensors[0])
    names = [name for name, *_ in registry[number]["inputs"]]
    if tensors[0].is_cuda and registry[number]["name"] in _NUMBERS:  # lengths are often left on the host
        counts = _NUMBERS[registry[number]["name"]]
        tensors = [_beside(x, tensors[0]) if name in counts else x for name, x in zip(names, tensors)]
    if low is None:
        return _dispatch(number, False, options, *tensors)
    products = "head" in names
    given = []
    for name, x in zip(names, tensors):
        if x is not None and x.is_floating_point() and x.dtype != torch.float64:
            x = x.to(low if products and name in ("x", "head", "bias") else torch.float32)
        given.append(x)
    return _dispatch(number, products, options, *given)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _require_dense(name, tensors):
    """Sparse, nested and distributed tensors have no single block of memory."""
    for x in tensors:
        if x is None or (type(x) in _PLAIN and x.layout is torch.strided and not x.is_nested):
            continue
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: takes torch tensors, got {type(x).__name__}")
        if x.is_nested:
            raise ValueError(f"{name}: nested tensors are not supported; use torch.nested.to_padded_tensor")
        if x.layout is not torch.strided:
            raise ValueError(f"{name}: tensors of layout {x.layout} are not supported; use .to_dense()")
        if type(x).__name__ == "DTensor":
            raise ValueError(f"{name}: a DTensor is in parts on several devices; use .full_tensor() or .to_local()")


def _has_parts(tensors):
    """Is one a DTensor?"""
    return any(type(x) not in _PLAIN and type(x).__name__ == "DTensor" for x in tensors)


def _cross_entropy_in_parts(number, wide, options, tensors):
    from ._torch_parallel import cross_entropy as in_parts

    names = [name for name, *_ in registry[number]["options"]]
    loss = in_parts(linear_log_probs, *tensors, dict(zip(names, options)))
    return loss if wide or _autocast_dtype(loss) else loss.to(torch.promote_types(tensors[0].dtype, tensors[1].dtype))


def _has_no_values(tensors):
    return any(x is not None and (x.is_meta or type(x).__name__ == "FakeTensor") for x in tensors)


def _dispatch(number, wide, options, *tensors):
    """torch.compile keeps an operation with a name, torch.func wants a function without a context; else the fast way."""
    if torch.compiler.is_compiling() or _has_no_values(tensors):
        return _compiled(number, wide, [f"{o}" for o in options], *tensors)
    if torch._C._are_functorch_transforms_active():
        return _transformed(number, wide, options, *tensors)
    return _Loss.apply(number, wide, options, *tensors)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number, wide, options, *tensors):
        differentiable = registry[number]["inputs"]
        wrt = [i for i, needed in enumerate(ctx.needs_input_grad[3:]) if needed and differentiable[i][1]]
        ctx.number, ctx.wide, ctx.options, ctx.wrt, ctx.gradients = number, wide, options, wrt, None
        ctx.save_for_backward(*tensors)
        with place(tensors):
            inputs = _inputs(tensors)
            if not wrt and not wide:
                return _own(_core._loss(number, *inputs, *options))
            value, gradients = _core._loss_forward(number, wrt, wide, *inputs, *options)
            if gradients is not None:
                ctx.gradients = [_given(g) for g in gradients]
            return _given(value)

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
            _scale(found, grad)
        return None, None, None, *_torch_transforms.spread(found, ctx.wrt, len(tensors))


def _scale(gradients, factor):
    """Multiplies in place. Usually the factor is 1: then gradients are not touched. A GPU looks by itself."""
    if not factor.is_cuda:
        number = factor.item()
        if number != 1:
            for g in gradients:
                g.mul_(number)
        return
    with place((factor,)):
        factor = _taken(factor)
        for g in gradients:
            _core._scale(_taken(g), factor)


def _gradients(number, wide, options, wrt, grad, tensors):
    with place(tensors):
        found = _core._loss_backward(number, _taken(grad), wide, *_inputs(tensors), *options)
        chosen = [found[i] for i in wrt]
        _core.eval(*chosen)
        return tuple(_own(g) for g in chosen)


def _second(number, wide, options, wrt, cotangents, grad, tensors):
    with place(tensors):
        found = _core._loss_second(
            number, wrt, [_taken(c) for c in cotangents], _taken(grad), wide, *_inputs(tensors), *options
        )
        return tuple(_own(g) for g in found)


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
        of_grad, *found = _second(ctx.number, ctx.wide, ctx.options, ctx.wrt, cotangents, grad, tensors)
        return None, None, None, None, of_grad, *_torch_transforms.spread(found, ctx.wrt, len(tensors))


def _number_tensor(x, like):
    """Lengths given as a list, a variance given as a number."""
    if isinstance(x, (list, tuple, int)):
        return _beside(torch.tensor(x), like)
    return torch.full((), x, dtype=like.dtype, device=like.device) if isinstance(x, float) else x


def _beside(x, like):
    """x where the other tensor is."""
    return x if x is None or x.device == like.device else x.to(like.device, non_blocking=True)


def _make(number, entry):
    text = _Text(number, entry)
    inputs = ", ".join(name for name, *_ in text.inputs)
    options = "".join(f"{name}, " for name, *_ in text.options)
    loss = define(
        text,
        f"return _apply({number}, ({options}), {inputs})",
        text.name,
        text.parameters(),
        {"_apply": _apply, "_number_tensor": _number_tensor, "__name__": __name__},
    )
    loss.__doc__ = text.doc() + "\n\nOf torch tensors; differentiated by PyTorch's autograd."
    loss.__module__ = __name__
    return loss


for _number, _entry in enumerate(registry):
    globals()[_entry["name"]] = _make(_number, _entry)
    __all__.append(_entry["name"])


_transformed, _compiled = _torch_transforms.make(sys.modules[__name__])
linear_log_probs = _torch_log_probs.make(sys.modules[__name__])
linear_loss = _torch_linear_loss.make(sys.modules[__name__])
__all__ += ["linear_log_probs", "linear_loss"]

_plain_triplet = triplet_margin_with_distance_loss  # noqa: F821


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    if distance_function is None:
        return _plain_triplet(anchor, positive, negative, margin=margin, swap=swap, reduction=reduction)
    # The distance is PyTorch's to differentiate, and what is left is a few operations on one number for each row.
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = torch.minimum(far, distance_function(positive, negative))
    terms = torch.clamp_min(margin + near - far, 0)
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.mean()


triplet_margin_with_distance_loss.__doc__ = (
    _plain_triplet.__doc__ + "\n\n    distance_function: d(x, y) of two torch tensors, one number for each row"
)


def _number_and_options(loss, options):
    number = next(n for n, entry in enumerate(registry) if entry["name"] == loss)
    return number, tuple(options.get(name, default) for name, default, _ in registry[number]["options"])


def _wide_cross_entropy(logits, target, **options):
    """cross_entropy whose result is f32 (f64 for f64), whatever the logits are."""
    number, values = _number_and_options("cross_entropy", options)
    _require_dense("cross_entropy", (logits, target))
    others = [None] * (len(registry[number]["inputs"]) - 2)
    return _dispatch(number, True, values, logits, target, *others)


def _wide_linear_cross_entropy(x, head, target, bias=None, weight=None, token_weight=None, **options):
    """linear_cross_entropy whose result is f32 (f64 for f64), whatever the hidden states are."""
    number, values = _number_and_options("linear_cross_entropy", options)
    if _has_parts((x, head)):
        return _cross_entropy_in_parts(number, True, values, (x, head, target, bias, weight, token_weight))
    if _autocast_dtype(x) is not None:
        return _apply(number, values, x, head, target, bias, weight, token_weight)
    head, bias = head.to(x.dtype), None if bias is None else bias.to(x.dtype)
    return _dispatch(number, True, values, x, head, target, bias, weight, token_weight)


# ---- losses as modules

class _LossModule(torch.nn.Module):
    """A loss that remembers its options. Tensors among them (weight, pos_weight) are buffers."""

    def __init__(self, *args, **options):
        super().__init__()
        optional = [name for name, _, optional in self.entry["inputs"] if optional]
        order = TORCH_ORDER.get(self.entry["name"], optional)
        if len(args) > len(order):
            raise TypeError(f"{type(self).__name__}: takes {', '.join(order) or 'nothing'} by position")
        options = {**dict(zip(order, args)), **options}
        legacy = [options.pop(name, None) for name in ("size_average", "reduce")]
        if legacy != [None, None]:
            options["reduction"] = legacy_reduction(*legacy)
        for name in optional:
            if isinstance(options.get(name), torch.Tensor):
                self.register_buffer(name, options.pop(name))
            else:
                setattr(self, name, options.pop(name, None))
        known = {name for name, *_ in self.entry["options"]} | {"distance_function"}
        unknown = set(options) - known
        if unknown:
            raise TypeError(f"{type(self).__name__}: there is no option {sorted(unknown)}; there are {sorted(known)}")
        self.options, self._optional = options, optional

    def forward(self, *inputs, **named):
        kept = {name: getattr(self, name) for name in self._optional if getattr(self, name) is not None}
        return type(self).function(*inputs, **named, **kept, **self.options)

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


for _entry in registry:
    _name, _function = class_name(_entry["name"]), globals()[_entry["name"]]
    _members = {"entry": _entry, "function": staticmethod(_function), "__doc__": _function.__doc__, "__module__": __name__}
    globals()[_name] = type(_name, (_LossModule,), _members)
    __all__.append(_name)


class LinearCrossEntropyLoss(torch.nn.Module):
    """torch.nn.LinearCrossEntropyLoss: a linear layer and the cross-entropy of its logits, which are never all in memory.

    out_features are further axes of the head: its weight is [num_classes, *out_features, in_features].
    """

    def __init__(
        self,
        in_features,
        num_classes,
        *,
        out_features=(),
        bias=False,
        device=None,
        dtype=None,
        reduction="mean",
        weight=None,
        ignore_index=None,
        label_smoothing=0.0,
        options=None,
    ):
        super().__init__()
        self.outputs = (num_classes, *out_features)
        self.linear = torch.nn.Linear(in_features, math.prod(self.outputs), bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.options = dict(reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, options=options)

    def forward(self, input, target):
        head, bias = self.linear.weight.reshape(*self.outputs, -1), self.linear.bias
        bias = None if bias is None else bias.reshape(self.outputs)
        return linear_cross_entropy(input, head, target, linear_bias=bias, weight=self.weight, **self.options)  # noqa: F821
