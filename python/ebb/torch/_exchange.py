# SPDX-License-Identifier: MIT
"""Tensors from PyTorch to Ebb and back, on the same memory, and which tensors ebb.torch takes."""

import math

import torch
from torch.autograd import forward_ad
from torch.utils import dlpack

from .. import _core
from ._stream import place, result, stream_number

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
_KNOWN = frozenset(DTYPES.values())
PLAIN = (torch.Tensor, torch.nn.Parameter)
_CPU = 1  # among DLPack's kinds of devices


def from_torch(x):
    """A torch tensor as an ebb.Tensor on the same memory. On a GPU, what Ebb computes from it comes after what PyTorch was
    computing."""
    if not x.is_cuda:
        return taken(x)
    with torch.cuda.device(x.device):
        return _core.from_dlpack(_written_out(x))


def _written_out(x):
    """x without a history, and with its signs in memory: those of a view such as z.conj().imag are not, and DLPack does not say so."""
    x = x.detach()
    if type(x) not in PLAIN and hasattr(x, "trigger_wait"):  # the result of a collective that may still be under way
        x = x.trigger_wait()
    return x.resolve_neg() if x.is_neg() else x


def to_torch(x):
    """An ebb.Tensor as a torch tensor on the same memory. It must not be written to unless nothing else uses x."""
    kind, index = x.__dlpack_device__()
    stream = None if kind == _CPU else stream_number(index)
    return dlpack.from_dlpack(x.__dlpack__(stream=stream, copy=False))


# Inside place(...) both libraries use one stream, and there is nothing to wait for.


def taken(x):
    return _core.from_dlpack(dlpack.to_dlpack(_written_out(x)))


def given(x):
    """A tensor that nothing else uses, dense where it is on a GPU."""
    there = result(x, DTYPES[x.dtype.name]) if x.is_cuda else None
    return dlpack.from_dlpack(x.__dlpack__(stream=-1, copy=False)) if there is None else there


def own(x):
    return given(_core._exclusive(x))


def inputs(tensors):
    return [None if x is None else taken(x) for x in tensors]


def times(gradient, factor):
    """Zeros stay zeros, whatever the factor: tokens that do not count leave no NaN behind where the loss is divided by their number."""
    return torch.where(gradient == 0, gradient, gradient * factor)


def scale(gradients, factor):
    """Multiplies in place. Usually the factor is 1: then gradients are not touched. A GPU looks by itself."""
    if not factor.is_cuda:
        number = factor.item()
        for g in gradients if number != 1 else ():
            if math.isfinite(number):
                g.mul_(number)
            else:
                g.copy_(times(g, number))
        return
    with place((factor,)):
        factor = taken(factor)
        for g in gradients:
            _core._scale(taken(g), factor)


def autocast_dtype(like):
    """The dtype of products in a region of torch.autocast on the tensor's device; None outside of one."""
    kind = like.device.type
    if kind == "meta":
        return None
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def beside(x, like):
    """x where the other tensor is."""
    return x if x is None or x.device == like.device else x.to(like.device, non_blocking=True)


def number_tensor(x, like):
    """Lengths given as a list, a variance given as a number."""
    if isinstance(x, (list, tuple, int)):
        return beside(torch.tensor(x), like)
    return torch.full((), x, dtype=like.dtype, device=like.device) if isinstance(x, float) else x


def require_dense(name, tensors):
    """Sparse, nested and distributed tensors have no single block of memory, and tensors of the device meta none at all."""
    devices = {x.device for x in tensors if isinstance(x, torch.Tensor)}
    if len(devices) > 1 and torch.device("meta") in devices:
        there = next(d for d in devices if d.type != "meta")
        raise ValueError(f"{name}: some of the tensors are on meta and have no values, others are on {there}; move all of them there")
    for x in tensors:
        if x is None or (type(x) in PLAIN and x.layout is torch.strided and not x.is_nested and x.dtype in _KNOWN):
            continue
        if not isinstance(x, torch.Tensor):
            hint = "; give its weight" if isinstance(x, torch.nn.Module) and hasattr(x, "weight") else ""
            raise TypeError(f"{name}: takes torch tensors, got {type(x).__name__}{hint}")
        if x.is_nested:
            raise ValueError(f"{name}: nested tensors are not supported; use torch.nested.to_padded_tensor")
        if x.layout is not torch.strided:
            raise ValueError(f"{name}: tensors of layout {x.layout} are not supported; use .to_dense()")
        if is_in_parts(x):
            raise ValueError(f"{name}: a DTensor is in parts on several devices; use .full_tensor() or .to_local()")
        if x.dtype not in _KNOWN:
            raise TypeError(f"{name}: tensors of {x.dtype} are not supported; convert them first")


def is_in_parts(x):
    """Is it a DTensor? By name: importing its module takes a second."""
    return type(x).__name__ == "DTensor"


def has_parts(tensors):
    return any(type(x) not in PLAIN and is_in_parts(x) for x in tensors)


def has_no_values(tensors):
    return any(x is not None and (x.is_meta or type(x).__name__ == "FakeTensor") for x in tensors)


def is_recorded(tensors):
    """Does somebody keep or count operations (torch.compile, make_fx), or have tensors no values? Then they have names."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or has_no_values(tensors)


def is_transformed():
    """Inside of torch.func's transforms, or where dual tensors exist."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
