"""Ebb's losses for PyTorch programs: functions on torch tensors, with autograd.

    from ebb.torch import cross_entropy        # instead of torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, labels)
    loss.backward()

The value and the gradients that PyTorch will ask for are computed in one sweep when the loss is called; backward only
scales them. Gradients can be differentiated once more, by Ebb. Losses are modules, too (CrossEntropyLoss), work inside
torch.func's transforms, and are kept by torch.compile as one operation.
"""

import sys

import torch
from torch.utils import dlpack

from . import _core, _torch_transforms
from ._huggingface import patch, unpatch
from .losses import TORCH_ORDER, _Text, class_name, define, legacy_reduction, registry

__all__ = ["from_torch", "to_torch", "patch", "unpatch"]


def from_torch(x):
    """A torch tensor as an ebb.Tensor on the same memory."""
    return _core.from_dlpack(dlpack.to_dlpack(x.detach()))


def to_torch(x):
    """An ebb.Tensor as a torch tensor on the same memory. It must not be written to unless nothing else uses x."""
    return dlpack.from_dlpack(x.__dlpack__(copy=False))


def _own(x):
    return to_torch(_core._exclusive(x))


def _inputs(tensors):
    return [None if x is None else from_torch(x) for x in tensors]


def _autocast_dtype():
    """The dtype of products in a region of torch.autocast on the CPU; None outside of one."""
    if not torch.is_autocast_enabled("cpu"):
        return None
    return torch.get_autocast_dtype("cpu")


def _apply(number, options, *tensors):
    """The loss. Autocast is followed as PyTorch's own losses do: they are computed in f32 and are f32; hidden states and
    an LM head are multiplied in autocast's dtype, as by torch.nn.functional.linear. f64 stays f64.
    """
    low = _autocast_dtype()
    if low is None:
        return _dispatch(number, False, options, *tensors)
    names = [name for name, *_ in registry[number]["inputs"]]
    products = "head" in names
    given = []
    for name, x in zip(names, tensors):
        if x is not None and x.is_floating_point() and x.dtype != torch.float64:
            x = x.to(low if products and name in ("x", "head", "bias") else torch.float32)
        given.append(x)
    return _dispatch(number, products, options, *given)


def _dispatch(number, wide, options, *tensors):
    """torch.compile keeps an operation with a name, torch.func wants a function without a context; else the fast way."""
    if torch.compiler.is_compiling():
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
        inputs = _inputs(tensors)
        if not wrt and not wide:
            return _own(_core._loss(number, *inputs, *options))
        value, gradients = _core._loss_forward(number, wrt, wide, *inputs, *options)
        if gradients is not None:
            ctx.gradients = [to_torch(g) for g in gradients]
        return to_torch(value)

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
            scale = grad.item()
            if scale != 1:
                found = [g.mul_(scale) for g in found]
        result = [None] * len(tensors)
        for position, gradient in zip(ctx.wrt, found):
            result[position] = gradient
        return None, None, None, *result


def _gradients(number, wide, options, wrt, grad, tensors):
    found = _core._loss_backward(number, from_torch(grad), wide, *_inputs(tensors), *options)
    chosen = [found[i] for i in wrt]
    _core.eval(*chosen)
    return tuple(_own(g) for g in chosen)


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
        of_grad, *found = _core._loss_second(
            ctx.number,
            ctx.wrt,
            [from_torch(c) for c in cotangents],
            from_torch(grad),
            ctx.wide,
            *_inputs(tensors),
            *ctx.options,
        )
        result = [None] * len(tensors)
        for position, gradient in zip(ctx.wrt, found):
            result[position] = _own(gradient)
        return None, None, None, None, _own(of_grad), *result


def _number_tensor(x, like):
    """Lengths given as a list, a variance given as a number."""
    if isinstance(x, (list, tuple, int)):
        return torch.tensor(x)
    return torch.full((), x, dtype=like.dtype) if isinstance(x, float) else x


def _make(number, entry):
    text = _Text(number, entry)
    inputs = ", ".join(name for name, *_ in text.inputs)
    options = "".join(f"{name}, " for name, *_ in text.options)
    loss = define(
        text,
        f"return _apply({number}, ({options}), {inputs})",
        text.name,
        text.parameters(),
        {"_apply": _apply, "_number_tensor": _number_tensor},
    )
    loss.__doc__ = text.doc() + "\n\nOf torch tensors; differentiated by PyTorch's autograd."
    loss.__module__ = __name__
    return loss


for _number, _entry in enumerate(registry):
    globals()[_entry["name"]] = _make(_number, _entry)
    __all__.append(_entry["name"])


_transformed, _compiled = _torch_transforms.make(sys.modules[__name__])

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


def _wide_linear_cross_entropy(x, head, target, bias=None, **options):
    """linear_cross_entropy whose result is f32 (f64 for f64), whatever the hidden states are."""
    number = next(n for n, entry in enumerate(registry) if entry["name"] == "linear_cross_entropy")
    values = tuple(options.get(name, default) for name, default, _ in registry[number]["options"])
    if _autocast_dtype() is not None:
        return _apply(number, values, x, head, target, bias, None)
    head, bias = head.to(x.dtype), None if bias is None else bias.to(x.dtype)
    return _dispatch(number, True, values, x, head, target, bias, None)


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

    def forward(self, *inputs):
        kept = {name: getattr(self, name) for name in self._optional if getattr(self, name) is not None}
        return type(self).function(*inputs, **kept, **self.options)

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


for _entry in registry:
    _name, _function = class_name(_entry["name"]), globals()[_entry["name"]]
    _members = {"entry": _entry, "function": staticmethod(_function), "__doc__": _function.__doc__, "__module__": __name__}
    globals()[_name] = type(_name, (_LossModule,), _members)
    __all__.append(_name)
