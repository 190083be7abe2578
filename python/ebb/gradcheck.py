# SPDX-License-Identifier: MIT
"""Gradients held against central differences, for those who write their own functions and rules."""

from . import _elsewhere
from ._core import GradcheckReport, check_gradients, check_second_gradients, numerical_gradient

__all__ = [
    "GradcheckReport",
    "check_gradients",
    "check_second_gradients",
    "numerical_gradient",
    "require_gradients",
    "require_second_gradients",
]


__getattr__ = _elsewhere.of_module("ebb.gradcheck", _elsewhere.GRADCHECK)


def require_gradients(f, inputs, **options):
    """Raises ValueError with the table unless check_gradients passes."""
    report = check_gradients(f, inputs, **options)
    if not report:
        raise ValueError(f"gradcheck: gradients differ from central differences\n{report}")


def require_second_gradients(f, inputs, **options):
    """Raises ValueError with the table unless check_second_gradients passes."""
    report = check_second_gradients(f, inputs, **options)
    if not report:
        raise ValueError(f"gradcheck: second gradients differ from central differences\n{report}")
