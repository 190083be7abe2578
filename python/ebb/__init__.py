# SPDX-License-Identifier: MIT
"""Ebb: losses, gradients and training. Data flows forward, gradients ebb back.

Tensors are lazy values: an operation returns at once, the numbers are computed when somebody looks at them
(float(x), x.numpy(), print(x), ebb.eval(...)). Names and options are those of the C++ library and of
torch.nn.functional.
"""

from . import _core, _einops, _elsewhere, _numpy, _pickle, _workers
from .compat import *  # noqa: F403: every operation, called by Ebb's names of its arguments or by PyTorch's
from ._core import __version__  # noqa: F401
from ._compile import compile
from ._memory import memory_budget
from ._precision import get_float32_matmul_precision, set_float32_matmul_precision
from ._transforms import custom_gradient, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from .losses import *  # noqa: F403: losses are functions of the library like any other
from . import __config__, array_api, compat, cuda, data, distributed, gradcheck, io, linalg, losses, models, nn, optim


def _array_namespace(self, *, api_version=None):
    """The module that follows the Python array API standard."""
    if api_version is not None and api_version > array_api.__array_api_version__:
        raise ValueError(
            f"__array_namespace__: version {api_version} of the array API is not there, "
            f"{array_api.__array_api_version__} is"
        )
    return array_api


def _to_device(self, device, /, *, stream=None):
    """The same numbers on another device."""
    return self.to(str(device))


_core.Tensor.__array_namespace__ = _array_namespace
_core.Tensor.to_device = _to_device
_core.Tensor.__array_ufunc__ = _numpy.array_ufunc
_elsewhere.explain(_core.Tensor, _elsewhere.TENSOR)
__getattr__ = _elsewhere.of_module("ebb", _elsewhere.PACKAGE)
_einops.register()
