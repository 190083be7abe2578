# SPDX-License-Identifier: MIT
"""Files of tensors: NumPy's .npy and .npz, safetensors, and checkpoints. A damaged file is an OSError that names it."""

import collections.abc

from . import _elsewhere
from ._core import _io
from ._core._io import (  # noqa: F401
    Checkpoint,
    Safetensors,
    load_checkpoint,
    load_npy,
    load_npz,
    load_safetensors,
    previous_checkpoint,
    save_checkpoint,
    save_npy,
    save_npz,
)

__getattr__ = _elsewhere.of_module("ebb.io", _elsewhere.IO)


def save_safetensors(path, tensors, metadata=None):
    """Writes tensors by name, {"weight": w} or model.state_dict(), or those of a model; metadata are words by name."""
    if hasattr(tensors, "state_dict"):
        tensors = tensors.state_dict()
    if not isinstance(tensors, collections.abc.Mapping):
        raise TypeError(f"save_safetensors: takes a path, then tensors by name or a model, got {type(tensors).__name__}")
    _io.save_safetensors(path, tensors, metadata or {})
