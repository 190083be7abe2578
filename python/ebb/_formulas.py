"""Functions of torch that are formulas of others, under its names and with its arguments, and the methods of its tensors.

torch.nn.functional's are in _functional.py. What is decorated with @method is a method of Tensor, too.
"""

import math
from collections import namedtuple

from . import _core, array_api

__all__ = ["finfo", "iinfo", "result_type", "can_cast", "empty", "empty_like"]
finfo, iinfo, result_type, can_cast = array_api.finfo, array_api.iinfo, array_api.result_type, array_api.can_cast

METHODS = {}


def function(f):
    """Registers a function of the package."""
    __all__.append(f.__name__)
    return f


def method(f):
    """Registers a function of the package that is a method of Tensor, too."""
    METHODS[f.__name__] = f
    return function(f)


# ---- making tensors --------------------------------------------------------------------------------------------------


@function
def as_tensor(data, dtype=None, device=None):
    """A tensor of an array, a list or a number, without a copy where that is possible."""
    made = _core.asarray(data, dtype)
    return made if device is None else made.to(str(device))


@function
def scalar_tensor(s, dtype=None):
    """A tensor without axes."""
    return _core.tensor(s, dtype)


def empty(*size, dtype=None, device=None):
    """Zeros: a value has all its elements."""
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    made = _core.zeros(tuple(shape), dtype or _core.f32)
    return made if device is None else made.to(str(device))


def empty_like(input, dtype=None):
    """Zeros of the same shape: a value has all its elements."""
    return _core.zeros(input.shape, dtype or input.dtype)


@function
def logspace(start, end, steps, base=10.0, dtype=None):
    """base to the power of `steps` numbers from start to end at equal distances."""
    return _core.cast(_core.pow(base, _core.linspace(start, end, steps, _core.f64)), dtype or _core.f32)


@function
def normal(mean=0.0, std=1.0, size=None):
    """Normal random numbers with these means and deviations, which are numbers or tensors."""
    if size is None:
        tensors = [t.shape for t in (mean, std) if isinstance(t, _core.Tensor)]
        size = _core.broadcast_shapes(*tensors) if len(tensors) == 2 else tensors[0] if tensors else ()
    return _core.randn(tuple(size)) * std + mean


@method
def multinomial(input, num_samples, replacement=False):
    """Positions drawn from each row with the probabilities that its weights have among each other."""
    if not replacement and num_samples > input.shape[-1]:
        raise ValueError(f"multinomial: {num_samples} of {input.shape[-1]} cannot be drawn without replacement")
    shape = (*input.shape[:-1], num_samples, input.shape[-1]) if replacement else input.shape
    # log(w) − log(−log(u)): the largest is k with probability w_k, the largest few are drawn without replacement.
    weights = _core.log(_core.cast(input, _core.f64))
    noise = -_core.log(-_core.log(_core.rand(shape, _core.f64)))
    if replacement:
        return _core.argmax(weights.unsqueeze(-2) + noise, -1)
    return _core.topk(weights + noise, num_samples, -1)[1]


@function
def tril_indices(row, col, offset=0):
    """[2, n]: rows and columns of the elements of a lower triangle, row by row."""
    kept = _core.arange(row).reshape((row, 1)) + offset >= _core.arange(col)
    return _core.nonzero(kept).transpose(0, 1)


@function
def triu_indices(row, col, offset=0):
    """[2, n]: rows and columns of the elements of an upper triangle, row by row."""
    kept = _core.arange(row).reshape((row, 1)) + offset <= _core.arange(col)
    return _core.nonzero(kept).transpose(0, 1)


# ---- shapes ----------------------------------------------------------------------------------------------------------


@method
def clone(input):
    """The same tensor: a value needs no copy."""
    return input


@method
def tile(input, *dims):
    """The tensor repeated dims[k] times along axis k, counted from the last."""
    times = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return input.repeat((1,) * (input.ndim - len(times)) + tuple(times))


@method
def unbind(input, dim=0):
    """The slices along an axis, without it."""
    return tuple(input.select(dim, k) for k in range(input.shape[dim]))


@method
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces along an axis: so many of nearly equal size, or those between the given positions."""
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        if not 1 <= n <= 1_000_000:
            raise ValueError(f"tensor_split: {n} pieces cannot be made")
        cuts = [k * (size // n) + min(k, size % n) for k in range(1, n)]
    else:
        cuts = [min(max(c + size if c < 0 else c, 0), size) for c in indices_or_sections]
    return tuple(input.narrow(dim, a, max(b - a, 0)) for a, b in zip([0, *cuts], [*cuts, size]))


@method
def movedim(input, source, destination):
    """The axes `source` moved to `destination`; the others keep their order."""
    return array_api.moveaxis(input, source, destination)


moveaxis = METHODS["moveaxis"] = movedim
__all__.append("moveaxis")


@method
def unflatten(input, dim, sizes):
    """An axis divided into several; one of the sizes may be −1."""
    at = dim + input.ndim if dim < 0 else dim
    sizes = list(sizes)
    if -1 in sizes:
        rest = -math.prod(sizes)
        sizes[sizes.index(-1)] = input.shape[at] // rest if rest else 0
    if not 0 <= at < input.ndim or math.prod(sizes) != input.shape[at]:
        raise ValueError(f"unflatten: axis {dim} of shape {tuple(input.shape)} cannot be divided into {sizes}")
    return input.reshape((*input.shape[:at], *sizes, *input.shape[at + 1 :]))


@method
def ravel(input):
    """All elements in one axis."""
    return input.reshape((-1,))


@method
def fliplr(input):
    """The second axis backwards."""
    return _core.flip(input, 1)


@method
def flipud(input):
    """The first axis backwards."""
    return _core.flip(input, 0)


@method
def rot90(input, k=1, dims=(0, 1)):
    """k quarter turns in the plane of two axes, from the first towards the second."""
    a, b = dims
    turned = {0: lambda x: x, 1: lambda x: _core.flip(x, b), 2: lambda x: _core.flip(x, (a, b)), 3: lambda x: _core.flip(x, a)}
    x = turned[k % 4](input)
    return x.transpose(a, b) if k % 2 else x


@method
def expand_as(input, other):
    """Broadcast to the shape of another tensor."""
    return input.broadcast_to(other.shape)


@method
def view_as(input, other):
    """Reshaped to the shape of another tensor."""
    return input.reshape(other.shape)


reshape_as = METHODS["reshape_as"] = view_as
__all__.append("reshape_as")


@method
def type_as(input, other):
    """Cast to the dtype of another tensor."""
    return input.cast(other.dtype)


@function
def broadcast_tensors(*tensors):
    """The tensors broadcast to their common shape."""
    return tuple(array_api.broadcast_arrays(*tensors))


@function
def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid: vector k varies along axis k, or with indexing="xy" the first two change places."""
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(array_api.meshgrid(*vectors, indexing=indexing))


@function
def cartesian_prod(*tensors):
    """[n, k]: every choice of one element from each of k vectors."""
    if len(tensors) == 1:
        return tensors[0]
    return _core.stack([grid.reshape((-1,)) for grid in meshgrid(*tensors)], 1)


def _at_least(count, *places):
    def widened(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
            tensors = tensors[0]
        out = []
        for t in tensors:
            for place in places[t.ndim] if t.ndim < count else ():
                t = t.unsqueeze(place)
            out.append(t)
        return out[0] if len(out) == 1 else tuple(out)

    widened.__name__ = widened.__qualname__ = f"atleast_{count}d"
    widened.__doc__ = f"Each tensor with axes of size 1 added until it has {count}."
    return function(widened)


atleast_1d = _at_least(1, (0,))
atleast_2d = _at_least(2, (0, 0), (0,))
atleast_3d = _at_least(3, (0, 0, 0), (0, 2), (2,))


@function
def dstack(tensors):
    """Joined along the third axis."""
    return _core.cat([atleast_3d(t) for t in tensors], 2)


@function
def column_stack(tensors):
    """Vectors as the columns of a matrix; matrices beside one another."""
    return _core.cat([t.reshape((-1, 1)) if t.ndim < 2 else t for t in tensors], 1)


@function
def block_diag(*tensors):
    """Matrices along the diagonal of one, zeros elsewhere."""
    matrices = [atleast_2d(t) for t in tensors]
    width, before, rows = sum(m.shape[1] for m in matrices), 0, []
    for m in matrices:
        rows.append(_core.pad(m, (before, width - before - m.shape[1])))
        before += m.shape[1]
    return _core.cat(rows, 0)


@method
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """The last axis as diagonals of matrices, zeros elsewhere."""
    n = input.shape[-1] + abs(offset)
    rows, columns = _core.arange(n).reshape((n, 1)), _core.arange(n)
    x = _core.pad(input, (max(-offset, 0), max(offset, 0))).unsqueeze(-1)  # element i belongs to row i
    square = _core.where(columns - rows == offset, x, _core.zeros((), input.dtype))
    return movedim(square, (-2, -1), (dim1, dim2))


# ---- elementwise -----------------------------------------------------------------------------------------------------


def _numbers(*operands):
    return [_core.asarray(o) if not isinstance(o, _core.Tensor) else o for o in operands]


@method
def fmax(input, other):
    """The larger element; a NaN counts only beside another."""
    a, b = _numbers(input, other)
    return _core.where(_core.isnan(a), b, _core.where(_core.isnan(b), a, _core.maximum(a, b)))


@method
def fmin(input, other):
    """The smaller element; a NaN counts only beside another."""
    a, b = _numbers(input, other)
    return _core.where(_core.isnan(a), b, _core.where(_core.isnan(b), a, _core.minimum(a, b)))


@method
def addcmul(input, tensor1, tensor2, *, value=1):
    """x + value·a·b."""
    return input + tensor1 * tensor2 * value


@method
def addcdiv(input, tensor1, tensor2, *, value=1):
    """x + value·a/b."""
    return input + tensor1 / tensor2 * value


@method
def heaviside(input, values):
    """0 below zero, 1 above it, `values` at zero."""
    return _core.where(input == 0, values, _core.cast(input > 0, input.dtype))


@method
def sinc(input):
    """sin(πx)/(πx), 1 at zero."""
    x = input * math.pi
    safe = _core.where(x == 0, _core.ones((), x.dtype), x)
    # Near zero by its series: 0/0 would have no derivatives.
    near = 1.0 - x * x * (1.0 / 6.0) * (1.0 - x * x * (1.0 / 20.0))
    return _core.where(_core.abs(x) < 1e-3, near, _core.sin(safe) / safe)


@method
def deg2rad(input):
    """Degrees as radians."""
    return input * (math.pi / 180)


@method
def rad2deg(input):
    """Radians as degrees."""
    return input * (180 / math.pi)


@method
def float_power(input, exponent):
    """The power, computed in f64."""
    return _core.pow(_core.cast(input, _core.f64), exponent)


@method
def isin(elements, test_elements, *, invert=False):
    """Whether each element is among the others."""
    sorted_ones = _core.sort(test_elements.reshape((-1,)))[0]
    if sorted_ones.shape[0] == 0:
        return _core.zeros(elements.shape, _core.bool_) == invert
    at = _core.clamp(_core.searchsorted(sorted_ones, elements), 0, sorted_ones.shape[0] - 1)
    found = _core.index_select(sorted_ones, 0, at.reshape((-1,))).reshape(elements.shape) == elements
    return found != invert


# ---- reductions ------------------------------------------------------------------------------------------------------

VarMean = namedtuple("VarMean", ["var", "mean"])
StdMean = namedtuple("StdMean", ["std", "mean"])
MinMax = namedtuple("MinMax", ["min", "max"])
KthValue = namedtuple("KthValue", ["values", "indices"])


@method
def var_mean(input, dim=None, *, correction=1, keepdim=False):
    """(variance, mean)."""
    return VarMean(_core.var(input, dim, keepdim, correction=correction), _core.mean(input, dim, keepdim))


@method
def std_mean(input, dim=None, *, correction=1, keepdim=False):
    """(standard deviation, mean)."""
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
def nansum(input, dim=None, keepdim=False):
    """The sum of the elements that are not NaN."""
    return _core.sum(_core.where(_core.isnan(input), _core.zeros((), input.dtype), input), dim, keepdim)


@method
def nanmean(input, dim=None, keepdim=False):
    """The mean of the elements that are not NaN."""
    there = _core.cast(_core.logical_not(_core.isnan(input)), input.dtype)
    return nansum(input, dim, keepdim) / _core.sum(there, dim, keepdim)


@method
def kthvalue(input, k, dim=-1, keepdim=False):
    """The k-th smallest element, counted from 1, and its position."""
    if not 1 <= k <= input.shape[dim]:
        raise ValueError(f"kthvalue: k = {k} is outside [1, {input.shape[dim]}]")
    found = [part.narrow(dim, k - 1, 1) for part in _core.sort(input, dim)]
    return KthValue(*(part if keepdim else part.squeeze(dim) for part in found))


@method
def diff(input, n=1, dim=-1):
    """The differences of neighbours, n times."""
    if n < 0:
        raise ValueError(f"diff: n is how often differences are taken, got {n}")
    for _ in range(min(n, input.shape[dim])):  # nothing is left after as many as there are elements
        size = input.shape[dim]
        input = input.narrow(dim, min(1, size), max(size - 1, 0)) - input.narrow(dim, 0, max(size - 1, 0))
    return input


@function
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integral of y along an axis by the trapezoidal rule."""
    size = y.shape[dim]
    mean = (y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)) / 2
    return _core.sum(mean * (dx if x is None else diff(x)), dim)


trapz = trapezoid
__all__.append("trapz")


@method
def bincount(input, weights=None, minlength=0):
    """How often each number from 0 up occurs, or the sum of the weights where it does."""
    count = max(int(_core.max(input)) + 1 if input.size else 0, minlength)
    ones = _core.ones(input.shape, _core.i64) if weights is None else weights
    return _core.index_add(_core.zeros((count,), ones.dtype), 0, input, ones)


@method
def histc(input, bins=100, min=0, max=0):
    """How many elements lie in each of `bins` equal parts of [min, max]; of the elements' own range where both are 0."""
    low, high = (float(_core.min(input)), float(_core.max(input))) if min == max == 0 else (min, max)
    if low == high:
        low, high = low - 1, high + 1
    x = input.reshape((-1,))
    kept = _core.cast((x >= low) & (x <= high), input.dtype)
    at = _core.clamp(_core.floor((x - low) * (bins / (high - low))), 0, bins - 1)
    return _core.index_add(_core.zeros((bins,), input.dtype), 0, _core.cast(at, _core.i64), kept)


@function
def bucketize(input, boundaries, *, right=False):
    """The number of the interval between sorted boundaries that each element lies in."""
    return _core.searchsorted(boundaries, input, right=right)


@method
def dist(input, other, p=2):
    """The p-norm of the difference."""
    return _core.norm((input - other).reshape((-1,)), p)


@method
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariances of the rows, which are variables; columns are observations."""
    x = atleast_2d(input)
    weights = None if fweights is None else _core.cast(fweights, x.dtype)
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
    return found.reshape(()) if input.ndim < 2 else found


@method
def corrcoef(input):
    """The correlations of the rows."""
    c = atleast_2d(cov(input))
    size = _core.sqrt(_core.diagonal(c))
    found = c / (size.reshape((-1, 1)) * size)
    return found.reshape(()) if input.ndim < 2 else found


# ---- indices ---------------------------------------------------------------------------------------------------------


@method
def argwhere(input):
    """[n, axes]: the positions of the elements that are not zero."""
    return _core.nonzero(input)


@method
def masked_select(input, mask):
    """The elements where the mask is true, in a vector."""
    x, mask = broadcast_tensors(input, mask)
    return x[mask]


@method
def take(input, index):
    """Elements by their number in row-major order."""
    flat = input.reshape((-1,))
    positions = _core.where(index < 0, index + flat.shape[0], index)
    return _core.index_select(flat, 0, positions.reshape((-1,))).reshape(index.shape)


@method
def index_copy(input, dim, index, source):
    """The slices `index` along an axis replaced by those of source."""
    at = dim + input.ndim if dim < 0 else dim
    spread = index.reshape(tuple(-1 if k == at else 1 for k in range(input.ndim))).broadcast_to(source.shape)
    return _core.scatter(input, at, spread, source)


@method
def select_scatter(input, src, dim, index):
    """The slice `index` along an axis replaced by src."""
    return index_copy(input, dim, _core.tensor([index % input.shape[dim]]), src.unsqueeze(dim))


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
def vecdot(x, y, *, dim=-1):
    """The sums of products along an axis."""
    return array_api.vecdot(x, y, axis=dim)


@method
def cross(input, other, dim=-1):
    """The vector product along an axis of size 3."""
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise ValueError(f"cross: axis {dim} must have size 3, got shapes {tuple(input.shape)} and {tuple(other.shape)}")
    a, b = unbind(input, dim), unbind(other, dim)
    return _core.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], dim)


@method
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta·x + alpha·M·v."""
    return input * beta + (mat @ vec) * alpha


@method
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta·x + alpha·v·wᵀ."""
    return input * beta + _core.outer(vec1, vec2) * alpha


@method
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta·x + alpha·Σ A·B over the batch."""
    return input * beta + _core.sum(batch1 @ batch2, 0) * alpha


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


# ---- what only methods are -------------------------------------------------------------------------------------------


def _cast_to(name, dtype):
    def cast(self):
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
    def new(self, *args, dtype=None, **kwargs):
        return make(*args, dtype=dtype or self.dtype, **kwargs)

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


def _element_size(self):
    """The bytes of one element."""
    return self.dtype.itemsize


def install(namespace):
    """Puts the methods on Tensor and the dtypes' further names into the package's namespace."""
    for name, dtype in DTYPES.items():
        namespace.setdefault(name, dtype)
        _put(name, _cast_to(name, dtype))
    for name, f in METHODS.items():
        if not hasattr(_core.Tensor, name):
            _put(name, f)
    for name in ("allclose", "isclose", "det", "logdet", "slogdet", "inverse", "cholesky", "qr", "svd"):
        if not hasattr(_core.Tensor, name):
            _put(name, namespace[name])
    for name in ("zeros", "ones", "full", "tensor", "empty"):
        new = _new(namespace[name])
        new.__name__, new.__doc__ = f"new_{name}", f"ebb.{name} with the dtype of this tensor, unless another is given."
        _put(new.__name__, new)
    _put("type", _type)
    _put("where", _where)
    _put("sum_to_size", _sum_to_size)
    _put("element_size", _element_size)
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
