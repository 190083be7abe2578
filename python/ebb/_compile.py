# SPDX-License-Identifier: MIT
"""Functions that are built once."""

import functools

from . import _core
from ._transforms import _flatten, _structure


def compile(f):
    """A function that calls f once for arguments of given shapes, dtypes and strides, and from then on only computes.

    The results are f's to the bit. For small tensors building the graph takes longer than computing it, so compile
    what is called often; also as a decorator:

    @ebb.compile
    def step(w, x, y):
        return ebb.value_and_grad(lambda w: ebb.mse_loss(x @ w, y))(w)

    Arguments are given by position: tensors, arrays and numbers (which become tensors), or lists, tuples and dicts of
    them. f gives a tensor, or lists, tuples and dicts of tensors; whatever else is in its result (None, a number, a
    string) stays what it was when f was called.

    f must be a function of its arguments: what it captures stays as it was when f was called. It may not look at the
    numbers of what it computes (float(x), x.numpy(), if x > 0), and may not capture variables, such as the parameters
    of a module. Random numbers are drawn anew by every call, the same ones f itself would draw.

    The results are computed when the call returns, and have no history. Where somebody may differentiate the call (an
    argument is a variable, or the call is inside grad) f itself is called: compile the gradient instead,
    ebb.compile(ebb.value_and_grad(f)).
    """
    if not callable(f):
        raise TypeError(f"compile: takes a function, got {f!r}")

    def traced(*tensors):
        leaves = []
        return leaves, _flatten(f(*tensors), leaves, keep=True)

    of_tensors = _core._CompiledFunction()
    of_trees = {}  # by what the trees are without their tensors

    @functools.wraps(f)
    def call(*args, **kwargs):
        if kwargs:
            raise TypeError(
                f"compile: {getattr(f, '__name__', 'the function')} takes its arguments by position, got the keyword "
                f"{next(iter(kwargs))}; what stays the same can be captured (functools.partial)"
            )
        for arg in args:
            if arg.__class__ is not _core.Tensor:
                break
        else:
            return of_tensors(traced, args)
        leaves = []
        rebuild = _flatten(args, leaves)
        compiled = of_trees.setdefault(_structure(args), _core._CompiledFunction())
        return compiled(lambda *tensors: traced(*rebuild(tensors)), leaves)

    return call
