# SPDX-License-Identifier: MIT
"""Functions of torch that compute, as formulas of others: elementwise, reductions, linear algebra.

Names and arguments are torch's; torch.nn.functional's are in _functional.py.
"""

import math
from collections import namedtuple

from .. import _core, array_api, linalg
from .._formula import as_real, of_operands, rounded_once
from ._methods import registrars
from ._shapes import atleast_2d

__all__ = ["finfo", "iinfo", "result_type", "can_cast"]
function, method = registrars(__all__)
finfo, iinfo, result_type, can_cast = array_api.finfo, array_api.iinfo, array_api.result_type, array_api.can_cast


# ---- elementwise -----------------------------------------------------------------------------------------------------


def _unless_nan(chosen, a, b):
    """The chosen element of a and b, which are tensors or numbers; a NaN counts only beside another."""
    if not isinstance(b, _core.Tensor):
        return a if math.isnan(b) else _core.where(_core.isnan(a), b, chosen)
    if not isinstance(a, _core.Tensor):
        return _unless_nan(chosen, b, a)
    return _core.where(_core.isnan(a), b, _core.where(_core.isnan(b), a, chosen))


@method
def fmax(input, other):
    """The larger element; a NaN counts only beside another."""
    return _unless_nan(_core.maximum(input, other), input, other)


@method
def fmin(input, other):
    """The smaller element; a NaN counts only beside another."""
    return _unless_nan(_core.minimum(input, other), input, other)


@method
@of_operands
def addcmul(input, tensor1, tensor2, *, value=1):
    """x + value·a·b."""
    return input + tensor1 * tensor2 * value


@method
@of_operands
def addcdiv(input, tensor1, tensor2, *, value=1):
    """x + value·a/b."""
    return input + tensor1 / tensor2 * value


@method
def clamp_min(input, min):
    """The element, or min where that is larger."""
    return _core.clamp(input, min)


@method
def clamp_max(input, max):
    """The element, or max where that is smaller."""
    return _core.clamp(input, None, max)


@method
def positive(input):
    """The same."""
    return input


@method
def sgn(input):
    """−1, 0 or 1: sign of real numbers."""
    return _core.sign(input)


@method
def isposinf(input):
    """Whether each element is +∞."""
    return input == math.inf


@method
def isneginf(input):
    """Whether each element is −∞."""
    return input == -math.inf


@function
@of_operands
def rsub(input, other, *, alpha=1):
    """other − alpha·x."""
    return other - input * alpha


@method
def ldexp(input, other):
    """x·2^k; f32 for integers."""
    if not isinstance(other, _core.Tensor):
        other = _core.full((), other, input.dtype if input.dtype.is_floating else _core.f32)
    return _ldexp(input if input.dtype.is_floating else _core.cast(input, _core.f32), other)


@of_operands
def _ldexp(x, k):
    # In two steps: 2^k alone may be too large or too small where x·2^k is not.
    half = _core.floor(k * 0.5)
    return x * _core.exp2(half) * _core.exp2(k - half)


@method
@of_operands
def logaddexp2(input, other):
    """log₂(2^x + 2^y)."""
    return _core.logaddexp(input * math.log(2), other * math.log(2)) * (1 / math.log(2))


@method
def heaviside(input, values):
    """0 below zero, 1 above it, `values` at zero."""
    step = _core.where(_core.isnan(input), input, _core.cast(input > 0, input.dtype))
    return _core.where(input == 0, values, step)


@method
@rounded_once
def sinc(input):
    """sin(πx)/(πx), 1 at zero."""
    x = input * math.pi
    safe = _core.where(x == 0, _core.ones((), x.dtype), x)
    # Near zero by its series: 0/0 would have no derivatives.
    near = 1.0 - x * x * (1.0 / 6.0) * (1.0 - x * x * (1.0 / 20.0))
    return _core.where(_core.abs(x) < 1e-3, near, _core.sin(safe) / safe)


@method
@rounded_once
def deg2rad(input):
    """Degrees as radians."""
    return input * (math.pi / 180)


@method
@rounded_once
def rad2deg(input):
    """Radians as degrees."""
    return input * (180 / math.pi)


@method
def float_power(input, exponent):
    """The power, computed in f64."""
    return _core.pow(_core.cast(input, _core.f64), exponent)


@method
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among the others."""
    return array_api.isin(elements, test_elements, invert=invert)


# ---- reductions ------------------------------------------------------------------------------------------------------


VarMean = namedtuple("VarMean", ["var", "mean"])
StdMean = namedtuple("StdMean", ["std", "mean"])
MinMax = namedtuple("MinMax", ["min", "max"])
KthValue = namedtuple("KthValue", ["values", "indices"])


def _spread(dim, unbiased, correction):
    """(axes, correction): torch.var_mean(x, False) means unbiased."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = int(bool(unbiased)) if unbiased is not None else correction
    return dim, 1 if correction is None else correction


@method
def var_mean(input, dim=None, *, unbiased=None, correction=1, keepdim=False):
    """(variance, mean)."""
    dim, correction = _spread(dim, unbiased, correction)
    return VarMean(_core.var(input, dim, keepdim, correction=correction), _core.mean(input, dim, keepdim))


@method
def std_mean(input, dim=None, *, unbiased=None, correction=1, keepdim=False):
    """(standard deviation, mean)."""
    dim, correction = _spread(dim, unbiased, correction)
    return StdMean(_core.std(input, dim, keepdim, correction=correction), _core.mean(input, dim, keepdim))


@method
def aminmax(input, *, dim=None, keepdim=False):
    """(smallest, largest)."""
    return MinMax(_core.min(input, dim, keepdim), _core.max(input, dim, keepdim))


@method
def count_nonzero(input, dim=None):
    """How many elements are not zero."""
    return _core.sum(_core.cast(input != 0, _core.i64), dim)


@method
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum of the elements that are not NaN."""
    input = input if dtype is None else _core.cast(input, dtype)
    return _core.sum(_core.where(_core.isnan(input), _core.zeros((), input.dtype), input), dim, keepdim)


@method
@rounded_once
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean of the elements that are not NaN."""
    input = input if dtype is None else _core.cast(input, dtype)
    there = _core.cast(_core.logical_not(_core.isnan(input)), input.dtype)
    return nansum(input, dim, keepdim) / _core.sum(there, dim, keepdim)


@method
def kthvalue(input, k, dim=-1, keepdim=False):
    """The k-th smallest element, counted from 1, and its position."""
    if input.ndim == 0:
        return KthValue(*(part.reshape(()) for part in kthvalue(input.reshape((1,)), k)))
    if not 1 <= k <= input.shape[dim]:
        raise ValueError(f"kthvalue: k = {k} is outside [1, {input.shape[dim]}]")
    found = _core._sorted_place(input, k - 1, dim)
    return KthValue(*(part if keepdim else part.squeeze(dim) for part in found))


@method
@rounded_once
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """The differences of neighbours, n times; prepend and append are put before and behind the input first."""
    if n < 0:
        raise ValueError(f"diff: n is how often differences are taken, got {n}")
    if n > 0 and (prepend is not None or append is not None):
        input = _core.cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(min(n, input.shape[dim])):  # nothing is left after as many as there are elements
        size = input.shape[dim]
        input = input.narrow(dim, min(1, size), max(size - 1, 0)) - input.narrow(dim, 0, max(size - 1, 0))
    return input


def _trapezoids(name, y, x, dx, dim):
    """The areas between neighbours along an axis."""
    y, size = as_real(y), y.shape[dim]
    x = x if x is None else as_real(x)
    if size < 1:
        raise ValueError(f"{name}: axis {dim} of shape {tuple(y.shape)} has no elements")
    if x is not None:
        # Points in a vector belong to the axis.
        dx = diff(x).reshape((-1,) + (1,) * (y.ndim - 1 - dim % y.ndim)) if x.ndim == 1 else diff(x, 1, dim)
    return (y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)) / 2 * dx


@function
@of_operands
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integral of y along an axis by the trapezoidal rule."""
    size = y.shape[dim]
    if x is not None or isinstance(dx, _core.Tensor) or size < 2:
        return _core.sum(_trapezoids("trapezoid", y, x, dx, dim), dim)

    # The sum of all, of both ends half: slices of neighbours would be read, and their gradients added, one by one.
    def forward(y):
        total, half = _core.sum(y, dim), (y.select(dim, 0) + y.select(dim, size - 1)) / 2
        return _core.where(_core.isfinite(half), total - half, total)  # infinity less infinity is none

    def rule(grad, _, inputs):
        grad = grad.unsqueeze(dim)
        ends = grad / 2
        between = [_core.broadcast_to(grad, inputs[0].narrow(dim, 1, size - 2).shape)] if size > 2 else []
        return [_core.cat([ends, *between, ends], dim)]

    return _core.custom_function(forward, rule, as_real(y)) * dx


@function
@of_operands
def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integrals of y along an axis up to each element, by the trapezoidal rule."""
    return _core.cumsum(_trapezoids("cumulative_trapezoid", y, x, dx, dim), dim)


trapz = trapezoid
__all__.append("trapz")


@method
def bincount(input, weights=None, minlength=0):
    """How often each number from 0 up occurs, or the sum of the weights where it does."""
    count = max(int(_core.max(input)) + 1 if input.size else 0, minlength)
    ones = _core.broadcast_to(_core.ones((1,), _core.i64), input.shape) if weights is None else weights
    if weights is not None and weights.dtype != _core.f32:
        ones = _core.cast(weights, _core.f64)  # as in PyTorch: sums of integers and halves, too
    return _core.index_add(_core.zeros((count,), ones.dtype), 0, input, ones)


@method
@rounded_once
def histc(input, bins=100, min=0, max=0):
    """How many elements lie in each of `bins` equal parts of [min, max]; of the elements' own range where both are 0."""
    low, high = (float(_core.min(input)), float(_core.max(input))) if min == max == 0 else (min, max)
    if bins < 1 or not low <= high or not math.isfinite(high - low):
        raise ValueError(f"histc: cannot make {bins} parts of [{low}, {high}]")
    if low == high:
        low, high = low - 1, high + 1
    x = input.reshape((-1,))
    at = _core.clamp(_core.floor((x - low) * (bins / (high - low))), 0, bins - 1)
    at = _core.where((x >= low) & (x <= high), _core.cast(at, _core.i32), bins)  # the others are counted behind the parts
    counted = _core.i32 if x.size < 2**31 else _core.i64  # shared memory of a GPU adds 32 bits at a time
    counts = _core.index_add(_core.zeros((bins + 1,), counted), 0, at, _core.expand(_core.ones((), counted), x.shape))
    return _core.cast(_core.narrow(counts, 0, 0, bins), input.dtype)


@function
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The number of the interval between sorted boundaries that each element lies in."""
    found = _core.searchsorted(boundaries, input, right=right)
    return _core.cast(found, _core.i32) if out_int32 else found


@method
@of_operands
def dist(input, other, p=2):
    """The p-norm of the difference."""
    return _core.norm((as_real(input) - other).reshape((-1,)), p)


@method
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariances of the rows, which are variables; columns are observations."""
    if input.ndim > 2:
        raise ValueError(f"cov: needs a matrix or a vector, got shape {tuple(input.shape)}")
    if fweights is not None and fweights.dtype.is_floating:
        raise TypeError(f"cov: fweights count observations and must be integers, got {fweights.dtype}")
    x = atleast_2d(input)
    fweights, aweights = (_weights(name, w, x) for name, w in (("fweights", fweights), ("aweights", aweights)))
    return _cov(x, correction, fweights, aweights)


def _weights(name, weights, x):
    """Weights of the columns, which are not negative."""
    if weights is None:
        return None
    if tuple(weights.shape) != (x.shape[1],):
        raise ValueError(f"cov: {name} of shape {tuple(weights.shape)} must have one element for each of {x.shape[1]} columns")
    return _core._checked(weights, weights >= 0, f"cov: {name} must not be negative")


@of_operands
def _cov(x, correction, fweights, aweights):
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total, off = x.shape[1], x - _core.mean(x, 1, True)
        found = off @ off.mT / (total - correction)
    else:
        total = _core.sum(weights)
        off = x - _core.sum(x * weights, 1, True) / total
        squares = total if aweights is None else _core.sum(weights * aweights)
        found = (off * weights) @ off.mT / (total - correction * squares / total)
    return found.reshape(()) if x.shape[0] == 1 else found


@method
@rounded_once
def corrcoef(input):
    """The correlations of the rows."""
    c = atleast_2d(cov(input))
    size = _core.sqrt(_core.diagonal(c))
    found = c / (size.reshape((-1, 1)) * size)
    return found.reshape(()) if size.shape[0] == 1 else found


# ---- linear algebra --------------------------------------------------------------------------------------------------


@method
def inner(input, other):
    """The sum of products along the last axis of each."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, dims=([-1], [-1]))


@function
def tensordot(a, b, dims=2):
    """The sum of products over the last `dims` axes of a and the first of b, or over pairs of axes."""
    if isinstance(dims, _core.Tensor):
        dims = dims.tolist()
    return array_api.tensordot(a, b, axes=dims if isinstance(dims, int) else tuple(map(tuple, dims)))


@method
def vdot(input, other):
    """The sum of the products of two vectors."""
    return _core.dot(input, other)


@function
@of_operands
def vecdot(x, y, *, dim=-1):
    """The sums of products along an axis."""
    return array_api.vecdot(x, y, axis=dim)


@method
def cross(input, other, dim=-1):
    """The vector product along an axis of size 3."""
    return linalg.cross(input, other, dim=dim)


@method
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta·x + alpha·M·v."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"addmv: needs a matrix and a vector, got shapes {tuple(mat.shape)} and {tuple(vec.shape)}")
    column = input.unsqueeze(-1) if input.ndim else input
    return _core.addmm(column, mat, vec.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


@method
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta·x + alpha·v·wᵀ."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise ValueError(f"addr: needs two vectors, got shapes {tuple(vec1.shape)} and {tuple(vec2.shape)}")
    return _core.addmm(input, vec1.unsqueeze(1), vec2.unsqueeze(0), beta=beta, alpha=alpha)


@method
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta·x + alpha·Σ A·B over the batch, which is one product with longer sums."""
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise ValueError(
            f"addbmm: needs equally many matrices that can be multiplied, got shapes {tuple(batch1.shape)} and "
            f"{tuple(batch2.shape)}"
        )
    count, rows, inner = batch1.shape
    left = batch1.transpose(0, 1).reshape((rows, count * inner))
    return _core.addmm(input, left, batch2.reshape((count * inner, batch2.shape[2])), beta=beta, alpha=alpha)


# ---- questions -------------------------------------------------------------------------------------------------------


@function
def is_tensor(obj):
    """Whether it is a tensor."""
    return isinstance(obj, _core.Tensor)


@method
def is_floating_point(input):
    """Whether the elements are floats."""
    return input.dtype.is_floating


@function
def numel(input):
    """The number of elements."""
    return input.numel()


@method
def equal(input, other):
    """Whether shapes and all elements are equal."""
    return tuple(input.shape) == tuple(other.shape) and bool(_core.all(input == other))


@function
def get_num_threads():
    """How many threads compute."""
    return _core.num_threads()
