# SPDX-License-Identifier: MIT
"""The part of the Python array API standard that Ebb has, under the standard's names and signatures.

tensor.__array_namespace__() gives this module, so that libraries written for the standard accept an ebb.Tensor.
"""

import builtins as _builtins
import math as _math
from collections import namedtuple as _namedtuple

from . import _assignment, _core, _formula, linalg  # noqa: F401
from ._assignment import assignment  # noqa: F401
from ._core import (  # noqa: F401
    Tensor,
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    copysign,
    cos,
    cosh,
    exp,
    expm1,
    float32,
    float64,
    floor,
    floor_divide,
    from_dlpack,
    hypot,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    matmul,
    maximum,
    minimum,
    reciprocal,
    remainder,
    round,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
    uint8,
)
from .linalg import _axes_of

__array_api_version__ = "2025.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi
bool = _core.bool_

_KINDS = {
    "bool": (bool,),
    "signed integer": (int32, int64),
    "unsigned integer": (uint8,),
    "integral": (int32, int64, uint8),
    "real floating": (float32, float64),
    "complex floating": (),
    "numeric": (int32, int64, uint8, float32, float64),
}


_STANDARD_NAMES = {
    "bool": "bool",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "f32": "float32",
    "f64": "float64",
}


def _placed(x, device):
    return x if device is None else x.to(str(device))


class __array_namespace_info__:
    """What this implementation can do."""

    def capabilities(self):
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 8,
            "item assignment": _assignment.is_allowed(),  # else a tensor is a value
        }

    def default_device(self):
        return _core.default_device()

    def default_dtypes(self, *, device=None):
        return {"real floating": float32, "integral": int64, "indexing": int64, "complex floating": None}

    def devices(self):
        return ("cpu", *(f"cuda:{i}" for i in range(_core._gpu_count())))

    def dtypes(self, *, device=None, kind=None):
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {_STANDARD_NAMES[d.name]: d for k in kinds for d in _KINDS[k]}


# ---- creation


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    return _placed(_core.asarray(obj, dtype, copy=copy), device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    first, last, step = (
        n.item() if isinstance(n, Tensor) else n for n in ((0, start) if stop is None else (start, stop)) + (step,)
    )
    if step != 0 and (last - first) * step <= 0:  # no elements; PyTorch, and so ebb.arange, makes an error of it
        whole = _builtins.all(isinstance(number, int) for number in (first, last, step))
        return zeros((0,), dtype=dtype or (int64 if whole else float32), device=device)
    return _placed(_core.arange(first, last, step, dtype), device)


def zeros(shape, *, dtype=None, device=None):
    return _placed(_core.zeros(shape, dtype or float32), device)


def ones(shape, *, dtype=None, device=None):
    return _placed(_core.ones(shape, dtype or float32), device)


def full(shape, fill_value, *, dtype=None, device=None):
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _placed(_core.full(shape, value, dtype), device)


def zeros_like(x, /, *, dtype=None, device=None):
    return zeros(x.shape, dtype=dtype or x.dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return ones(x.shape, dtype=dtype or x.dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


empty, empty_like = zeros, zeros_like  # a value has all its elements


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    columns = n_rows if n_cols is None else n_cols
    rows_at = _core.arange(n_rows).reshape(n_rows, 1)
    k = _builtins.max(-n_rows, _builtins.min(k, columns))  # beyond them there is nothing
    return _placed((_core.arange(columns) - rows_at == k).cast(dtype or float32), device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    dtype = dtype or float32
    made = _core.linspace(start, stop, num, dtype) if endpoint else _core.linspace(start, stop, num + 1, dtype)[:-1]
    return _placed(made, device)


def tril(x, /, *, k=0):
    return _core.tril(x, k)


def triu(x, /, *, k=0):
    return _core.triu(x, k)


def meshgrid(*arrays, indexing="xy"):
    order = [1, 0, *range(2, len(arrays))] if indexing == "xy" and len(arrays) > 1 else list(range(len(arrays)))
    shape = [arrays[i].size for i in order]
    views = [
        a.reshape(tuple(a.size if order[axis] == i else 1 for axis in range(len(arrays)))) for i, a in enumerate(arrays)
    ]
    return tuple(v.broadcast_to(shape) for v in views)


# ---- data types


def astype(x, dtype, /, *, copy=True, device=None):
    return _placed(x.cast(dtype), device)


def broadcast_shapes(*shapes):
    found = ()
    for shape in shapes:
        found = _core.broadcast_shapes(found, shape)
    return tuple(found)


def broadcast_arrays(*arrays):
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(a.broadcast_to(shape) for a in arrays)


def broadcast_to(x, /, shape):
    return x.broadcast_to(shape)


def result_type(*arrays_and_dtypes):
    found = None
    for a in arrays_and_dtypes:
        dtype = a.dtype if isinstance(a, Tensor) else a
        if isinstance(dtype, (_builtins.bool, int, float)):
            continue
        found = dtype if found is None else _core.promote_types(found, dtype)
    return found


def can_cast(from_, to, /):
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    return _core.promote_types(dtype, to) == to


def isdtype(dtype, kind):
    if isinstance(kind, tuple):
        return _builtins.any(isdtype(dtype, k) for k in kind)
    return dtype in _KINDS[kind] if isinstance(kind, str) else dtype == kind


class finfo:
    """The limits of a floating dtype."""

    def __init__(self, type, /):
        self.dtype = type.dtype if isinstance(type, Tensor) else type
        digits, largest, smallest = {
            "f64": (52, 1023, -1022),
            "f32": (23, 127, -126),
            "f16": (10, 15, -14),
            "bf16": (7, 127, -126),
        }[self.dtype.name]
        self.bits = 8 * self.dtype.itemsize
        self.eps = 2.0**-digits
        self.max = (2.0 - self.eps) * 2.0**largest
        self.min = -self.max
        self.smallest_normal = 2.0**smallest


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type, /):
        self.dtype = type.dtype if isinstance(type, Tensor) else type
        self.bits = 8 * self.dtype.itemsize
        signed = self.dtype != uint8
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if signed else 255


# ---- elementwise, under the standard's names


def _with_numbers(function):
    """The function of two tensors; one of the two may be a number, which takes the other's dtype."""

    def call(x1, x2, /):
        if not isinstance(x1, Tensor):
            x1 = _core.full((), x1, x2.dtype).to(x2.device)
        elif not isinstance(x2, Tensor):
            x2 = _core.full((), x2, x1.dtype).to(x1.device)
        return function(x1, x2)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


bitwise_and, bitwise_or, bitwise_xor = map(_with_numbers, (_core.bitwise_and, _core.bitwise_or, _core.bitwise_xor))
bitwise_left_shift, bitwise_right_shift = map(_with_numbers, (_core.bitwise_left_shift, _core.bitwise_right_shift))
logical_and, logical_or, logical_xor = map(_with_numbers, (_core.logical_and, _core.logical_or, _core.logical_xor))
logaddexp = _with_numbers(_core.logaddexp)
subtract, multiply, divide, pow, negative = _core.sub, _core.mul, _core.div, _core.pow, _core.neg
bitwise_invert = _core.bitwise_not
equal, not_equal, less, less_equal, greater, greater_equal = _core.eq, _core.ne, _core.lt, _core.le, _core.gt, _core.ge


def positive(x, /):
    return x


def conj(x, /):  # every number is real
    return x


def real(x, /):
    return x


def imag(x, /):
    return zeros_like(x)


def sign(x, /):
    return _core.sign(x) + 0  # of -0 it is 0


def nextafter(x1, x2, /):
    """The next number after x1 in the direction of x2; computed at once, by NumPy."""
    import numpy

    device = _core.add(x1, x2).device  # where both are, or an error
    found = numpy.nextafter(*(x.cpu().numpy() if isinstance(x, Tensor) else x for x in (x1, x2)))
    return _core.asarray(found).to(device)


def clip(x, /, min=None, max=None):
    return x if min is None and max is None else _core.clamp(x, min, max)


# ---- linear algebra and shapes


def matrix_transpose(x, /):
    return x.mT


def vecdot(x1, x2, /, *, axis=-1, dim=None):
    """Σ x1·x2 along an axis, which has one size in both; the other axes broadcast. torch.linalg calls the axis dim."""
    axis = axis if dim is None else dim
    (first,), (second,) = _axes_of("vecdot", x1, axis), _axes_of("vecdot", x2, axis)
    if x1.shape[first] != x2.shape[second]:
        raise ValueError(
            f"vecdot: axis {axis} has sizes {x1.shape[first]} and {x2.shape[second]}, for shapes {tuple(x1.shape)} and "
            f"{tuple(x2.shape)}"
        )
    return _sum_of_products(x1, x2, axis).cast(result_type(x1, x2))


@_formula.of_operands
def _sum_of_products(x1, x2, axis):
    return (x1 * x2).sum(axis)


def tensordot(x1, x2, /, *, axes=2):
    """Σ x1·x2 over pairs of axes: the last of x1 with the first of x2, or those that are named."""
    if isinstance(axes, int):
        if not 0 <= axes <= _builtins.min(x1.ndim, x2.ndim):
            raise ValueError(
                f"tensordot: {axes} axes cannot be summed over, for shapes {tuple(x1.shape)} and {tuple(x2.shape)}"
            )
        axes = range(x1.ndim - axes, x1.ndim), range(axes)
    first, second = _axes_of("tensordot", x1, axes[0]), _axes_of("tensordot", x2, axes[1])
    if [x1.shape[a] for a in first] != [x2.shape[a] for a in second]:
        raise ValueError(
            f"tensordot: axes {first} of shape {tuple(x1.shape)} and {second} of shape {tuple(x2.shape)} differ in size"
        )
    kept1, kept2 = [a for a in range(x1.ndim) if a not in first], [a for a in range(x2.ndim) if a not in second]
    inner = _math.prod(x1.shape[a] for a in first)
    outer1, outer2 = [x1.shape[a] for a in kept1], [x2.shape[a] for a in kept2]
    left = x1.permute(kept1 + first).reshape(_math.prod(outer1), inner)
    right = x2.permute(second + kept2).reshape(inner, _math.prod(outer2))
    return matmul(left, right).reshape(outer1 + outer2)


def concat(arrays, /, *, axis=0):
    return _core.cat([a.flatten() for a in arrays], 0) if axis is None else _core.cat(list(arrays), axis)


def stack(arrays, /, *, axis=0):
    return _core.stack(list(arrays), axis)


def unstack(x, /, *, axis=0):
    return tuple(x.select(axis, i) for i in range(x.shape[axis]))


def expand_dims(x, /, axis=0):
    """New axes of size 1, where they are in the result."""
    if isinstance(axis, int):
        return x.unsqueeze(axis)
    rank = x.ndim + len(axis)
    places = sorted(a + rank if a < 0 else a for a in axis)
    if len(set(places)) < len(places) or _builtins.any(not 0 <= a < rank for a in places):
        raise ValueError(f"expand_dims: {tuple(axis)} are not different axes of a result with {rank}")
    for place in places:
        x = x.unsqueeze(place)
    return x


def squeeze(x, /, axis):
    for a in (axis,) if isinstance(axis, int) else axis:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return x.squeeze(axis)


def permute_dims(x, /, axes):
    return x.permute(axes)


def moveaxis(x, source, destination, /):
    source, destination = _axes_of("moveaxis", x, source), _axes_of("moveaxis", x, destination)
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: {len(source)} axes cannot be moved to {len(destination)} places")
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        order.insert(to, a)
    return x.permute(order)


def reshape(x, /, shape, *, copy=None):
    return x.reshape(shape)


def flip(x, /, *, axis=None):
    return x.flip(axis)


def roll(x, /, shift, *, axis=None):
    return x.roll(shift, axis)


def repeat(x, repeats, /, *, axis=None):
    """Each element, or slice along an axis, several times in a row."""
    return _core.repeat_interleave(x, repeats, axis)


def tile(x, repetitions, /):
    more = len(repetitions) - x.ndim
    return x.repeat([1] * -more + list(repetitions)) if more < 0 else x.repeat(list(repetitions))


# ---- indexing, searching, sorting


def _from_the_end(x, indices, axis):
    """Indices of an axis, of which negative ones count from its end."""
    return _core.where(indices < 0, indices + x.shape[axis], indices)


def take(x, indices, /, *, axis=None):
    axis = 0 if axis is None else axis
    return x.index_select(axis, _from_the_end(x, indices, axis))


def take_along_axis(x, indices, /, *, axis=-1):
    return x.take_along(_from_the_end(x, indices, axis), axis)


def nonzero(x, /):
    """The positions of elements that are not 0, one array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array without axes has no positions")
    places = _core.nonzero(x)
    return tuple(places.select(1, axis) for axis in range(x.ndim))


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not 0."""
    return sum((x != 0).cast(int64), axis=axis, keepdims=keepdims)


def where(condition, x1=None, x2=None, /):
    """x1 where the condition is true, x2 elsewhere; of the condition alone, the positions where it is."""
    return nonzero(condition) if x1 is None and x2 is None else _core.where(condition, x1, x2)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2 would be inserted into x1 to keep it sorted: before equal elements, or (side="right") behind them."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', got {side!r}")
    x2 = x2 if isinstance(x2, Tensor) else _core.full((), x2, x1.dtype).to(x1.device)
    return _core.searchsorted(x1 if sorter is None else x1.index_select(0, sorter), x2, right=side == "right")


unique_all_result = _namedtuple("unique_all_result", ["values", "indices", "inverse_indices", "counts"])
unique_counts_result = _namedtuple("unique_counts_result", ["values", "counts"])
unique_inverse_result = _namedtuple("unique_inverse_result", ["values", "inverse_indices"])


def unique_all(x, /):
    """The different elements, where each occurs first, which of them each element is, and how often each occurs."""
    values, inverse, counts = _core.unique(x, True, True, True)
    # The first of equal elements: positions in the order that sorts them, at the places where a new element begins.
    order = inverse.flatten().argsort(0)
    return unique_all_result(values, order.index_select(0, counts.cumsum(0) - counts), inverse, counts)


def unique_counts(x, /):
    """The different elements and how often each occurs."""
    return unique_counts_result(*_core.unique(x, True, False, True))


def unique_inverse(x, /):
    """The different elements and which of them each element is."""
    return unique_inverse_result(*_core.unique(x, True, True, False))


def unique_values(x, /):
    """The different elements."""
    return _core.unique(x)


def isin(x1, x2, /, *, invert=False):
    """Which elements of x1 are in x2, or (invert) are not."""
    x1 = x1 if isinstance(x1, Tensor) else _core.full((), x1, x2.dtype).to(x2.device)
    x2 = x2 if isinstance(x2, Tensor) else _core.full((), x2, x1.dtype).to(x1.device)
    dtype = result_type(x1, x2)
    x1, among = x1.cast(dtype), _core.sort(x2.cast(dtype).reshape((x2.numel(),)))[0]
    if among.shape[0] == 0:
        return full(x1.shape, invert, dtype=bool, device=x1.device)
    at = _core.clamp(_core.searchsorted(among, x1), 0, among.shape[0] - 1)
    found = _core.index_select(among, 0, at.reshape((at.numel(),))).reshape(x1.shape) == x1
    return found != invert


def argmax(x, /, *, axis=None, keepdims=False):
    return x.argmax(axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return x.argmin(axis, keepdims)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return x.sort(axis, descending)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return x.argsort(axis, descending)


# ---- statistics


def _accumulated(function, x, dtype):
    """The function's result in a dtype: narrow integers are added up in i64 and cast back."""
    return function(x) if dtype is None else function(x.cast(dtype)).cast(dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return _accumulated(lambda x: _over_axes(_core.sum, x, axis, keepdims), x, dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    return _accumulated(lambda x: _over_axes(_core.prod, x, axis, keepdims), x, dtype)


def _over_axes(function, x, axis, keepdims):
    """Without axes each element is reduced by itself, to the dtype that the function has."""
    if axis == ():
        return function(x.reshape((x.numel(), 1)), 1, False).reshape(x.shape)
    return function(x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return _over_axes(_core.mean, x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return _over_axes(_core.max, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _over_axes(_core.min, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _core.any(x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    return _core.all(x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _over_axes(lambda x, *over: _core.var(x, *over, correction), x, axis, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _over_axes(lambda x, *over: _core.std(x, *over, correction), x, axis, keepdims)


def _one_slice(make, x, axis):
    """A slice that could stand before x along the axis."""
    shape = list(x.shape)
    shape[axis] = 1
    return make(shape, dtype=x.dtype, device=x.device)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    axis = 0 if axis is None else axis
    total = _accumulated(lambda x: x.cumsum(axis), x, dtype)
    if include_initial:
        total = concat([_one_slice(zeros, total, axis), total], axis=axis)
    return total


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    axis = 0 if axis is None else axis
    product = _accumulated(lambda x: x.cumprod(axis), x, dtype)
    if include_initial:
        product = concat([_one_slice(ones, product, axis), product], axis=axis)
    return product


def diff(x, /, n=1, *, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times."""
    if n == 0:
        return x
    parts = [p for p in (prepend, x, append) if p is not None]
    y = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        size = y.shape[axis]
        if size == 0:
            return y
        later, earlier = y.narrow(axis, 1, size - 1), y.narrow(axis, 0, size - 1)
        y = later - earlier if y.dtype != bool else _core.logical_xor(later, earlier)
    return y




def _linalg_vecdot(x, y, *, axis=-1, dim=None):
    return vecdot(x, y, axis=axis, dim=dim)


_linalg_vecdot.__name__ = _linalg_vecdot.__qualname__ = "vecdot"  # torch.linalg has the operands by these names
_linalg_vecdot.__doc__ = vecdot.__doc__
linalg.tensordot, linalg.vecdot = tensordot, _linalg_vecdot

for _name, _function in list(globals().items()):  # what the standard says is not said again
    if not _name.startswith("_") and type(_function) is type(min) and not _function.__doc__:
        _function.__doc__ = f"{_name} of the Python array API standard."
