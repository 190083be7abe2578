# SPDX-License-Identifier: MIT
"""What torch's tensors have that Tensor was not compiled with: methods, and the dtypes' further names."""

import functools

from .. import _core
from .._formula import described
from ._spelling import respelled

METHODS = {}


def registrars(names):
    """(function, method): decorators that add a function to `names`, a module's __all__, and the second one to Tensor, too.

    Like compiled ones, the functions take device=, requires_grad=, axis= for dim=, ... where they do not say it themselves.
    """

    def function(f):
        names.append(f.__name__)
        return respelled(described(f))

    def method(f):
        METHODS[f.__name__] = function(f)
        return METHODS[f.__name__]

    return function, method


def _cast_to(name, dtype):
    def cast(self, memory_format=None):
        return self.cast(dtype)

    cast.__name__ = name
    cast.__doc__ = f"Cast to {dtype.name}."
    return cast


def _type(self, dtype=None):
    """Cast to a dtype, or without one its name."""
    return f"ebb.{self.dtype.name}" if dtype is None else self.cast(dtype)


def _where(self, condition, other):
    """The elements where the condition is true, others elsewhere."""
    return _core.where(condition, self, other)


def _new(make):
    def new(self, *args, dtype=None, device=None, **kwargs):
        return make(*args, dtype=dtype or self.dtype, device=device or self.device, **kwargs)

    return new


class ElementCount(int):
    """How many elements a tensor has, as x.size is in NumPy; called, x.size() and x.size(0), the shape, as in PyTorch."""

    def __call__(self, dim=None):
        return self.shape if dim is None else self.shape[dim]


def _size(self):
    """The number of elements; x.size(0), as PyTorch writes it, is x.shape[0]."""
    count = ElementCount(self.numel())
    count.shape = self.shape
    return count


# The dtypes by the names that torch has besides: torch.float, torch.long.
DTYPES = {
    "float": _core.f32,
    "double": _core.f64,
    "half": _core.f16,
    "bfloat16": _core.bf16,
    "int": _core.i32,
    "long": _core.i64,
    "bool": _core.bool_,
}


INSTALLED = []  # (name, what was there before) of Tensor's attributes


def _put(name, value):
    INSTALLED.append((name, vars(_core.Tensor).get(name)))
    setattr(_core.Tensor, name, value)


def _sum_to_size(self, *size):
    """Summed to a shape that broadcasts to this one."""
    return _core.sum_to(self, size[0] if len(size) == 1 else size)


def _unfold(self, dimension, size, step):
    """The windows of an axis as a new last axis: every `step` elements one of `size`. ebb.unfold is F.unfold."""
    n = self.shape[dimension] if self.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise ValueError(f"unfold: windows of {size} elements, {step} apart, do not fit axis {dimension} of size {n}")
    if self.ndim == 0:
        return self.reshape((1,)).narrow(0, 0, size)
    count = (n - size) // step + 1
    at = _core.arange(count).reshape((count, 1)) * step + _core.arange(size)
    windows = _core.index_select(self, dimension, at.reshape((-1,)))
    axis = dimension % self.ndim
    return windows.reshape((*self.shape[:axis], count, size, *self.shape[axis + 1 :])).movedim(axis + 1, -1)


def _polygamma(self, n):
    """The n-th derivative of digamma."""
    return _core.polygamma(n, self)


def _element_size(self):
    """The bytes of one element."""
    return self.dtype.itemsize


def _complex(self):
    """The one element as a Python complex number."""
    return complex(self.item())


def _rounded(self, ndigits=None):
    """round(x, 2)."""
    return self.round(ndigits or 0)


def _by_keyword(method, keyword):
    """A method of any number of sizes, which takes them as one sequence by their name, too: x.reshape(shape=(2, 3))."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if keyword in kwargs and not args:
            args = (kwargs.pop(keyword),)
        return method(self, *args, **kwargs)

    call.keywords = {**getattr(method, "keywords", {}), keyword: keyword}
    return call


def install(namespace):
    """Puts the methods on Tensor; namespace has the functions by their names."""
    for name, dtype in DTYPES.items():
        _put(name, _cast_to(name, dtype))
    for name, f in METHODS.items():
        if not hasattr(_core.Tensor, name):
            _put(name, f)
    for name in "allclose isclose det logdet slogdet inverse cholesky qr svd bernoulli prelu".split():
        if not hasattr(_core.Tensor, name):
            _put(name, namespace[name])
    for name in ("zeros", "ones", "full", "tensor", "empty"):
        new = _new(namespace[name])
        new.__name__ = f"new_{name}"
        new.__doc__ = f"ebb.{name} with the dtype and device of this tensor, unless others are given."
        _put(new.__name__, new)
    for name, keyword in dict(reshape="shape", view="size", permute="dims", expand="size", repeat="repeats").items():
        _put(name, _by_keyword(getattr(_core.Tensor, name), keyword))
    _put("type", _type)
    _put("where", _where)
    _put("sum_to_size", _sum_to_size)
    _put("unfold", _unfold)
    _put("polygamma", _polygamma)
    _put("element_size", _element_size)
    _put("__complex__", _complex)
    _put("__round__", _rounded)
    _put("copy", namespace["clone"])
    _put("itemsize", property(_element_size, doc=_element_size.__doc__))
    _put("nelement", _core.Tensor.numel)
    _put("size", property(_size, doc=_size.__doc__))


def uninstall():
    """Tensor as it was compiled; for tools that read its signatures."""
    for name, before in reversed(INSTALLED):
        if before is None:
            delattr(_core.Tensor, name)
        else:
            setattr(_core.Tensor, name, before)
    INSTALLED.clear()
