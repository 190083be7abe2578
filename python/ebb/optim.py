# SPDX-License-Identifier: MIT
"""Optimisers, schedules of the learning rate, what is done to gradients and weights around a step, and minimisers.

optimizer = ebb.optim.Adam(lr=1e-3)
optimizer.step(model, ebb.backward(loss))      # the model has new parameters
optimizer.lr = schedule(step)
"""

from . import _elsewhere
from ._core import Gradients, Tensor
from ._core._optim import (  # noqa: F401
    GradientAccumulator,
    Minimum,
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
    minimize_newton_cg,
    multistep_schedule,
    one_cycle_momentum,
    one_cycle_schedule,
    scale_gradients,
    step_schedule,
    warm_up,
)
from ._optimizers import *  # noqa: F403
from ._optimizers import Optimizer
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

    def assign_to(self, model):
        """Gives the model the averaged weights."""
        taken = _Taken(model)
        taken.put_back(self._averaged(taken.parameters()))


def minimize_lbfgs(f, x, *, history=10, max_iterations=100, tolerance=1e-7, change_tolerance=1e-12, c1=1e-4, c2=0.9):
    """Limited-memory BFGS with a line search for the strong Wolfe conditions.

    Of a function f(x) of one tensor; or, where x is a model, of a function f() that computes the loss from the model as it
    is. The model's parameters are replaced then, and x of the result is all of them in one vector.
    """
    if isinstance(x, Tensor):
        return _minimize_lbfgs(
            f,
            x,
            history=history,
            max_iterations=max_iterations,
            tolerance=tolerance,
            change_tolerance=change_tolerance,
            c1=c1,
            c2=c2,
        )
    taken = _Taken(x)
    tensors = [tensor for _, tensor in taken.parameters()]
    return _minimize_model(f, taken.put_back, tensors, history, max_iterations, tolerance, change_tolerance, c1, c2)
