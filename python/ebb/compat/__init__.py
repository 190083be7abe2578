# SPDX-License-Identifier: MIT
"""PyTorch's spelling: its names, arguments and options for Ebb's functions, and its functions that are formulas of them.

ebb and ebb.nn.functional have what is here. Modules import in one direction: ebb._core, Ebb's own (ebb.linalg, ebb.array_api,
...), this package, ebb.nn and ebb.optim, ebb itself, ebb.torch. Within the package:

_options, _network_options  options that take more than another name: alpha=, dtype=, return_indices=
_spelling                   other names of parameters and functions
_methods                    what Tensor has besides
_shapes, _numbers           functions of torch
_functional                 functions of torch.nn.functional
"""

import inspect as _inspect

from .. import _formula, linalg as _linalg
from . import _functional, _methods, _numbers, _shapes, _spelling

_functions = _spelling.functions()
for _module in (_functional, _shapes, _numbers):
    _functions.update((_name, getattr(_module, _name)) for _name in _module.__all__)
for _alias, _name in _spelling.ALIASES.items():
    _functions.setdefault(_alias, _functions[_name])
for _name, _dtype in _methods.DTYPES.items():
    _functions.setdefault(_name, _dtype)
for _name, _function in list(vars(_linalg).items()):
    if _inspect.isfunction(_function) and not _name.startswith("_") and _function.__module__ == _linalg.__name__:
        setattr(_linalg, _name, _spelling.respelled(_formula.described(_function)))
_spelling.install()
_methods.install(_functions)
__all__ = [*_functions]
globals().update(_functions)
