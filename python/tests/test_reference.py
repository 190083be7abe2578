# SPDX-License-Identifier: MIT
"""Everything that can be called says what it does, and has a place in the reference."""

import inspect
import re
import types

import pytest

import ebb

MODULES = ["", "nn", "nn.init", "optim", "losses", "data", "io", "linalg", "gradcheck", "array_api"]
SIGNATURE = re.compile(r"^(\d+\. )?`*\w+\(.*\) -> .*|^Overloaded function\.$")


def module_of(name):
    module = ebb
    for part in filter(None, name.split(".")):
        module = getattr(module, part)
    return module


def sentences(function):
    """The lines of a docstring that are not signatures."""
    lines = (inspect.getdoc(function) or "").splitlines()
    return [line for line in lines if line.strip() and not SIGNATURE.match(line)]


def callables(module):
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
            continue
        yield name, value
        if isinstance(value, type) and value.__module__.startswith("ebb"):
            for member, function in vars(value).items():
                if not member.startswith("_") and callable(function):
                    yield f"{name}.{member}", function


@pytest.mark.parametrize("name", MODULES)
def test_every_callable_has_a_sentence(name):
    found = list(callables(module_of(name)))
    assert len(found) > 1
    assert not [callable_name for callable_name, value in found if not sentences(value)]


def test_backward_functions_say_whether_they_take_the_result():
    for name in "sigmoid tanh softmax log_softmax sqrt exp reciprocal".split():
        assert f"y is the result of {name}" in getattr(ebb, name + "_backward").__doc__
    assert "is the result" not in ebb.relu_backward.__doc__
