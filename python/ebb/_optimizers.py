# SPDX-License-Identifier: MIT
"""The optimisers as classes, one for each entry of the library's registry: arguments and defaults are those of C++."""

import inspect

from . import _core
from ._core._optim import Optimizer

optimizer_registry = _core._optim._optimizers()
__all__ = ["Optimizer", "make_optimizer", "optimizer_info", "optimizer_registry"]

_PYTHON_NAMES = {"Sgd": "SGD"}  # PyTorch's


def arguments(entry):
    """(argument, default, names of its options); beta1, beta2, ... are one argument, betas."""
    betas = [option for option in entry["options"] if option[0].startswith("beta")]
    for name, default, _ in entry["options"]:
        if name == "beta1":
            yield "betas", tuple(b[1] for b in betas), [b[0] for b in betas]
        elif not name.startswith("beta"):
            yield name, default, [name]


def _doc(entry):
    lines = [entry["update"], "", "Options:"]
    lines += [f"    {name}: {meaning} (default {default!r})" for name, default, meaning in entry["options"]]
    lines += ["    decays: which parameters weight decay applies to: None (all), 'matrices', or f(name, tensor)"]
    return "\n".join(lines)


def _make(entry):
    all_arguments = list(arguments(entry))
    parameter = inspect.Parameter
    signature = inspect.Signature(
        [parameter("self", parameter.POSITIONAL_OR_KEYWORD)]
        + [parameter(name, parameter.POSITIONAL_OR_KEYWORD, default=default) for name, default, _ in all_arguments]
        + [parameter("decays", parameter.KEYWORD_ONLY, default=None)]
    )
    class_name = _PYTHON_NAMES.get(entry["class_name"], entry["class_name"])

    def __init__(self, *args, **kwargs):
        if args and not isinstance(args[0], (int, float)):
            raise TypeError(
                f"{class_name}: its first argument is the learning rate, got {type(args[0]).__name__}; the model is given "
                f"to step(model, gradients)"
            )
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            known = ", ".join(name for name, *_ in all_arguments)
            raise TypeError(f"{class_name}: {error}; its arguments are {known} and decays") from None
        options = {}
        if callable(given.get("lr")):
            raise TypeError(f"{class_name}: lr is a number; with a schedule, optimizer.lr = schedule(step) before each step")
        for name, _, names in all_arguments:
            if name not in given:
                continue
            if name == "betas":
                if len(given[name]) != len(names):
                    raise ValueError(f"{class_name}: betas are {len(names)} numbers, got {len(given[name])}")
                options.update(zip(names, given[name]))
            else:
                options[name] = given[name]
        _start(self, entry["name"], options, given.get("decays"))

    def __repr__(self):
        now = {**{name: default for name, default, _ in entry["options"]}, **self._options, "lr": self.lr}
        shown = [(name, tuple(now[n] for n in names) if name == "betas" else now[name]) for name, _, names in all_arguments]
        return f"{class_name}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    __init__.__signature__ = signature
    members = {"__init__": __init__, "__repr__": __repr__, "__doc__": _doc(entry), "__module__": "ebb.optim"}
    return type(class_name, (Optimizer,), members)


def _start(optimizer, name, options, decays):
    Optimizer.__init__(optimizer, name, options, decays)
    optimizer._options = options


_classes = {}
for _entry in optimizer_registry:
    _class = _classes[_entry["name"]] = _make(_entry)
    globals()[_class.__name__] = _class
    __all__ += [_class.__name__]


def _set_momentum(self, momentum):
    """One-cycle schedules move it too."""
    self._set_momentum(momentum)


SGD.set_momentum = _set_momentum  # noqa: F821
Sgd = SGD  # noqa: F821
__all__ += ["Sgd"]


def optimizer_info(name):
    """The entry of that name: its class, what a step does, its options with their defaults."""
    _core._optim._check_optimizer_name(name)
    return next(entry for entry in optimizer_registry if entry["name"] == name)


def make_optimizer(name, options=None, decays=None):
    """An optimiser by the name it has on the command line: make_optimizer("adamw", {"lr": 3e-4}, "matrices")."""
    optimizer_info(name)
    made = _classes[name].__new__(_classes[name])
    _start(made, name, dict(options or {}), decays)
    return made
