# SPDX-License-Identifier: MIT
"""Optimisers, schedules of the learning rate, what is done to gradients and weights around a step, and minimisers.

optimizer = ebb.optim.Adam(lr=1e-3)
optimizer.step(model, ebb.backward(loss))      # the model has new parameters
optimizer.lr = schedule(step)
"""

import copy
import typing

from . import _core, _elsewhere
from ._core import Gradients, Tensor
from ._core._optim import (  # noqa: F401
    GradientAccumulator,
    ReduceOnPlateau,
    _LossScaler,
    _minimize_lbfgs,
    _minimize_model,
    _WeightEma,
    clip_by_norm,
    clip_by_value,
    constant_schedule,
    cosine_schedule,
    decay_matrices,
    exponential_schedule,
    global_norm,
    linear_schedule,
    multistep_schedule,
    one_cycle_momentum,
    one_cycle_schedule,
    scale_gradients,
    step_schedule,
    warm_up,
)
from ._core._optim import minimize_newton_cg as _minimize_newton_cg
from ._optimizers import *  # noqa: F403
from ._optimizers import Optimizer
from ._transforms import _flatten
from .nn import _trained, _walk


class _Taken:
    """The tensors of a model, taken out for a step and put back after it."""

    def __init__(self, model):
        self.trained = _trained(model)
        self.kept = [m for m in _walk(model) if not m[1]]
        if not self.trained:
            raise ValueError(
                f"optim: a {type(model).__name__} has no parameters; derive the model from ebb.nn.Module, with tensors "
                "and layers as attributes, or give a layer, a dict or a list of tensors"
            )

    def parameters(self):
        return [(name, tensor) for name, _, tensor, _ in self.trained]

    def buffers(self):
        return [(name, tensor) for name, _, tensor, _ in self.kept]

    def put_back(self, parameters, buffers=()):
        for (_, _, old, assign), new in zip(self.trained, parameters):
            if new is not old:
                assign(new)
        for (*_, assign), new in zip(self.kept, buffers):
            assign(new)


def _gradients_of(taken, gradients):
    """Gradients by variable; a tree of gradients, as ebb.grad gives it, is matched with the model's tensors by name."""
    if isinstance(gradients, Gradients):
        return gradients
    by_name = {name: gradient for name, _, gradient, _ in _walk(gradients)}
    return Gradients([(tensor, by_name[name]) for name, tensor in taken.parameters() if name in by_name])


def _step(self, model=None, gradients=None):
    """Gives the model (a Module, a layer, a dict or a list of tensors) new parameters; everything is computed now."""
    if gradients is None:
        raise TypeError(
            f"{type(self).__name__}.step: takes the model and its gradients, optimizer.step(model, ebb.backward(loss))"
        )
    taken = _Taken(model)
    taken.put_back(*self._step(taken.parameters(), taken.buffers(), _gradients_of(taken, gradients)))


def _print_step(self, model, gradients):
    """The sweeps that step() would run, as text; nothing changes."""
    taken = _Taken(model)
    return self._print_step(taken.parameters(), taken.buffers(), _gradients_of(taken, gradients))


Optimizer.step = _step
Optimizer.print_step = _print_step
_elsewhere.explain(Optimizer, _elsewhere.OPTIMIZER)
__getattr__ = _elsewhere.of_module("ebb.optim", _elsewhere.OPTIM)


class LossScaler(_LossScaler):
    """Multiplies the loss so that small gradients do not vanish in f16, and finds the factor by itself."""

    def step(self, optimizer, model, gradients):
        """Unscales, then steps where every gradient is finite, and says whether it did."""
        taken = _Taken(model)
        stepped, parameters, buffers = super()._step(
            optimizer, taken.parameters(), taken.buffers(), _gradients_of(taken, gradients)
        )
        taken.put_back(parameters, buffers)
        return stepped


class WeightEma(_WeightEma):
    """An average of the weights over the steps, ema ← decay·ema + (1 − decay)·p; the first update copies."""

    def update(self, model):
        """Takes the model's weights into the average."""
        self._update(_Taken(model).parameters())

    def averaged(self, model):
        """A copy of the model with the averaged weights."""
        copied = copy.deepcopy(model)
        self.assign_to(copied)
        return copied

    def assign_to(self, model):
        """Gives the model the averaged weights."""
        taken = _Taken(model)
        taken.put_back(self._averaged(taken.parameters()))


class Minimum(typing.NamedTuple):
    """Where a minimiser ended."""

    x: typing.Any
    value: float
    gradient_norm: float
    iterations: int
    evaluations: int
    products: int
    converged: bool


def _minimum(found, x):
    return Minimum(x, *(getattr(found, name) for name in Minimum._fields[1:]))


def _minimize(minimise, name, f, x, options):
    """Minimises f(x) of a tensor, or of a list, tuple or dict of tensors, which the minimiser sees as one vector."""
    if isinstance(x, Tensor):
        found = minimise(f, x, **options)
        return _minimum(found, found.x)
    leaves = []
    build = _flatten(x, leaves, name=name)
    ends = [0]
    for leaf in leaves:
        ends.append(ends[-1] + leaf.numel())

    def parts(vector):
        return build([vector[a:b].reshape(leaf.shape).cast(leaf.dtype) for leaf, a, b in zip(leaves, ends, ends[1:])])

    found = minimise(lambda vector: f(parts(vector)), _core.cat([leaf.reshape(-1) for leaf in leaves]), **options)
    return _minimum(found, parts(found.x))


def _is_model(x):
    """Whether x has layers, whose parameters a minimiser replaces; what has only tensors is an argument of the function."""
    if isinstance(x, dict):
        return any(_is_model(part) for part in x.values())
    if isinstance(x, (list, tuple)):
        return any(_is_model(part) for part in x)
    return hasattr(x, "named_parameters")


def minimize_lbfgs(f, x, *, history=10, max_iterations=100, tolerance=1e-7, change_tolerance=1e-12, c1=1e-4, c2=0.9):
    """Limited-memory BFGS with a line search for the strong Wolfe conditions.

    Of a function f(x) of one tensor, or of a list, tuple or dict of tensors; or, where x is a model, of a function f() that
    computes the loss from the model as it is. The model's parameters are replaced then, and x of the result is all of them
    in one vector.
    """
    if _is_model(x):
        taken = _Taken(x)
        tensors = [tensor for _, tensor in taken.parameters()]
        found = _minimize_model(f, taken.put_back, tensors, history, max_iterations, tolerance, change_tolerance, c1, c2)
        return _minimum(found, found.x)
    options = dict(
        history=history,
        max_iterations=max_iterations,
        tolerance=tolerance,
        change_tolerance=change_tolerance,
        c1=c1,
        c2=c2,
    )
    return _minimize(_minimize_lbfgs, "minimize_lbfgs", f, x, options)


def minimize_newton_cg(f, x, *, max_iterations=100, max_products=0, tolerance=1e-7, c1=1e-4):
    """Newton's method with conjugate gradients, which take Hessian-vector products alone.

    Of a function f(x) of one tensor, or of a list, tuple or dict of tensors. max_products is per iteration (0: twice the
    number of elements).
    """
    options = dict(max_iterations=max_iterations, max_products=max_products, tolerance=tolerance, c1=c1)
    return _minimize(_minimize_newton_cg, "minimize_newton_cg", f, x, options)
