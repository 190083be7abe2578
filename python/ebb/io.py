# SPDX-License-Identifier: MIT
"""Files of tensors: NumPy's .npy and .npz, safetensors, and checkpoints. A damaged file is an OSError that names it."""

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
    _io.save_safetensors(path, tensors, metadata or {})
