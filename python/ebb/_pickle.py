# SPDX-License-Identifier: MIT
"""How tensors and dtypes are pickled: as values, variables as variables, each on its device."""

from . import _core


def tensor(elements, dtype_name, shape, is_variable, device="cpu"):
    return _core._from_pickle(elements, dtype(dtype_name), shape, is_variable, device)


def dtype(name):
    return _core.dtype(name)


def _reduce_tensor(self):
    return tensor, _core._to_pickle(self)


def _reduce_dtype(self):
    return dtype, (self.name,)


_core.Tensor.__reduce__ = _reduce_tensor
_core.DType.__reduce__ = _reduce_dtype
