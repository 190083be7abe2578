# SPDX-License-Identifier: MIT
"""Gradients of Python functions. Arguments may be tensors, or lists, tuples and dicts of them."""

import functools

from . import _core


def _flatten(tree, leaves, *, keep=False):
    """Appends the tensors of a tree to leaves and returns a function that puts others in their places.

    What is no tensor becomes one, or with keep stays what it is.
    """
    if isinstance(tree, dict):
        parts = {k: _flatten(v, leaves, keep=keep) for k, v in tree.items()}
        return lambda new: {k: build(new) for k, build in parts.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_flatten(v, leaves, keep=keep) for v in tree]
        kind = type(tree)
        if hasattr(kind, "_fields"):
            return lambda new: kind(*[build(new) for build in parts])
        return lambda new: kind(build(new) for build in parts)
    if keep and not isinstance(tree, _core.Tensor):
        return lambda new: tree
    if hasattr(tree, "named_parameters"):
        raise TypeError(
            f"grad: a {type(tree).__name__} is not a tensor; ebb.backward(loss) gives the gradients of a model's parameters"
        )
    position = len(leaves)
    leaves.append(tree if isinstance(tree, _core.Tensor) else _core.asarray(tree))
    return lambda new: new[position]


def value_and_grad(f, argnums=0, *, has_aux=False):
    """A function that gives (f(x), df/dx); both come out of the same sweeps.

    f has one element in its result. argnums says which positional arguments are differentiated: a number, or a tuple
    for a tuple of gradients. An argument may be a list, tuple or dict of tensors; its gradient looks the same.
    With has_aux f gives (value, anything), and so does the first part of the result.
    """
    one = isinstance(argnums, int)
    positions = (argnums,) if one else tuple(argnums)

    @functools.wraps(f)
    def both(*args, **kwargs):
        if any(p >= len(args) or p < -len(args) for p in positions):
            raise ValueError(f"grad: argument {max(positions)} is differentiated, but {len(args)} were given")
        leaves = []
        builds = [_flatten(args[p], leaves) for p in positions]
        aux = []

        def call(*tracked):
            new = list(args)
            for p, build in zip(positions, builds):
                new[p] = build(tracked)
            result = f(*new, **kwargs)
            if has_aux:
                result, extra = result
                aux[:] = [extra]
            return result

        value, gradients = _core._value_and_grad(call, leaves)
        found = tuple(build(gradients) for build in builds)
        return ((value, aux[0]) if has_aux else value), (found[0] if one else found)

    return both


def grad(f, argnums=0, *, has_aux=False):
    """A function that gives df/dx, for f with one element in its result; see value_and_grad for the arguments.

    They nest: grad(grad(f)) is the second derivative.
    """
    both = value_and_grad(f, argnums, has_aux=has_aux)

    @functools.wraps(f)
    def gradient(*args, **kwargs):
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def custom_gradient(rule):
    """Decorates a function of tensors whose gradient is rule(grad, output, inputs), one cotangent for each input.

    @ebb.custom_gradient(lambda grad, y, inputs: [grad.clamp(-1, 1)])
    def identity_with_bounded_gradient(x):
        return x
    """

    def decorate(forward):
        @functools.wraps(forward)
        def call(*inputs):
            return _core.custom_function(forward, rule, *inputs)

        return call

    return decorate
