# SPDX-License-Identifier: MIT
"""PyTorch's spelling for functions that carry PyTorch's names: dim beside axis, keepdims beside keepdim, other, num_classes...

The compiled functions have one spelling, Ebb's. This module reads their parameters' names and makes a function around each
that has something to translate; positional calls pass straight through. What takes more than another name (dtype=, alpha=,
return_indices=...) is a function of _options.py.
"""

import functools
import inspect

from .. import _core
from .._formula import described
from . import _network_options  # noqa: F401: registers what is special
from ._options import BY_KEYWORD, SPECIAL, parameters

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
    "searchsorted": {"input": "values"},
    "unique": {"dim": "axis"},  # of _options
    "dot": {"tensor": "other"},
    "matmul": {"mat2": "other", "vec": "other"},  # as mm, bmm and mv
    "split": {"tensor": "x"},
    "from_dlpack": {"ext_tensor": "x"},
    "lstsq": {"b": "B"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    **{name: {"train": "training"} for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")},
    **{
        name: dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "indices_or_sections")
        for name in ("tensor_split", "hsplit", "vsplit", "dsplit")
    },
    "embedding": {"input": None},  # the index there; told apart below
    **{name: {"input": None} for name in ("cat", "stack", "arange", "full", "zeros", "ones", "rand", "randn", "randint")},
}
# Said by habit; a value has nothing to do with them.
WITHOUT_EFFECT = (
    *("inplace", "out", "requires_grad", "device", "layout", "pin_memory", "non_blocking", "sparse_grad", "stable"),
    *("generator", "memory_format"),
)
# What makes a tensor, and a variable where requires_grad asks for one.
MAKERS = (
    "zeros ones full eye arange linspace rand randn randint zeros_like ones_like full_like rand_like randn_like "
    "empty empty_like logspace normal scalar_tensor"
).split()


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
    renamed = {}  # keywords that were given together before, where all there is to do is to rename them

    def call(*args, **kwargs):
        if not kwargs:
            return by_position(*args)
        given = tuple(kwargs)
        if given in renamed:
            return function(*args, **dict(zip(renamed[given], kwargs.values())))
        ours = tuple(table.get(key, key) for key in given)
        if len(set(ours)) == len(ours) and not any(key in ignored for key in given):
            renamed[given] = ours
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

    call.keywords = {**{key: key for key in own}, **table, **dict.fromkeys(ignored)}  # as a caller writes it: as it is here
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


def respelled(f):
    """A function written in Python, called by PyTorch's keywords or by its own."""
    return functools.update_wrapper(translated(f, f, f.__name__, list(inspect.signature(f).parameters)), f)


def _wrapped(function, name, is_method):
    inner = described(SPECIAL[name](function), of_arrays=False) if name in SPECIAL else function
    by_position = function if name in BY_KEYWORD else inner
    call = functools.update_wrapper(translated(inner, by_position, name, parameters(function), is_method), function)
    call.__module__, call.__qualname__ = "ebb", f"Tensor.{name}" if is_method else name
    if name in SPECIAL:  # its further options, and their order
        options = inspect.signature(inner).parameters.values()
        named = {p.name: p.name for p in options if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        call.keywords = call.keywords | named if name in BY_KEYWORD else named | call.keywords
    return call


def _needs_it(function, name, is_method):
    if name.startswith("_") or name.endswith("_backward") or type(function).__name__ not in ("nb_func", "nb_method"):
        return False
    own = parameters(function)
    return name in SPECIAL or len(own) > (0 if is_method else 1) or own in (["x"], ["a"])  # whose one argument is input there


def functions():
    """The compiled functions by their names, called by either spelling."""
    public = {name: f for name, f in vars(_core).items() if not name.startswith("_")}
    return {name: _wrapped(f, name, False) if _needs_it(f, name, False) else f for name, f in public.items()}


def install():
    """Puts the methods on Tensor."""
    for name, method in list(vars(_core.Tensor).items()):
        if _needs_it(method, name, True):
            setattr(_core.Tensor, name, _wrapped(method, name, True))
    for alias, name in ALIASES.items():
        if hasattr(_core.Tensor, name) and not hasattr(_core.Tensor, alias):
            setattr(_core.Tensor, alias, getattr(_core.Tensor, name))


def uninstall():
    """Tensor's methods as they were compiled; for tools that read their signatures."""
    for name, method in list(vars(_core.Tensor).items()):
        if name in ALIASES:
            delattr(_core.Tensor, name)
        elif getattr(method, "__module__", None) == "ebb" and hasattr(method, "__wrapped__"):
            setattr(_core.Tensor, name, method.__wrapped__)
