# SPDX-License-Identifier: MIT
"""Functions of torch that make tensors, arrange their axes and pick their elements, as formulas of others.

Names and arguments are torch's.
"""

import math

from .. import _core, array_api
from .._formula import rounded_once
from ._methods import METHODS, registrars
from ._options import beside

__all__ = []
function, method = registrars(__all__)


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


@function
def empty(*size, dtype=None):
    """Zeros: a value has all its elements."""
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _core.zeros(tuple(shape), dtype or _core.f32)


@function
def empty_like(input, dtype=None):
    """Zeros of the same shape: a value has all its elements."""
    return beside(input, _core.zeros(input.shape, dtype or input.dtype))


@function
def logspace(start, end, steps, base=10.0, dtype=None):
    """base to the power of `steps` numbers from start to end at equal distances."""
    powers = _core.linspace(float(start), float(end), steps, _core.f64)
    return _core.cast(_core.pow(base, powers), dtype or _core.f32)


@function
@rounded_once
def normal(mean=0.0, std=1.0, size=None, dtype=None):
    """Normal random numbers with these means and deviations, which are numbers or tensors."""
    if size is None:
        tensors = [t.shape for t in (mean, std) if isinstance(t, _core.Tensor)]
        size = _core.broadcast_shapes(*tensors) if len(tensors) == 2 else tensors[0] if tensors else ()
    drawn = _core.randn(tuple(size), dtype or next((t.dtype for t in (mean, std) if isinstance(t, _core.Tensor)), _core.f32))
    return drawn * std + mean


@method
def multinomial(input, num_samples, replacement=False):
    """Positions drawn from each row with the probabilities that its weights have among each other."""
    if input.ndim not in (1, 2) or not input.dtype.is_floating:
        raise ValueError(f"multinomial: needs a vector or a matrix of floats, got shape {tuple(input.shape)} of {input.dtype}")
    if num_samples < 1:
        raise ValueError(f"multinomial: the number of samples must be positive, got {num_samples}")
    if not replacement and num_samples > input.shape[-1]:
        raise ValueError(f"multinomial: {num_samples} of {input.shape[-1]} cannot be drawn without replacement")
    replacement = replacement or num_samples == 1
    shape = (*input.shape[:-1], num_samples, input.shape[-1]) if replacement else input.shape
    # -log(u) / w is exponential with rate w: the least is k with probability w_k, the least few are drawn without replacement.
    usable = (input >= 0) & (input < math.inf)
    input = _core._checked(input, usable, "multinomial: weights must be finite and not negative")
    positive = _core.sum(_core.cast(input > 0, _core.i64), -1, True)
    needed = 1 if replacement else num_samples
    positive = _core._checked(positive, positive >= needed, f"multinomial: a row needs {needed} weights that are not 0")
    weights = _core.cast(_core.where(positive > 0, input, 0.0), _core.f64)
    times = _core.log(_core.rand(shape, _core.f64))
    if replacement:
        return _core.argmax(times / weights.unsqueeze(-2), -1)
    return _core.topk(times / weights, num_samples, -1)[1]


@function
def tril_indices(row, col, offset=0, dtype=None):
    """[2, n]: rows and columns of the elements of a lower triangle, row by row."""
    kept = _core.arange(row).reshape((row, 1)) + offset >= _core.arange(col)
    return _core.cast(_core.nonzero(kept), dtype or _core.i64).transpose(0, 1)


@function
def triu_indices(row, col, offset=0, dtype=None):
    """[2, n]: rows and columns of the elements of an upper triangle, row by row."""
    kept = _core.arange(row).reshape((row, 1)) + offset <= _core.arange(col)
    return _core.cast(_core.nonzero(kept), dtype or _core.i64).transpose(0, 1)


# ---- shapes ----------------------------------------------------------------------------------------------------------


@method
def clone(input):
    """The same tensor: a value needs no copy."""
    return input


@method
def tile(input, *times, dims=None):
    """The tensor repeated dims[k] times along axis k, counted from the last."""
    times = times if dims is None else tuple(dims)
    times = tuple(times[0]) if len(times) == 1 and not isinstance(times[0], int) else times
    return input.repeat((1,) * (input.ndim - len(times)) + tuple(times))


@method
def unbind(input, dim=0):
    """The slices along an axis, without it."""
    return tuple(input.select(dim, k) for k in range(input.shape[dim]))


@method
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces along an axis: so many of nearly equal size, or those between the given positions."""
    size = input.shape[dim]
    if isinstance(indices_or_sections, _core.Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        if not 1 <= n <= 1_000_000:
            raise ValueError(f"tensor_split: {n} pieces cannot be made")
        cuts = [k * (size // n) + min(k, size % n) for k in range(1, n)]
    else:
        cuts = [min(max(c + size if c < 0 else c, 0), size) for c in indices_or_sections]
    return tuple(input.narrow(dim, a, max(b - a, 0)) for a, b in zip([0, *cuts], [*cuts, size]))


@method
def hsplit(input, indices_or_sections):
    """tensor_split along the second axis, or the only one."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


@method
def vsplit(input, indices_or_sections):
    """tensor_split along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


@method
def dsplit(input, indices_or_sections):
    """tensor_split along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


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
    if input.ndim == 0:
        raise ValueError("flipud: a tensor without axes has no first axis")
    return _core.flip(input, 0)


@method
def rot90(input, k=1, dims=(0, 1)):
    """k quarter turns in the plane of two axes, from the first towards the second."""
    a, b = (axis % input.ndim if input.ndim and -input.ndim <= axis < input.ndim else None for axis in dims)
    if a is None or b is None or a == b:
        raise ValueError(f"rot90: {tuple(dims)} are not two axes of shape {tuple(input.shape)}")
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
def diagflat(input, offset=0):
    """A matrix with all elements on a diagonal, zeros elsewhere."""
    return diag_embed(input.reshape((-1,)), offset)


@method
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """The last axis as diagonals of matrices, zeros elsewhere."""
    n = input.shape[-1] + abs(offset)
    x = _core.pad(input, (max(-offset, 0), max(offset, 0))).unsqueeze(-1)  # element i belongs to row i
    # Of n numbers and one more, row after row, each row begins one column further on.
    lines = _core.pad(x, (0, n)).reshape((*input.shape[:-1], n * (n + 1)))
    lines = lines[..., -offset:] if offset < 0 else _core.pad(lines, (offset, 0)) if offset else lines
    square = lines[..., : n * n].reshape((*input.shape[:-1], n, n))
    return movedim(square, (-2, -1), (dim1, dim2))


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
def masked_scatter(input, mask, source):
    """The elements where the mask is true replaced by those of source, one after the other."""
    if mask.dtype.name != "bool":
        raise TypeError(f"masked_scatter: the mask must be bool, got {mask.dtype}")
    x, mask = broadcast_tensors(input, mask)
    number = _core.cumsum(_core.cast(mask, _core.i64).reshape((-1,)), 0) - 1
    number = _core._checked(number, number < source.numel(), f"masked_scatter: the source has {source.numel()} elements only")
    at = _core.clamp(number, 0, max(source.numel() - 1, 0))
    return _core.where(mask, _core.index_select(source.reshape((-1,)), 0, at).reshape(x.shape), x)


@method
def index_copy(input, dim, index, source):
    """The slices `index` along an axis replaced by those of source."""
    at = dim + input.ndim if dim < 0 else dim
    slices = tuple(-1 if k == at else 1 for k in range(input.ndim))
    spread = index.reshape(slices).broadcast_to(source.shape)

    # scatter's own rule would ask for every element which one was written last: here whole slices are.
    def rule(grad, _, inputs):
        n = grad.shape[at]
        place = _core.where(index < 0, index + n, index).reshape((-1,))
        number = _core.arange(place.shape[0])
        if len(number) ** 2 <= n:  # few slices: compared with one another
            later = number.unsqueeze(0) > number.unsqueeze(1)
            gone = _core.any(_core.logical_and(place.unsqueeze(0) == place.unsqueeze(1), later), 1)
            written = _core.where(gone.reshape(slices), 0, _core.index_select(grad, at, place))
            return [_core.scatter(grad, at, place.reshape(slices).broadcast_to(written.shape), 0.0), written]
        last = _core.scatter(_core.full((n,), -1, _core.i64), 0, place, number)
        kept = _core.index_select(last, 0, place) == number
        written = _core.where(kept.reshape(slices), _core.index_select(grad, at, place), 0)
        return [_core.where((last < 0).reshape(slices), grad, 0), written]

    if not input.dtype.is_floating or source.dtype != input.dtype:
        return _core.scatter(input, at, spread, source)
    return _core.custom_function(lambda x, s: _core.scatter(x, at, spread, s), rule, input, source)


@method
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """The slice start:end:step along an axis replaced by src."""
    places = list(range(*slice(start, end, step).indices(input.shape[dim])))
    at = dim % input.ndim
    shape = (*input.shape[:at], len(places), *input.shape[at + 1 :])
    if step == 1 and places and src.dtype == input.dtype and tuple(src.shape) == shape:
        slices = (slice(0, places[0]), slice(places[-1] + 1, None))
        before, after = (input[(slice(None),) * at + (part,)] for part in slices)
        return _core.cat([part for part in (before, src, after) if part.shape[at]], at)
    return index_copy(input, dim, _core._numbers_of_formula(places, _core.i64), src)


@method
def select_scatter(input, src, dim, index):
    """The slice `index` along an axis replaced by src."""
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(f"select_scatter: index {index} is outside axis {dim} of shape {tuple(input.shape)}")
    at = index % input.shape[dim]
    return slice_scatter(input, src.unsqueeze(dim), dim, at, at + 1)
