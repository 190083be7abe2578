# SPDX-License-Identifier: MIT
"""Files of tensors: NumPy's .npy and .npz, safetensors, and checkpoints. A damaged file is an OSError that names it."""

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
    save_safetensors,
)
