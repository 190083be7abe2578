# SPDX-License-Identifier: MIT
"""PyTorch's arguments that take more than another name: dtype=, alpha=, return_indices=, divisor_override=...

Each function here gets a compiled function and gives what replaces it. _spelling.py puts it in place; keywords have been
translated by then, so these are written with Ebb's.
"""

import math
import re
from collections import namedtuple

from .. import _core, linalg
from .._formula import of_operands, rounded_once


def parameters(function):
    """The names of a compiled function's parameters, in order; of all its overloads together."""
    found = []
    for signature, *_ in function.__nb_signature__:
        inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
        depth, part, parts = 0, "", []
        for c in inside + ",":
            depth += (c in "([{") - (c in ")]}")
            if c == "," and depth == 0:
                parts.append(part.strip())
                part = ""
            else:
                part += c
        for p in parts:
            name = re.match(r"\*{0,2}(\w*)", p).group(1)
            if name and name != "self" and name not in found:
                found.append(name)
    return found


SPECIAL = {}
BY_KEYWORD = set()  # those that change nothing where no keyword is given


def special(*names, by_keyword=False):
    """Registers wrap(call) for these functions: it gets the compiled function and gives what replaces it.

    Keywords have been translated by then, so these are written with Ebb's.
    """

    def register(wrap):
        for name in names:
            SPECIAL[name] = wrap
            if by_keyword:
                BY_KEYWORD.add(name)
        return wrap

    return register


@special("softmax", "log_softmax")
def _over_an_axis(call):
    def over(x, axis=-1, _stacklevel=3, dtype=None):
        return call(x if dtype is None else _core.cast(x, dtype), -1 if axis is None else axis)

    return over


@special("sum", "mean", "prod", "cumsum", "cumprod", by_keyword=True)
def _computed_in(call):
    def in_dtype(x, *args, dtype=None, **kwargs):
        if call.__name__ == "mean" and dtype is not None and not _core.zeros((), dtype).dtype.is_floating:
            raise TypeError(f"mean: the dtype of a mean must be floating, got {dtype}")
        return call(x if dtype is None else _core.cast(x, dtype), *args, **kwargs)

    return in_dtype


@special("zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
def _like(call):
    def like(x, *args, dtype=None, **kwargs):
        return beside(x, call(x if dtype is None else _core.zeros(x.shape, dtype), *args, **kwargs))

    return like


def beside(x, made):
    """Numbers that belong to no device, put where x is."""
    return made if x.device == _core.default_device() else made.to(x.device)


@special("zeros", "ones", "rand", "randn")
def _sizes_one_by_one(call):
    def made(*size, **kwargs):
        if len(size) > 1 and all(isinstance(s, int) for s in size):
            size = (size,)
        return call(*size, **{k: v for k, v in kwargs.items() if not (k == "dtype" and v is None)})

    return made


@special("randint")
def _from_zero(call):
    def randint(*args, **kwargs):
        if len(args) == 2 and not isinstance(args[1], int):  # randint(high, size)
            args = (0, *args)
        return call(*args, **kwargs)

    return randint


@special("randint_like")
def _like_from_zero(call):
    def randint_like(x, *bounds, dtype=None, low=0, high=None):
        low, high = bounds if len(bounds) == 2 else (low, bounds[0] if bounds else high)
        return beside(x, call(x if dtype is None else _core.zeros(x.shape, dtype), low, high))

    return randint_like


@special("add", "sub", by_keyword=True)
def _with_alpha(call):
    @of_operands
    def scaled(a, b, alpha):
        return call(a, _core.mul(b, alpha))

    def with_alpha(a, b, *, alpha=1):
        return call(a, b) if alpha == 1 else scaled(a, b, alpha)

    return with_alpha


@special("div", by_keyword=True)
def _rounding(call):
    def div(a, b, *, rounding_mode=None):
        if rounding_mode is None:
            return call(a, b)
        if rounding_mode == "floor":
            return _core.floor_divide(a, b)
        if rounding_mode != "trunc":
            raise ValueError(f"div: rounding_mode is None, 'trunc' or 'floor', got {rounding_mode!r}")
        return truncated(a, b)

    @of_operands
    def truncated(a, b):
        rest = _core.fmod(a, b)
        return _core.floor_divide(a - rest, b) if not rest.dtype.is_floating else _core.trunc(call(a, b))

    return div


@special("index_add", by_keyword=True)
def _scaled_source(call):
    @rounded_once
    def scaled(x, axis, index, src, alpha):
        return call(x, axis, index, _core.mul(src, alpha))

    def index_add(x, axis, index, src, *, alpha=1):
        if not x.dtype.is_floating and alpha != int(alpha):
            raise ValueError(f"index_add: alpha must be a whole number for {x.dtype}, got {alpha}")
        return call(x, axis, index, src) if alpha == 1 else _core.cast(scaled(x, axis, index, src, alpha), x.dtype)

    return index_add


@special("var", "std")
def _unbiased(call):
    def spread(x, axis=None, *args, unbiased=None, ddof=None, correction=1, dtype=None, **kwargs):
        if isinstance(axis, bool):  # torch.var(x, False)
            axis, unbiased = None, axis
        if args:
            raise TypeError(f"{call.__name__}: give keepdim= and unbiased= or correction= by name; PyTorch's order is another")
        if unbiased is not None or ddof is not None:
            correction = ddof if unbiased is None else 1 if unbiased else 0
        kwargs["correction"] = 1 if correction is None else correction
        return call(x if dtype is None else _core.cast(x, dtype), axis, **kwargs)

    return spread


@special("max", "min")
def _of_two(call):
    elementwise = _core.maximum if call.__name__ == "max" else _core.minimum

    def chosen(x, *args, other=None, **kwargs):
        """The largest or smallest element; of two tensors, as torch.max(a, b), element by element."""
        if other is None and args and isinstance(args[0], _core.Tensor):
            other = args[0]
        return call(x, *args, **kwargs) if other is None else elementwise(x, other)

    return chosen


@special("round")
def _decimals(call):
    @rounded_once
    def scaled(x, decimals):
        scale = 10.0 ** abs(decimals)
        return call(x * scale) / scale if decimals > 0 else call(x / scale) * scale

    def rounded(x, decimals=0):
        return scaled(x, decimals) if decimals else call(x)

    return rounded


@special("norm")
def _matrix_norms(call):
    def norm(x, p=2.0, axis=None, keepdim=False, *, dtype=None):
        x = x if dtype is None else _core.cast(x, dtype)
        if p == "nuc":
            return linalg.matrix_norm(x, "nuc", (-2, -1) if axis is None else axis, keepdim)
        return call(x, 2.0 if p in ("fro", None) else p, axis, keepdim)

    return norm


@special("to")
def _where_and_what(call):
    """x.to(device, dtype, non_blocking, copy): the last two say how."""

    def to(x, *args, copy=False, **kwargs):
        return call(x, *(a for a in args if not isinstance(a, bool)), **kwargs)

    return to


@special("isclose", "allclose")
def _tolerances(call):
    def close(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
        return call(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

    return close


@special("cdist")
def _one_way(call):
    def cdist(a, b, p=2.0, compute_mode=None):
        modes = (None, "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
        if compute_mode not in modes:
            raise ValueError(f"cdist: compute_mode is one of {', '.join(modes[1:])}, not {compute_mode!r}")
        return call(a, b, p)  # all the same: differences never lose digits to products

    return cdist


@special("repeat_interleave", by_keyword=True)
def _known_size(call):
    def repeat_interleave(*args, output_size=None, **kwargs):
        return call(*args, **kwargs)

    return repeat_interleave


Sorted = namedtuple("Sorted", ["values", "indices"])


@special("topk")
def _always_sorted(call):
    def topk(x, k, axis=-1, largest=True, sorted=True):
        if x.ndim == 0:
            return Sorted(*(part.reshape(()) for part in call(x.reshape((1,)), k, 0, largest)))
        return Sorted(*call(x, k, axis, largest))

    return topk


@special("sort")
def _named(call):
    def sort(x, axis=-1, descending=False):
        return Sorted(*call(x, axis, descending))

    return sort


@special("nonzero", by_keyword=True)
def _as_tuple(call):
    def nonzero(x, *, as_tuple=False):
        places = call(x.reshape((1,)) if as_tuple and x.ndim == 0 else x)
        return tuple(places.select(1, axis) for axis in range(places.shape[1])) if as_tuple else places

    return nonzero


@special("cat")
def _without_empty_vectors(call):
    def cat(tensors, axis=0):
        """As in PyTorch, a vector without elements joins anything."""
        for k, t in enumerate(tensors):
            if not hasattr(t, "ndim"):
                raise TypeError(f"cat: element {k} is not a tensor but {'None' if t is None else 'a ' + type(t).__name__}")
        some = [t for t in tensors if t.ndim != 1 or t.shape[0] != 0]
        return call(some if some and len(some) < len(tensors) and some[0].ndim != 1 else list(tensors), axis)

    return cat


@special("scatter", by_keyword=True)
def _reducing(call):
    names = {"add": "sum", "multiply": "prod"}

    def scatter(x, axis, index, src, *, reduce=None):
        if reduce is None:
            return call(x, axis, index, src)
        if reduce not in names:
            raise ValueError(f"scatter: reduce is 'add' or 'multiply', got {reduce!r}; see scatter_reduce for others")
        if not isinstance(src, _core.Tensor):
            src = _core.full(index.shape, src, x.dtype)
        return _core.scatter_reduce(x, axis, index, src, names[reduce])

    return scatter


@special("index_put")
def _by_masks(call):
    def index_put(x, indices, values, accumulate=False):
        found = []
        for index in indices:
            if index is not None and index.dtype.name == "bool":  # the positions of what is true, one index for each axis
                places = _core.nonzero(index)
                found += [places.select(1, axis) for axis in range(index.ndim)]
            else:
                found.append(index)
        return call(x, found, values, accumulate)

    return index_put


@special("unique")
def _rows(call):
    def unique(x, sorted=True, return_inverse=False, return_counts=False, axis=None):
        if axis is None:
            return call(x, sorted, return_inverse, return_counts)
        # Rows in lexicographic order: column by column, the rank of what was seen so far.
        rows = x.transpose(0, axis).reshape((x.shape[axis], -1))
        rank = _core.zeros((rows.shape[0],), _core.i64)
        for k in range(rows.shape[1]):
            column = call(rows.select(1, k), True, True, False)[1]
            rank = call(rank * rows.shape[0] + column, True, True, False)[1]
        values, inverse, counts = call(rank, True, True, True)
        first = _core.argmax(_core.cast(values.unsqueeze(1) == rank, _core.i64), 1)
        found = _core.index_select(x, axis, first)
        results = [found, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
        return tuple(results) if len(results) > 1 else found

    return unique


@special("searchsorted", by_keyword=True)
def _side(call):
    def searchsorted(sorted_sequence, values, *, right=False, side=None, out_int32=False, sorter=None):
        if side not in (None, "left", "right"):
            raise ValueError(f"searchsorted: side is 'left' or 'right', got {side!r}")
        if sorter is not None:
            sorted_sequence = _core.gather(sorted_sequence, -1, sorter)
        found = call(sorted_sequence, values, right=right or side == "right")
        return _core.cast(found, _core.i32) if out_int32 else found

    return searchsorted


@special("take_along")
def _from_the_end(call):
    def take_along(x, index, axis=None):
        if axis is None:
            return _core.take_along(x.reshape((-1,)), _counted(index.reshape((-1,)), x.numel()), 0)
        return call(x, _counted(index, x.shape[axis]), axis)

    return take_along


def _counted(index, size):
    """Positions of which negative ones count from the end."""
    return _core.where(index < 0, index + size, index)


@special("cholesky")
def _upper(call):
    def cholesky(a, upper=False):
        lower = call(a)
        return lower.mT if upper else lower

    return cholesky


@special("solve", by_keyword=True)
def _left(call):
    def solve(a, b, *, left=True):
        if left:
            return call(a, b)
        return call(a.mT, b.mT).mT  # X·A = B is Aᵀ·Xᵀ = Bᵀ

    return solve


@special("quantile")
def _interpolation(call):
    @rounded_once
    def quantile(x, q, axis=None, keepdim=False, *, interpolation="linear"):
        if isinstance(q, _core.Tensor):
            q = q.tolist()
        if interpolation == "linear":
            return call(x, q, axis, keepdim)
        if interpolation == "midpoint":
            low, high = (quantile(x, q, axis, keepdim, interpolation=which) for which in ("lower", "higher"))
            return (low + high) / 2
        count = x.numel() if axis is None or x.ndim == 0 else x.shape[axis]
        return call(x, _at_elements(q, count, interpolation), axis, keepdim)

    return quantile


def _at_elements(q, n, interpolation):
    """The q whose position is an element: below, above or nearest (halves to even)."""
    if isinstance(q, (list, tuple)):
        return [_at_elements(each, n, interpolation) for each in q]
    steps = {"lower": math.floor, "higher": math.ceil, "nearest": round}
    if interpolation not in steps:
        raise ValueError(f"quantile: interpolation is linear, lower, higher, midpoint or nearest, got {interpolation!r}")
    return steps[interpolation](q * (n - 1)) / (n - 1) if n > 1 else 0.0


@special("where")
def _places(call):
    def where(mask, *args, **kwargs):
        if not args and not kwargs:
            places = _core.nonzero(mask)
            return tuple(places.select(1, axis) for axis in range(mask.ndim))
        return call(mask, *args, **kwargs)

    return where
