# SPDX-License-Identifier: MIT
"""What functions that are formulas of others have in common: operands of one dtype, halves rounded once, words for errors."""

import functools
import inspect

from . import _core

_HALVES = {"f16", "bf16"}


def mapped(tree, change):
    """The tree of lists and tuples with `change` applied to its tensors."""
    if isinstance(tree, _core.Tensor):
        return change(tree)
    if not isinstance(tree, (list, tuple)):
        return tree
    parts = [mapped(part, change) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


def _dtypes(values, found):
    for value in values:
        if isinstance(value, _core.Tensor):
            found[value.dtype.name] = value.dtype
        elif isinstance(value, (list, tuple)):
            _dtypes(value, found)
    return found


def _one_wide_dtype(values):
    """Whether all tensors have one dtype, which is not a half; lists are looked at by _dtypes."""
    first = None
    for value in values:
        if value.__class__ is _core.Tensor:
            dtype = value.dtype
            if first is None:
                first = dtype
            if dtype is not first or dtype is _core.f16 or dtype is _core.bf16:
                return False
        elif value.__class__ is list or value.__class__ is tuple:
            return False
    return True


def _in_common_dtype(f, integers_too):
    @functools.wraps(f)
    def call(*args, **kwargs):
        if _one_wide_dtype((*args, *kwargs.values()) if kwargs else args):
            return f(*args, **kwargs)
        dtypes = _dtypes(kwargs.values(), _dtypes(args, {}))
        floats = [dtype for dtype in dtypes.values() if dtype.is_floating]
        if not floats or kwargs.get("dtype") is not None:
            return f(*args, **kwargs)
        common = functools.reduce(_core.promote_types, floats)
        wide = _core.f32 if common.name in _HALVES else common

        def widened(x):
            return _core.cast(x, wide) if x.dtype.is_floating or integers_too and x.dtype.name != "bool" else x

        result = f(*mapped(args, widened), **{key: mapped(value, widened) for key, value in kwargs.items()})
        if wide is common:
            return result
        return mapped(result, lambda x: _core.cast(x, common) if x.dtype == wide else x)

    return call


def rounded_once(f):
    """f computed in the common dtype of its floats, f32 for halves, with its results rounded to that dtype at the end."""
    return _in_common_dtype(f, integers_too=False)


def of_operands(f):
    """The same where every tensor is an operand: integers beside floats become floats before they are divided or added."""
    return _in_common_dtype(f, integers_too=True)


def as_real(x):
    """Integers as f32, before anything is subtracted that would wrap around."""
    return x if x.dtype.is_floating else _core.cast(x, _core.f32)


def _misplaced(f, error, args, kwargs):
    """(name, value) of what stands where a tensor should: what lacked an attribute, or the first that no operation took."""
    signature = inspect.signature(f)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        if signature.parameters[name].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue  # the operation's own message knows more
        for part in (value, *value) if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, _core.Tensor):
                continue
            if isinstance(error, TypeError) and signature.parameters[name].default is inspect.Parameter.empty:
                return name, value
            if isinstance(error, AttributeError) and part is error.obj:
                return name, part
    return None


def _tensor_of(x):
    return _core.asarray(x) if hasattr(x, "__dlpack__") and not isinstance(x, _core.Tensor) else x


def described(f, *, of_arrays=True):
    """f, which says which argument ought to be a tensor instead of what an operation inside it did not find.

    of_arrays: it takes arrays for tensors, as compiled functions do by themselves.
    """

    @functools.wraps(f)
    def call(*args, **kwargs):
        if of_arrays:
            for x in args:
                if x.__class__ is not _core.Tensor and hasattr(x, "__dlpack__"):
                    args = [*map(_tensor_of, args)]
                    break
            if kwargs:
                kwargs = {key: _tensor_of(x) for key, x in kwargs.items()}
        try:
            return f(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            if isinstance(error, TypeError) and "incompatible function arguments" not in str(error):
                raise
            found = _misplaced(f, error, args, kwargs)
            if found is None:
                raise
            raise TypeError(f"{f.__name__}: {found[0]} must be a tensor, got {type(found[1]).__name__}") from None

    return call
