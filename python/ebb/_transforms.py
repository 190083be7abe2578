# SPDX-License-Identifier: MIT
"""Gradients of Python functions. Arguments may be tensors, or lists, tuples and dicts of them."""

import functools

from . import _core


def _flatten(tree, leaves, *, keep=False, name="grad"):
    """Appends the tensors of a tree to leaves and returns a function that puts others in their places.

    What is no tensor becomes one, or with keep stays what it is.
    """
    if isinstance(tree, dict):
        parts = {k: _flatten(v, leaves, keep=keep, name=name) for k, v in tree.items()}
        return lambda new: {k: build(new) for k, build in parts.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_flatten(v, leaves, keep=keep, name=name) for v in tree]
        kind = type(tree)
        if hasattr(kind, "_fields"):
            return lambda new: kind(*[build(new) for build in parts])
        return lambda new: kind(build(new) for build in parts)
    if keep and not isinstance(tree, _core.Tensor):
        return lambda new: tree
    if hasattr(tree, "named_parameters"):
        raise TypeError(
            f"{name}: a {type(tree).__name__} is not a tensor; ebb.backward(loss) gives the gradients of a model's parameters"
        )
    position = len(leaves)
    leaves.append(tree if isinstance(tree, _core.Tensor) else _core.asarray(tree))
    return lambda new: new[position]


def _structure(tree):
    """What a tree is without its tensors, as a key."""
    if isinstance(tree, dict):
        return (dict, tuple((k, _structure(v)) for k, v in tree.items()))
    if isinstance(tree, (list, tuple)):
        return (type(tree), tuple(_structure(v) for v in tree))
    return None


def _positions(name, f, argnums):
    """The positions that argnums means; f and argnums are looked at before the function of them is called."""
    if not callable(f):
        raise TypeError(f"{name}: takes a function, got {type(f).__name__}")
    positions = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(positions, (tuple, list)) or not all(isinstance(p, int) for p in positions):
        raise TypeError(
            f"{name}: argnums is a position or a tuple of positions, got {type(argnums).__name__}; "
            f"{name}(f) is a function of what f takes, {name}(f)(x)"
        )
    return tuple(positions)


def _one_tensor(name, result):
    """The result of a function that is differentiated."""
    if isinstance(result, _core.Tensor):
        return result
    hint = ""
    if isinstance(result, (bool, int, float)):
        hint = ", which has no history: float(x) and x.item() leave it behind"
    elif isinstance(result, tuple) and name in ("grad", "value_and_grad"):
        hint = "; with has_aux=True it returns (value, anything)"
    raise TypeError(f"{name}: the function must return one tensor, got {type(result).__name__}{hint}")


class _Call:
    """A call of f as a function of the tensors in some of its arguments, one after the other."""

    def __init__(self, name, f, argnums, args, kwargs):
        positions = _positions(name, f, argnums)
        self.one = isinstance(argnums, int)
        if any(p >= len(args) or p < -len(args) for p in positions):
            raise ValueError(f"{name}: argument {max(positions)} is differentiated, but {len(args)} were given")
        self.name, self.f, self.args, self.kwargs = name, f, args, kwargs
        self.leaves = []
        self.builds = [(p, _flatten(args[p], self.leaves, name=name)) for p in positions]

    def __call__(self, *tensors):
        new = list(self.args)
        for p, build in self.builds:
            new[p] = build(tensors)
        return self.f(*new, **self.kwargs)

    def tensor(self, *tensors):
        """The call, whose result has to be one tensor."""
        return _one_tensor(self.name, self(*tensors))

    def of_leaf(self, k):
        """The call as a function of its tensor k; the others stay what they are."""
        return lambda tensor: self.tensor(*self.leaves[:k], tensor, *self.leaves[k + 1 :])

    def gradients(self, value):
        """Of value(*tensors), which has one element, with respect to the call's tensors."""
        return _core._value_and_grad(value, self.leaves)[1]

    def rebuild(self, found):
        """What was found for each tensor, in the structure of the arguments."""
        trees = tuple(build(found) for _, build in self.builds)
        return trees[0] if self.one else trees


def value_and_grad(f, argnums=0, *, has_aux=False):
    """A function that gives (f(x), df/dx); both come out of the same sweeps.

    f has one element in its result. argnums says which positional arguments are differentiated: a number, or a tuple
    for a tuple of gradients. An argument may be a list, tuple or dict of tensors; its gradient looks the same.
    With has_aux f gives (value, anything), and so does the first part of the result.
    """
    return _value_and_grad("value_and_grad", f, argnums, has_aux)


def _value_and_grad(name, f, argnums, has_aux):
    _positions(name, f, argnums)

    @functools.wraps(f)
    def both(*args, **kwargs):
        call = _Call(name, f, argnums, args, kwargs)
        aux = []

        def value_of(*tensors):
            result = call(*tensors)
            if has_aux:
                result, extra = result
                aux[:] = [extra]
            return _one_tensor(name, result)

        value, gradients = _core._value_and_grad(value_of, call.leaves)
        return ((value, aux[0]) if has_aux else value), call.rebuild(gradients)

    return both


def grad(f, argnums=0, *, has_aux=False):
    """A function that gives df/dx, for f with one element in its result; see value_and_grad for the arguments.

    They nest: grad(grad(f)) is the second derivative.
    """
    both = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args, **kwargs):
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def _given(name, f, x):
    """The call of f at x: a tuple holds the arguments of f, all of them differentiated; anything else is its one argument."""
    return _Call(name, f, tuple(range(len(x))), x, {}) if isinstance(x, tuple) else _Call(name, f, 0, (x,), {})


def _beside(call, v, what):
    """The tensors of v, one for each of the call's."""
    found = []
    x = call.args[0] if call.one else call.args
    _flatten(v, found, name=call.name)
    if _structure(v) != _structure(x) or [t.shape for t in found] != [t.shape for t in call.leaves]:
        raise ValueError(
            f"{call.name}: the {what} must have the structure and shapes of the input, "
            f"{[t.shape for t in call.leaves]}, got {type(v).__name__} of {[t.shape for t in found]}"
        )
    return [_core.stop_gradient(t) for t in found]


def _inner_product(xs, ys):
    """sum(x·y) over pairs of tensors."""
    return sum((x * y).sum() for x, y in zip(xs, ys))


def vjp(f, *xs):
    """(f(*xs), pull), where pull(g) is gᵀJ: the gradients that a cotangent g of the result gives, in the structure of xs.

    The arguments of f may be lists, tuples and dicts of tensors.
    """
    if len(xs) == 1 and isinstance(xs[0], _core.Tensor):
        return _core.vjp(f, *xs)
    call = _Call("vjp", f, 0 if len(xs) == 1 else tuple(range(len(xs))), xs, {})
    y = call.tensor(*call.leaves)

    def pull(g):
        g = _core.asarray(g)
        if g.shape != y.shape:
            raise ValueError(f"vjp: the cotangent has shape {g.shape}, the result {y.shape}")
        return call.rebuild(call.gradients(lambda *z: _inner_product([call(*z)], [_core.stop_gradient(g)])))

    return y, pull


def jvp(f, x, v):
    """(f(x), J·v): the derivative of f in the direction v, which looks like x.

    x is a tensor, a list or dict of tensors, or a tuple of the arguments of f.
    """
    if isinstance(x, _core.Tensor):
        return _core.jvp(f, x, v)
    call = _given("jvp", f, x)
    tangents = _beside(call, v, "tangent")
    y = call.tensor(*call.leaves)

    # u -> uᵀJ is linear in u, so its gradient in the direction v is J·v.
    def pulled(u):
        return _inner_product(call.gradients(lambda *z: _inner_product([call(*z)], [u])), tangents)

    return y, _core._value_and_grad(pulled, [_core.zeros_like(y)])[1][0]


def hvp(f, x, v):
    """H·v, for f with one element in its result; it looks like x, and so does v.

    x is a tensor, a list or dict of tensors, or a tuple of the arguments of f.
    """
    if isinstance(x, _core.Tensor):
        return _core.hvp(f, x, v)
    call = _given("hvp", f, x)
    vectors = _beside(call, v, "vector")

    def along(*z):
        return _inner_product(_core._value_and_grad(call, list(z))[1], vectors)

    return call.rebuild(call.gradients(along))


def jacobian(f, x=None, *, argnums=0):
    """J = df/dx, in the shape of f(x) followed by that of x; jacobian(f) is a function of what f takes.

    argnums says which positional arguments of that function are differentiated, and they may be lists, tuples and dicts
    of tensors, as in grad: there is one J per tensor then, in the same structure. jacobian(f, (x, y)) is about both
    arguments of f(x, y).
    """
    return _function_or_value("jacobian", _jacobian_of, f, x, argnums)


def hessian(f, x=None, *, argnums=0):
    """H = d²f/dx², in the shape x.shape + x.shape, for f with one element in its result; hessian(f) is a function of what
    f takes.

    argnums says which positional arguments of that function are differentiated, and they may be lists, tuples and dicts
    of tensors, as in grad: there is one block per pair of tensors then, and H["w"]["b"] is the derivative of df/dw with
    respect to b. hessian(f, (x, y)) is about both arguments of f(x, y).
    """
    return _function_or_value("hessian", _hessian_of, f, x, argnums)


def _function_or_value(name, of, f, x, argnums):
    _positions(name, f, argnums)
    if x is not None:
        return of(_given(name, f, x))

    @functools.wraps(f)
    def function(*args, **kwargs):
        return of(_Call(name, f, argnums, args, kwargs))

    return function


def _jacobian_of(call):
    return call.rebuild([_core.jacobian(call.of_leaf(k), leaf) for k, leaf in enumerate(call.leaves)])


def _hessian_of(call):
    def block(i, j):  # the derivative of df/dx_i with respect to x_j
        if i == j:
            return _core.hessian(call.of_leaf(i), call.leaves[i])

        def gradient(x_j):
            def value(x_i):
                leaves = list(call.leaves)
                leaves[i], leaves[j] = x_i, x_j
                return call(*leaves)

            return _core._value_and_grad(value, [call.leaves[i]])[1][0]

        return _core.jacobian(gradient, call.leaves[j])

    every = range(len(call.leaves))
    return call.rebuild([call.rebuild([block(i, j) for j in every]) for i in every])


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
