"""PyTorch's spelling for functions that carry PyTorch's names: dim beside axis, keepdims beside keepdim, other, num_classes...

Everything is here and nowhere else. The compiled functions have one spelling, Ebb's. This module reads their parameters'
names and puts a function around each that has something to translate; positional calls pass straight through. What takes
more than another name (dtype=, alpha=, return_indices=...) is a function below.
"""

import functools
import math
import re

from . import _core

# PyTorch's name of a parameter: the names it may have here. The first that the function has is meant.
SYNONYMS = {
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "axis": ("axes",),
    "keepdims": ("keepdim",),
    "start_dim": ("first",),
    "end_dim": ("last",),
    "dim0": ("a",),
    "axis0": ("a",),
    "min": ("lo",),
    "max": ("hi",),
    "condition": ("mask",),
    "num_classes": ("classes",),
    "num_groups": ("groups",),
    "padding_idx": ("padding_index",),
    "size": ("shape",),
    "fill_value": ("value",),
    "steps": ("count",),
    "n": ("rows",),
    "m": ("columns",),
    "attn_mask": ("mask",),
    "dropout_p": ("dropout",),
    "is_causal": ("causal",),
    "query": ("q",),
    "key": ("k",),
    "value": ("v",),
    "split_size_or_sections": ("size",),
    "split_size": ("size",),
    "source": ("src",),
    "indices": ("index",),
    "mat1": ("a",),
    "mat2": ("b",),
    "batch1": ("a",),
    "batch2": ("b",),
    "x1": ("a",),
    "x2": ("b",),
    "A": ("a",),
    "B": ("b",),
    "sizes": ("shape", "size"),
}
# Where a name of PyTorch's means something else than above.
OF_ONE_FUNCTION = {
    "transpose": {"dim0": "a", "dim1": "b", "axis0": "a", "axis1": "b"},
    "diagonal": {"dim1": "a", "dim2": "b"},
    "where": {"input": "a", "other": "b"},
    "broadcast_to": {"size": "shape"},
    "one_hot": {"tensor": "index"},
    "scatter": {"value": "src"},
    "outer": {"vec2": "other"},
    "dot": {"tensor": "other"},
    "embedding": {"input": None},  # the index there; told apart below
    **{name: {"input": None} for name in ("cat", "stack", "arange", "full", "zeros", "ones", "rand", "randn", "randint")},
}
# Said by habit; a value has nothing to do with them.
WITHOUT_EFFECT = (
    *("inplace", "out", "requires_grad", "device", "layout", "pin_memory", "non_blocking", "sparse_grad", "stable"),
    *("generator", "memory_format"),
)
# What makes a tensor, and a variable where requires_grad asks for one.
MAKERS = "zeros ones full eye arange linspace rand randn randint zeros_like ones_like full_like rand_like randn_like".split()


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


def renames(name, own, is_method):
    """PyTorch's keyword: the keyword here."""
    table = {theirs: ours for theirs, candidates in SYNONYMS.items() for ours in reversed(candidates) if ours in own}
    if own and not is_method:
        table["input"] = own[0]
    second = own[0 if is_method else 1 :][:1]
    if second and second[0] in ("b", "other", "exponent", "x", "y"):
        table["other"] = second[0]
    table.update(OF_ONE_FUNCTION.get(name, {}))
    return {theirs: ours for theirs, ours in table.items() if theirs not in own and ours is not None}


def translated(function, by_position, name, own, is_method=False):
    """The function, called by PyTorch's keywords or by its own; without keywords it is by_position."""
    table = renames(name, own, is_method)
    ignored = tuple(k for k in WITHOUT_EFFECT if k not in own)

    def call(*args, **kwargs):
        if not kwargs:
            return by_position(*args)
        device = kwargs.pop("device", None) if "device" in ignored else None
        variable = kwargs.pop("requires_grad", False) if name in MAKERS else False
        for key in tuple(kwargs):
            if key in table:
                if table[key] in kwargs:
                    raise TypeError(f"{name}: {key} and {table[key]} are the same argument, given twice")
                kwargs[table[key]] = kwargs.pop(key)
            elif key in ignored:
                _refuse_what_matters(name, key, kwargs.pop(key))
        result = function(*args, **kwargs)
        if variable:
            result = _core.variable(result)
        return result if device is None else _on_device(name, result, str(device))

    return call


def _on_device(name, result, device):
    """A tensor that is made with device= is made there; what is not a tensor is on no device."""
    if isinstance(result, _core.Tensor):
        # A variable is one there, not a tensor computed from one here.
        return _core.variable(result.detach().to(device)) if result.requires_grad else result.to(device)
    if device != "cpu":
        raise ValueError(f"{name}: only tensors can be put on a device, got device={device!r}")
    return result


def _refuse_what_matters(name, key, value):
    """inplace=True and its like change nothing; what would is an error."""
    if key == "out" and value is not None:
        raise TypeError(f"{name}: a tensor cannot be written to, there is no out=; use the result")
    if key == "generator" and value is not None:
        raise TypeError(f"{name}: there are no generators; random numbers follow ebb.manual_seed(seed)")
    if key == "requires_grad" and value:
        raise TypeError(f"{name}: make a variable of the result, ebb.variable(...)")


# ---- more than another name -----------------------------------------------------------------------------------------

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


@special("softmax", "log_softmax", "sum", "mean", "prod", "cumsum", "cumprod", by_keyword=True)
def _computed_in(call):
    def in_dtype(x, *args, dtype=None, **kwargs):
        return call(x if dtype is None else _core.cast(x, dtype), *args, **kwargs)

    return in_dtype


@special("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", by_keyword=True)
def _like(call):
    def like(x, *args, dtype=None, **kwargs):
        return call(x if dtype is None else _core.zeros(x.shape, dtype), *args, **kwargs)

    return like


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


@special("add", "sub", by_keyword=True)
def _with_alpha(call):
    def with_alpha(a, b, *, alpha=1):
        return call(a, b if alpha == 1 else _core.mul(b, alpha))

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
        rest = _core.fmod(a, b)
        return _core.floor_divide(a - rest, b) if not rest.dtype.is_floating else _core.trunc(call(a, b))

    return div


@special("index_add", by_keyword=True)
def _scaled_source(call):
    def index_add(x, axis, index, src, *, alpha=1):
        return call(x, axis, index, src if alpha == 1 else _core.mul(src, alpha))

    return index_add


@special("var", "std", by_keyword=True)
def _unbiased(call):
    def spread(x, *args, unbiased=None, ddof=None, dtype=None, **kwargs):
        if unbiased is not None or ddof is not None:
            kwargs["correction"] = ddof if unbiased is None else 1 if unbiased else 0
        return call(x if dtype is None else _core.cast(x, dtype), *args, **kwargs)

    return spread


@special("round", by_keyword=True)
def _decimals(call):
    def rounded(x, *, decimals=0):
        if decimals == 0:
            return call(x)
        scale = 10.0 ** abs(decimals)
        return call(x * scale) / scale if decimals > 0 else call(x / scale) * scale

    return rounded


@special("norm")
def _frobenius(call):
    def norm(x, p=2.0, *args, **kwargs):
        return call(x, 2.0 if p in ("fro", None) else p, *args, **kwargs)

    return norm


@special("softplus")
def _threshold_is_not_needed(call):
    def softplus(x, beta=1.0, threshold=None):
        return call(x, beta)

    return softplus


@special("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "leaky_relu", "elu", "celu", "dropout")
def _inplace(call):
    """F.relu(x, True): the flag that follows a function's own arguments there."""
    count = 1 + len(parameters(call)) if type(call).__name__ == "nb_method" else len(parameters(call))

    def pure(*args, **kwargs):
        return call(*args[:count], **kwargs)

    return pure


@special("embedding")
def _index_first(call):
    def embedding(*args, input=None, padding_index=None, **kwargs):
        """Rows of weight. PyTorch's order, (index, weight), and the C++ order, (weight, index), are told apart by dtype."""
        for option in ("max_norm", "scale_grad_by_freq", "sparse"):
            if kwargs.pop(option, None):
                raise TypeError(f"embedding: there is no {option}")
        kwargs.pop("norm_type", None)
        named = [input, kwargs.pop("index", None), kwargs.pop("weight", None)]
        given = [_core.asarray(x) for x in [*args[:2], *named] if x is not None]
        if len(given) != 2 or kwargs:
            raise TypeError(f"embedding: takes an index, a table and padding_idx; unknown {sorted(kwargs)}")
        index, table = given if not given[0].dtype.is_floating else given[::-1]
        return call(table, index, args[2] if len(args) > 2 else padding_index)

    return embedding


@special("gumbel_softmax")
def _eps_is_not_needed(call):
    def gumbel_softmax(logits, tau=1.0, hard=False, eps=None, axis=-1):
        return call(logits, tau, hard, axis=axis)

    return gumbel_softmax


@special("scaled_dot_product_attention")
def _attention(call):
    def attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, *, enable_gqa=False):
        if enable_gqa and k.shape[-3] != q.shape[-3]:
            if q.shape[-3] % k.shape[-3]:
                raise ValueError(
                    f"scaled_dot_product_attention: {k.shape[-3]} heads of keys do not divide {q.shape[-3]} of queries"
                )
            times = q.shape[-3] // k.shape[-3]
            k, v = _core.repeat_interleave(k, times, -3), _core.repeat_interleave(v, times, -3)
        return call(q, k, v, mask, causal=causal, dropout=dropout, scale=scale)

    return attention


@special("instance_norm")
def _running_statistics(call):
    def instance_norm(
        x,
        running_mean=None,
        running_var=None,
        weight=None,
        bias=None,
        use_input_stats=True,
        momentum=0.1,
        eps=1e-5,
    ):
        if not use_input_stats:
            if running_mean is None or running_var is None:
                raise ValueError("instance_norm: without use_input_stats it needs running_mean and running_var")
            return _core.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)[0]
        y = call(x, weight, bias, eps)
        if running_mean is None and running_var is None:
            return y
        # As batch_norm: what PyTorch writes into its arguments is returned.
        axes = tuple(range(2, x.ndim))
        moved = []
        for running, now in ((running_mean, _core.mean(x, axes)), (running_var, _core.var(x, axes))):
            moved.append(None if running is None else running * (1 - momentum) + _core.mean(now, 0) * momentum)
        return y, *moved

    return instance_norm


@special("max_pool1d", "max_pool2d", "max_pool3d", by_keyword=True)
def _return_indices(call):
    def pooled(x, *args, return_indices=False, **kwargs):
        return with_indices(x, *args, **kwargs) if return_indices else call(x, *args, **kwargs)

    with_indices = getattr(_core, call.__name__ + "_with_indices")
    return pooled


@special("avg_pool2d", "avg_pool3d")
def _divisor(call):
    axes = 2 if call.__name__ == "avg_pool2d" else 3

    def pooled(
        x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        if divisor_override is None:
            return call(x, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if ceil_mode:
            raise ValueError(f"{call.__name__}: divisor_override and ceil_mode cannot be combined")
        window = (kernel_size,) * axes if isinstance(kernel_size, int) else kernel_size
        sums = call(x, kernel_size, stride, padding) * math.prod(window)  # a mean that counts padding, times n
        return sums / divisor_override

    return pooled


@special(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices",
)
def _sizes_that_stay(call):
    with_indices = call if call.__name__.endswith("_indices") else getattr(_core, call.__name__ + "_with_indices", None)

    def pooled(x, output_size, return_indices=False):
        if return_indices and with_indices is None:
            raise TypeError(f"{call.__name__}: means have no indices")
        if isinstance(output_size, (tuple, list)):
            count = len(output_size)
            output_size = tuple(x.shape[k - count] if s is None else s for k, s in enumerate(output_size))
            if count == 1 and call.__name__.endswith("1d"):
                output_size = output_size[0]
        return with_indices(x, output_size) if return_indices else call(x, output_size)

    return pooled


@special("pad")
def _circular(call):
    def padded(x, pad, mode="constant", value=None):
        if mode != "circular":
            return call(x, pad, mode, 0.0 if value is None else value)
        for k in range(len(pad) // 2):
            axis, (before, after) = x.ndim - 1 - k, pad[2 * k : 2 * k + 2]
            n = x.shape[axis]
            if before > n or after > n:
                raise ValueError(f"pad: circular by {before} and {after} wraps around axis {axis} of shape {x.shape} twice")
            cropped = max(-before, 0)
            parts = [x.narrow(axis, cropped, n - cropped - max(-after, 0))]
            if before > 0:
                parts.insert(0, x.narrow(axis, n - before, before))
            if after > 0:
                parts.append(x.narrow(axis, 0, after))
            x = _core.cat(parts, axis)
        return x

    return padded


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
    def quantile(x, q, axis=None, keepdim=False, *, interpolation="linear"):
        if isinstance(q, _core.Tensor):
            q = q.tolist()
        if interpolation == "linear":
            return call(x, q, axis, keepdim)
        if interpolation == "midpoint":
            low, high = (quantile(x, q, axis, keepdim, interpolation=which) for which in ("lower", "higher"))
            return (low + high) / 2
        return call(x, _at_elements(q, x.size if axis is None else x.shape[axis], interpolation), axis, keepdim)

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


# Other names of the same function.
ALIASES = {
    "amax": "max",
    "amin": "min",
    "absolute": "abs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "arccosh": "acosh",
    "arcsinh": "asinh",
    "arctanh": "atanh",
    "bmm": "matmul",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "expit": "sigmoid",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "inverse": "inv",
    "less": "lt",
    "less_equal": "le",
    "mm": "matmul",
    "multiply": "mul",
    "mv": "matmul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "take_along_dim": "take_along",
    "true_divide": "div",
}


def _wrapped(function, name, is_method):
    inner = SPECIAL[name](function) if name in SPECIAL else function
    by_position = function if name in BY_KEYWORD else inner
    call = functools.update_wrapper(translated(inner, by_position, name, parameters(function), is_method), function)
    call.__module__, call.__qualname__ = "ebb", f"Tensor.{name}" if is_method else name
    return call


def _needs_it(function, name, is_method):
    if name.startswith("_") or name.endswith("_backward") or type(function).__name__ not in ("nb_func", "nb_method"):
        return False
    return name in SPECIAL or len(parameters(function)) > (0 if is_method else 1)


def install(namespace):
    """Puts the functions into the package's namespace and the methods on Tensor."""
    for name, function in list(vars(_core).items()):
        if namespace.get(name) is function and _needs_it(function, name, False):
            namespace[name] = _wrapped(function, name, False)
    for name, method in list(vars(_core.Tensor).items()):
        if _needs_it(method, name, True):
            setattr(_core.Tensor, name, _wrapped(method, name, True))
    for alias, name in ALIASES.items():
        namespace.setdefault(alias, namespace[name])
        if hasattr(_core.Tensor, name) and not hasattr(_core.Tensor, alias):
            setattr(_core.Tensor, alias, getattr(_core.Tensor, name))


def uninstall():
    """Tensor's methods as they were compiled; for tools that read their signatures."""
    for name, method in list(vars(_core.Tensor).items()):
        if name in ALIASES:
            delattr(_core.Tensor, name)
        elif getattr(method, "__module__", None) == "ebb" and hasattr(method, "__wrapped__"):
            setattr(_core.Tensor, name, method.__wrapped__)
